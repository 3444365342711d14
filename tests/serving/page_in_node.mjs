// Runs the page's scripts in Node.js, with as much of a browser's document as they use.
//
//     node page_in_node.mjs URL QUESTIONS
//
// QUESTIONS is JSON, a list of {model, other, text, second}: what to choose and to type. Without `second`, the part for
// a pair stays closed. Prints what the page then shows, as JSON: for each question {message, articles}, in which an
// article is a list of elements, {tag, class, text}, in their order. page.js must be in the working directory.

import { pathToFileURL } from "node:url";
import { setTimeout as pause } from "node:timers/promises";

const [url, questions] = process.argv.slice(2);

class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, children: [], listeners: {}, value: "", hidden: false, open: false });
    this.style = { setProperty: (name, value) => (this.attributes[name] = String(value)) };
  }

  setAttribute = (name, value) => (this.attributes[name] = String(value));
  removeAttribute = (name) => delete this.attributes[name];
  addEventListener = (name, listener) => (this.listeners[name] = listener);
  append = (...added) => this.place(this.children.length, added);
  prepend = (...added) => this.place(0, added);
  after = (...added) => this.parent.place(this.parent.children.indexOf(this) + 1, added);
  focus = () => {};

  place(index, added) {
    const children = added.map((child) => (typeof child === "string" ? { text: child } : child));
    for (const child of children) child.parent = this;
    this.children.splice(index, 0, ...children);
  }

  replaceChildren(...added) {
    this.children = [];
    this.append(...added);
    if (this.tag === "select") this.value = added[0]?.value ?? "";
  }

  get options() {
    return this.children;
  }

  get childElementCount() {
    return this.children.filter((child) => child instanceof Element).length;
  }

  get textContent() {
    return this.children.map((child) => (child instanceof Element ? child.textContent : child.text)).join("");
  }

  set textContent(text) {
    this.children = [];
    this.append(text);
  }

  /** Yields all elements inside this one. */
  *inside() {
    for (const child of this.children.filter((each) => each instanceof Element)) yield* [child, ...child.inside()];
  }

  querySelector(selector) {
    const has = (each) => (each.attributes.class ?? "").split(" ").includes(selector.slice(1));
    return [...this.inside()].find(has) ?? null; // only classes are asked for
  }
}

globalThis.Option = class extends Element {
  constructor(text, value) {
    super("option");
    Object.assign(this, { text, value });
  }
};

const ask = globalThis.fetch;
globalThis.fetch = (path, options) => ask(new URL(path, url), options);
const page = await (await ask(url, { headers: { accept: "text/html" } })).text();
const byId = Object.fromEntries(
  [...page.matchAll(/<(\w+) id="([\w-]+)"/g)].map(([, tag, id]) => [id, new Element(tag)]),
);
const [, names] = page.match(/<meta name="models" content="([^"]*)">/);
globalThis.document = {
  hidden: false,
  addEventListener: () => {},
  createElement: (tag) => new Element(tag),
  getElementById: (id) => byId[id],
  querySelector: () => ({ content: names.replaceAll("&quot;", '"') }),
};
await import(pathToFileURL("page.js"));

const shown = [];
for (const { model, other, text, second } of JSON.parse(questions)) {
  for (const [select, name] of [[byId.model, model], [byId.other, other ?? "nothing"]]) {
    select.value = select.options.find((one) => one.text.split(",")[0] === name).value;
  }
  byId.form.listeners.change();
  byId.text.value = text;
  byId["second-part"].open = second !== undefined;
  byId.second.value = second ?? "";
  byId.form.listeners.submit({ preventDefault() {} });
  while ("aria-busy" in byId.answers.attributes) await pause(5);
  const described = (each) => ({ tag: each.tag, class: each.attributes.class ?? "", text: each.textContent });
  const articles = byId.answers.children.map((article) => [...article.inside()].map(described));
  shown.push({ message: byId.message.textContent, articles });
}
console.log(JSON.stringify(shown));
