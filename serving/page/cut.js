// Whether a model has read a text to its end: models cut what is longer than their sequence length.

import { predictBatch, textInputs } from "./rest.js";

const UNKNOWN = ["\u2047", "<unk>", "[UNK]"]; // what stands for pieces that are not in the vocabulary
const SHOWN = 30; // letters of what was read last

/**
 * How much of a text its pieces, as "explain" returns them, cover. Returns the last words that were read if the
 * text goes on after them, "" if it was read to its end, and undefined if the pieces are not those of the text.
 */
export function cutAfter(text, tokens) {
  const whole = squeezed(text);
  let end = 0;
  let skips = false; // whether unknown characters, one or more, stand before the next piece
  for (const token of tokens) {
    const piece = squeezed(token);
    if (UNKNOWN.includes(token.trim())) {
      skips = true;
    } else if (piece) {
      const start = whole.indexOf(piece, skips ? end + 1 : end);
      if (start < 0 || (!skips && start > end)) return undefined;
      end = start + piece.length;
      skips = false;
    }
  }
  if (skips || !end) return undefined;
  if (end === whole.length) return "";
  const read = tokens.join("").trim();
  return read.length > SHOWN ? `… ${read.slice(-SHOWN).replace(/^\S*\s+/, "")}` : read;
}

/** A text without all that tokenizers differ in: spaces, invisible characters, forms of letters. */
function squeezed(text) {
  return text.normalize("NFKC").replace(/[\s\p{C}]/gu, "").toLowerCase();
}

/**
 * Whether a model cuts a text, found out by the mean of what it reads: of a text that is cut, neither another
 * word at its end nor one letter less changes that. Returns "cut", "perhaps" where only the last word is in
 * doubt, or "" if the text is read to its end or the model has no such signature.
 */
export async function cutByEmbedding(model, text, signal) {
  const { embed } = model.tasks;
  if (!embed) return "";
  const whole = text.trim();
  const shorter = Array.from(whole).slice(0, -1).join("");
  const [name] = textInputs(model.signatures[embed]);
  const texts = [whole, `${whole} x`, shorter, "x"]; // the last one shows that it is not the same for all texts
  const { outputs } = await predictBatch(model, embed, { [name]: texts }, signal);
  const [row, longerRow, shorterRow, otherRow] = outputs.embedding ?? [];
  if (!isSame(row, longerRow) || isSame(row, otherRow)) return "";
  return isSame(row, shorterRow) ? "cut" : "perhaps";
}

/** Whether two embeddings differ by no more than rows of a batch differ by rounding. */
function isSame(one, other) {
  if (!Array.isArray(one) || one.length !== other?.length) return false;
  const scale = Math.max(...one.map(Math.abs), 1e-3);
  return one.every((value, i) => value !== null && Math.abs(value - other[i]) <= 1e-5 * scale);
}
