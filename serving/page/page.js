// The page at `/`: sends texts to the served models, like any client of the REST interface.

import { capitalized, element, inShort, piecesOf, showOutputs, showTokens } from "./answer.js";
import { cutAfter, cutByEmbedding } from "./cut.js";
import { Unanswered, forget, predict, textInputs, versionsOf } from "./rest.js";

const [form, model, other, text, second, secondPart, message, answers, notice, list] = [
  "form", "model", "other", "text", "second", "second-part", "message", "answers", "notice", "models",
].map((id) => document.getElementById(id));
const names = JSON.parse(document.querySelector("meta[name=models]").content);
let served = []; // the versions that take a text
let running = new AbortController();
let looks = 0;
let again; // the next look at a server that does not answer
const AGAIN_MILLISECONDS = 2000;

/** Shows what is served now, and keeps the user's choices; if the server does not answer, keeps the last list. */
async function refresh() {
  const look = ++looks;
  clearTimeout(again);
  const failed = (name, error) => ({ name, error, signatures: {}, tasks: {} });
  const asked = names.map((name) => versionsOf(name).catch((error) => [failed(name, error)]));
  const versions = (await Promise.all(asked)).flat();
  if (look !== looks) return; // a later look has begun
  if (versions.some(({ error }) => error instanceof Unanswered)) {
    const last = list.childElementCount ? " Below is what it served last." : "";
    notice.textContent = `The server does not answer.${last}`;
    forget();
    again = setTimeout(refresh, AGAIN_MILLISECONDS);
    return;
  }
  list.replaceChildren(...versions.map(row));
  served = versions.filter(({ tasks }) => tasks.text);
  const options = () => served.map((one) => new Option(titleOf(one), one.path));
  choose(model, options());
  choose(other, [new Option("nothing", ""), ...options()]);
  if (served.length) form.hidden = false; // from now on it stays, with what has been typed
  notice.textContent = served.length ? "" : whyNone(versions);
  showSecond();
}

function whyNone(versions) {
  if (!versions.length) return "No model is served.";
  if (!versions.some(({ state }) => state === "AVAILABLE")) return "No model is ready.";
  return "None of the models takes a text; they can be asked over REST.";
}

function choose(select, options) {
  const same = (one, i) => one.text === select.options[i].text && one.value === select.options[i].value;
  if (options.length === select.options.length && options.every(same)) return; // it may be open
  const chosen = select.value;
  select.replaceChildren(...options);
  if (options.some(({ value }) => value === chosen)) select.value = chosen;
}

function chosenModels() {
  const paths = [model.value, other.value].filter(Boolean);
  return paths.map((path) => served.find((one) => one.path === path)).filter(Boolean);
}

function showSecond() {
  secondPart.hidden = !chosenModels().some(({ tasks }) => tasks.pair);
}

function titleOf({ name, version }) {
  return `${name}, version ${version}`;
}

function row({ name, version, state, error, signatures, tasks }) {
  const { label, generated_text: generated } = signatures[tasks.text]?.outputs ?? {};
  const answers = label ? "labels texts" : generated ? "generates text" : "answers texts";
  const uses = [
    tasks.text && answers,
    tasks.pair && (label ? "labels pairs" : "takes pairs"),
    tasks.generate && "generates text",
    (tasks.explain || tasks.explainPair) && "shows what mattered",
  ].filter(Boolean);
  const others = Object.keys(signatures).sort().join(", ");
  const use = uses.join(", ") || (others && `takes no text; its signatures: ${others}`);
  const about = element("span", {}, element("strong", {}, name));
  if (version) about.append(` version ${version}, ${state}`);
  const why = error?.message ?? error;
  return element("li", {}, about, element("span", { class: why ? "error" : "quiet" }, why || use));
}

