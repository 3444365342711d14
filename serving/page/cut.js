// Finds out whether a model has read a text to its end: models cut texts that are longer than their sequence length.

import { predictBatch, textInputs } from "./rest.js";

const UNKNOWN = ["\u2047", "<unk>", "[UNK]"]; // placeholders for pieces that are not in the vocabulary
const SHOWN = 30; // how many of the last letters to show

/**
 * Finds out how much of a text is covered by its pieces, as "explain" returns them. Returns the last words that were
 * read if the text goes on after them, "" if it was read to its end, and undefined if the pieces are not from the text.
 */
export function cutAfter(text, tokens) {
  const whole = squeezed(text);
  let end = 0;
  let skips = false; // whether unknown characters precede the next piece
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

/** Returns a text without what tokenizers treat differently: spaces, invisible characters, variants of letters. */
function squeezed(text) {
  return text.normalize("NFKC").replace(/[\s\p{C}]/gu, "").toLowerCase();
}

/**
 * Finds out whether a model cuts a text by the mean of what it reads: if the text is cut, neither another word at its
 * end nor one letter less changes the mean. Returns "cut", "perhaps" if only the last word is in doubt, or "" if the
 * text is read to its end or the model has no such signature.
 */
export async function cutByEmbedding(model, text, signal) {
  const { embed } = model.tasks;
  if (!embed) return "";
  const whole = text.trim();
  const shorter = Array.from(whole).slice(0, -1).join("");
  const [name] = textInputs(model.signatures[embed]);
  const texts = [whole, `${whole} x`, shorter, "x"]; // the last one shows whether the mean depends on the text at all
  const { outputs } = await predictBatch(model, embed, { [name]: texts }, signal);
  const [row, longerRow, shorterRow, otherRow] = outputs.embedding ?? [];
  if (!isSame(row, longerRow) || isSame(row, otherRow)) return "";
  return isSame(row, shorterRow) ? "cut" : "perhaps";
}

/** Whether two embeddings are equal up to the rounding between rows of a batch. */
function isSame(one, other) {
  if (!Array.isArray(one) || one.length !== other?.length) return false;
  const scale = Math.max(...one.map(Math.abs), 1e-3);
  return one.every((value, i) => value !== null && Math.abs(value - other[i]) <= 1e-5 * scale);
}
