// Shows the answer of one model as elements. Anything from outside is inserted as text.

/** Makes an element with attributes and children, which are elements or texts. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Returns a summary in a few words, for the line that screen readers read out. */
export function inShort({ label, scores, ...others }) {
  if (label === undefined) return shown(others.generated_text ?? Object.values(others)[0] ?? scores).slice(0, 80);
  return isNumbers(scores) ? `${shown(label)}, ${percent(Math.max(...scores))}` : shown(label);
}

/** Shows the outputs of a model: label, probabilities, and anything else. */
export function showOutputs({ label, scores, ...others }, classes) {
  const parts = [];
  if (label !== undefined) parts.push(element("p", { class: "label" }, shown(label)));
  if (isNumbers(scores)) parts.push(bars(scores, classes, label));
  else if (scores !== undefined) others.scores = scores;
  for (const [name, value] of Object.entries(others)) {
    parts.push(element("h3", {}, readable(name)), element("p", { class: "text" }, shown(value)));
  }
  return parts;
}

/** Returns the pieces of the one or two texts of a row, a list of {token, value} for each; "" ends the first of two. */
export function piecesOf({ tokens, importances }, count) {
  const values = [importances].flat();
  const pieces = [tokens].flat().map((token, i) => ({ token, value: values[i] }));
  const end = count > 1 ? pieces.findIndex(({ token }) => token === "") : -1;
  const parts = end < 0 ? [pieces, []] : [pieces.slice(0, end), pieces.slice(end)];
  const kept = (part) => part.filter(({ token }) => token !== ""); // the rest are end tokens and pads
  return parts.slice(0, count).map(kept);
}

/**
 * Shows the pieces of the texts that share a row; the more a piece mattered for the label, the deeper its background.
 * The scale is absolute, so that answers can be compared. The depth is the share by which the label's probability falls
 * without the piece; for a piece that speaks against the label, it is the share by which the piece lowers that
 * probability. `names` are those of the texts, such as "the text".
 */
export function showTokens(outputs, names) {
  const parts = piecesOf(outputs, names.length);
  const kept = parts.flatMap((pieces, i) => pieces.map((piece) => ({ ...piece, of: names[i] })));
  const bodies = parts.map(rowsOf);
  const texts = parts.flatMap((pieces, i) => {
    const heading = element("h3", {}, names.length > 1 ? `What mattered in ${names[i]}` : "What mattered");
    const none = `The model has not read any piece of ${names[i]}.`;
    return [heading, pieces.length ? textOf(pieces) : element("p", { class: "quiet" }, none)];
  });
  if (!kept.length) return texts;
  if (names.length > 1) {
    const title = (name) => element("th", { scope: "rowgroup", colspan: 2 }, capitalized(name));
    bodies.forEach((body, i) => body.prepend(element("tr", {}, title(names[i]))));
  }
  const columns = [
    element("th", { scope: "col" }, "Piece"),
    element("th", { scope: "col", class: "number" }, "Importance"),
  ];
  const values = element("table", {}, element("thead", {}, element("tr", {}, ...columns)), ...bodies);
  return [
    ...texts,
    element("p", { class: "quiet legend" }, legend(kept, outputs.label, names.length > 1)),
    element("details", {}, element("summary", {}, "Values"), values),
  ];
}

/** Returns the pieces of a text as a line in which each has a background. */
function textOf(pieces) {
  const text = element("p", { class: "tokens" });
  for (const { token, value } of pieces) {
    const strength = depth(value);
    const classes = ["piece", value < 0 && "against", strength >= MUCH && "clearly"].filter(Boolean).join(" ");
    const piece = element("span", { class: classes, title: signed(value) });
    piece.style.setProperty("--strength", strength);
    piece.append(token.trimStart(), element("span", { class: "unseen" }, ` (${signed(value)})`));
    if (token.startsWith(" ")) text.append(" ");
    text.append(piece);
  }
  return text;
}

/** Returns the pieces of a text as rows of a table. */
function rowsOf(pieces) {
  const rows = element("tbody");
  for (const { token, value } of pieces) {
    const name = element("th", { scope: "row" }, token.trim() || "space");
    rows.append(element("tr", {}, name, element("td", { class: "number" }, signed(value))));
  }
  return rows;
}

const MUCH = 0.05;

function depth(value) {
  return 1 - Math.exp(-Math.abs(value));
}

function legend(pieces, label, saysWhere) {
  const { token, value, of } = pieces.reduce((most, one) => (depth(one.value) > depth(most.value) ? one : most));
  if (depth(value) < MUCH) {
    return `Nothing mattered much: without any one piece, the probability of “${shown(label)}” changes by less than 5%.`;
  }
  return (
    `Blue speaks for “${shown(label)}”; orange, underlined, against it: at half of the full depth, the piece doubles ` +
    `or halves its probability. Strongest: “${token.trim()}”${saysWhere ? ` in ${of}` : ""}; without it, that ` +
    `${change(value)}.`
  );
}

/** Describes the change of a probability whose logarithm falls by a value. */
function change(value) {
  const factor = Math.exp(-value);
  const part = percent(Math.abs(factor - 1)).replaceAll(" ", "\u00a0"); // so that no line breaks there
  if (factor < 1) return `falls by ${part}`;
  return factor > 10 ? "is more than ten times as large" : `rises by ${part}`;
}

function bars(scores, classes, label) {
  const list = element("ul", { class: "bars", role: "list" });
  const best = scores.indexOf(Math.max(...scores));
  const nameOf = (i) => classes[i] ?? (i === best ? label : undefined) ?? `class ${i}`;
  const named = scores.map((score, i) => ({ score, name: nameOf(i) }));
  named.sort((a, b) => b.score - a.score);
  for (const { name, score } of named.slice(0, 10)) {
    const bar = element("span", {});
    bar.style.setProperty("--score", Math.min(Math.max(score, 0), 1));
    const track = element("span", { class: "track", "aria-hidden": "true" }, bar);
    const value = element("span", { class: "value" }, percent(score));
    list.append(element("li", {}, element("span", { class: "name" }, shown(name)), track, value));
  }
  if (named.length <= 10) return list;
  const more = element("p", { class: "quiet" }, `and ${named.length - 10} less probable classes`);
  return element("div", {}, list, more);
}

function isNumbers(value) {
  return Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === "number");
}

function shown(value) {
  if (typeof value === "string") return value;
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > 300 ? `${text.slice(0, 300)} …` : text;
}

function readable(name) {
  return capitalized(name).replaceAll("_", " ");
}

export function capitalized(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function percent(score) {
  if (score < 1 && score >= 0.9995) return "> 99.9%";
  return score > 0 && score < 0.0005 ? "< 0.1%" : `${(100 * score).toFixed(1)}%`;
}

function signed(value) {
  return typeof value === "number" ? `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}` : "not a number";
}