/** Asks the chosen models one after the other, so that neither slows down the other. */
async function run() {
  const missing = !text.value.trim() ? "Type or paste a text first." : !chosenModels().length ? "No model to ask." : "";
  text.setAttribute("aria-invalid", String(!text.value.trim()));
  running.abort();
  if (missing) {
    answers.replaceChildren();
    answers.removeAttribute("aria-busy");
    message.textContent = missing;
    text.focus();
    return;
  }
  running = new AbortController();
  const { signal } = running;
  const chosen = chosenModels();
  const articles = chosen.map((one) => element("article", {}, element("h2", {}, titleOf(one))));
  answers.replaceChildren(...articles);
  answers.setAttribute("aria-busy", "true");
  message.textContent = "Asking …";
  try {
    const summaries = [];
    for (const [i, one] of chosen.entries()) {
      summaries.push(await part(articles[i], () => answer(one, articles[i], signal)));
    }
    message.textContent = summaries.join(" ");
    for (const [i, one] of chosen.entries()) {
      if (articles[i].querySelector(".error")) continue; // further requests would fail too
      await part(articles[i], () => furtherAnswers(one, articles[i], signal));
    }
    await refresh();
    answers.removeAttribute("aria-busy");
  } catch (error) {
    if (error.name !== "AbortError") throw error; // a newer request has replaced this one
  }
}

/** Runs one step; if it fails, shows the error in the model's article, so that the others can go on. */
async function part(article, task) {
  try {
    return await task();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    article.append(element("p", { class: "error" }, error.message));
    return `Error: ${error.message}`;
  }
}

function hasSecond() {
  return !secondPart.hidden && secondPart.open && second.value !== "";
}

function isPair({ tasks }) {
  return tasks.pair && hasSecond();
}

async function answer(one, article, signal) {
  const signature = isPair(one) ? one.tasks.pair : one.tasks.text;
  const [first, pair] = textInputs(one.signatures[signature]);
  const inputs = pair ? { [first]: text.value, [pair]: second.value } : { [first]: text.value };
  const { outputs, milliseconds } = await predict(one, signature, inputs, signal);
  const taken = `${milliseconds.toFixed(milliseconds < 100 ? 1 : 0)} ms`;
  const ofOne = hasSecond() && !pair ? "; this model reads only the first text" : "";
  const latency = element("p", { class: "quiet latency" }, `${taken} to the server and back${ofOne}`);
  article.append(...showOutputs(outputs, one.classes), latency);
  return `${one.name}: ${inShort(outputs)}, in ${taken}.`;
}

/** Shows what takes longer: generated text, the pieces of the text that mattered, and whether it was cut. */
async function furtherAnswers(one, article, signal) {
  const texts = isPair(one) ? [text.value, second.value] : [text.value];
  const { generate } = one.tasks;
  const explain = isPair(one) ? one.tasks.explainPair : one.tasks.explain;
  const asked = texts.join(" "); // the two share a row
  const of = (signature) => ({ [textInputs(one.signatures[signature])[0]]: asked });
  if (generate) {
    const { outputs } = await predict(one, generate, of(generate), signal);
    article.append(...showOutputs(outputs, []));
  }
  if (explain) {
    const inputs = Object.fromEntries(textInputs(one.signatures[explain]).map((name, i) => [name, texts[i]]));
    const { outputs } = await predict(one, explain, inputs, signal);
    const names = texts.length > 1 ? ["the first text", "the second text"] : ["the text"];
    article.append(...showTokens(outputs, names));
    const tokens = piecesOf(outputs, texts.length).map((pieces) => pieces.map(({ token }) => token));
    const ends = tokens.map((each, i) => cutAfter(texts[i], each));
    const upTo = (end) => `was cut: the model reads it up to “${end}”, and nothing after that.`;
    const sentences = ends.flatMap((end, i) => (end ? [`${capitalized(names[i])} ${upTo(end)}`] : []));
    if (sentences.length) showCut(one, article, sentences.join(" "));
    if (sentences.length || !ends.includes(undefined)) return;
  }
  const cut = await cutByEmbedding(one, asked, signal).catch((error) => {
    if (error.name === "AbortError") throw error; // other failures do not concern the answer
  });
  if (cut === "cut") showCut(one, article, "The text was cut: it is longer than what the model reads.");
  if (cut === "perhaps") showCut(one, article, "The model reads no more than this: the last word may have been cut.");
}

function showCut(one, article, sentence) {
  article.querySelector(".latency").after(element("p", { class: "cut" }, sentence));
  message.textContent += ` ${one.name}: ${sentence}`;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
form.addEventListener("change", showSecond);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
await refresh();
text.focus();
