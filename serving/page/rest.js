// The server's REST interface: lists the models and what they can do, and sends them requests.

/** Thrown if there is no answer at all. */
export class Unanswered extends Error {}

/** Sends one request. Returns the answer and the milliseconds from here to the server and back. */
export async function ask(path, body, signal) {
  const options = body ? { method: "POST", body: JSON.stringify(body), signal } : { signal };
  const started = performance.now();
  let response, text;
  try {
    response = await fetch(path, options);
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unanswered(response ? "The server's answer broke off." : "The server does not answer.");
  }
  const milliseconds = performance.now() - started;
  const answer = parse(text);
  if (!response.ok) throw new Error(answer?.error ?? `The server answered with status ${response.status}.`);
  if (!isObject(answer)) throw new Error("The server's answer is not in the format of TensorFlow Serving.");
  return { answer, milliseconds };
}

/** Runs a signature on a batch; `inputs` is an object of lists of texts. Returns the outputs by name. */
export async function predictBatch(model, signature, inputs, signal) {
  const body = { signature_name: signature, inputs };
  const { answer, milliseconds } = await ask(`${model.path}:predict`, body, signal);
  const names = Object.keys(model.signatures[signature].outputs);
  const outputs = names.length === 1 ? { [names[0]]: answer.outputs } : answer.outputs;
  if (!isObject(outputs)) throw new Error("The answer has no outputs.");
  return { outputs, milliseconds };
}

/** Runs a signature on one example; `inputs` is an object of texts. Returns the outputs by name. */
export async function predict(model, signature, inputs, signal) {
  const columns = Object.fromEntries(Object.entries(inputs).map(([name, text]) => [name, [text]]));
  const { outputs, milliseconds } = await predictBatch(model, signature, columns, signal);
  for (const [name, value] of Object.entries(outputs)) {
    if (Array.isArray(value) && value.length === 1) outputs[name] = value[0];
  }
  return { outputs, milliseconds };
}

/** Returns the abilities of a version: its signatures, their tasks, and the names of its classes, if it tells them. */
async function abilities(base, version) {
  const path = `${base}/versions/${version}`;
  const { answer } = await ask(`${path}/metadata`);
  const signatures = answer.metadata.signature_def.signature_def;
  delete signatures.__saved_model_init_op;
  const tasks = tasksOf(signatures);
  let classes = []; // in the order of the scores
  if (tasks.classes) {
    const body = { signature_name: tasks.classes, examples: [{ text: "" }] };
    const reply = await ask(`${path}:classify`, body).catch((error) => {
      if (error instanceof Unanswered) throw error;
    });
    classes = reply?.answer.results?.[0]?.map(([name]) => name) ?? [];
  }
  return { signatures, tasks, classes };
}

const known = new Map(); // the abilities of versions, once requested

/** Forgets the abilities of versions: a server that comes back may serve others under the same numbers. */
export function forget() {
  known.clear();
}

/** Returns the versions of a model, newest first; those that are available have a path, signatures and tasks. */
export async function versionsOf(name) {
  const base = `v1/models/${encodeURIComponent(name)}`;
  const { answer } = await ask(base);
  const found = (answer.model_version_status ?? []).sort((a, b) => Number(b.version) - Number(a.version));
  let path = base; // requests to the newest version name only the model, like those of clients
  const models = [];
  for (const { version, state, status } of found) {
    const model = { name, version, state, error: status?.error_message, signatures: {}, tasks: {} };
    if (state === "AVAILABLE") {
      const key = `${base}/versions/${version}`;
      if (!known.has(key)) known.set(key, await abilities(base, version));
      Object.assign(model, known.get(key), { path });
      path = null;
      model.path ??= key;
    }
    models.push(model);
  }
  return models;
}

/** Returns which signature serves which purpose: `text` answers a text; the others may be missing. */
function tasksOf(signatures) {
  const has = (name, inputs, ...outputs) =>
    signatures[name] &&
    textInputs(signatures[name]).length === inputs &&
    outputs.every((output) => output in signatures[name].outputs);
  const text = ["serving_default", ...Object.keys(signatures).sort()].find((name) => has(name, 1));
  const saysMore = () => !sameOutputs(signatures.generate, signatures[text]);
  return {
    text,
    pair: has("pair", 2) ? "pair" : undefined,
    explain: has("explain", 1, "tokens", "importances") ? "explain" : undefined,
    explainPair: has("explain_pair", 2, "tokens", "importances") ? "explain_pair" : undefined,
    generate: has("generate", 1) && saysMore() ? "generate" : undefined,
    classes: signatures.classify?.outputs.classes ? "classify" : undefined,
    // Exports of this library have both signatures, and their embedding depends on every word.
    embed: has("embed", 1, "embedding") && signatures.ids ? "embed" : undefined,
  };
}

/** Returns the names of a signature's inputs, sorted, if all of them are batches of texts; else none. */
export function textInputs({ inputs, outputs }) {
  const isText = ({ dtype, tensor_shape: shape }) =>
    dtype === "DT_STRING" && (shape.unknown_rank || shape.dim.length === 1);
  const readsExamples = Object.keys(outputs).every((name) => ["classes", "scores", "outputs"].includes(name));
  return Object.values(inputs).every(isText) && !readsExamples ? Object.keys(inputs).sort() : [];
}

function sameOutputs(one, other) {
  return Object.keys(one.outputs).sort().join() === Object.keys(other.outputs).sort().join();
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Reads JSON as the server writes it: with NaN and Infinity, which become null. */
function parse(text) {
  const stringsAndSpecials = /"(?:[^"\\]|\\.)*"|-?(?:NaN|Infinity)/g;
  try {
    return JSON.parse(text.replace(stringsAndSpecials, (found) => (found[0] === '"' ? found : "null")));
  } catch {
    return undefined;
  }
}
