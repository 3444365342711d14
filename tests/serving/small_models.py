"""Small SavedModels for the server's tests, written in a moment, without convnlp."""

import socket

import tensorflow as tf


def save_affine(path, offset):
    """Writes a model with y = 0.5 x + offset, and a second signature with two inputs and outputs."""
    module = tf.Module()
    module.scale, module.offset = tf.Variable(0.5), tf.Variable(float(offset))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def affine(x):
        return {"y": module.scale * x + module.offset}

    text, count = tf.TensorSpec([None], tf.string, "text"), tf.TensorSpec([None], tf.int32, "count")

    @tf.function(input_signature=[text, count])
    def repeat(text, count):
        return {"length": tf.strings.length(text) * count, "raw_bytes": text}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def slow(x):
        steps = tf.while_loop(lambda i, _: i < 10**9, lambda i, y: (i + 1, y + 1.0), (0, x))
        return {"y": steps[1]}

    tf.saved_model.save(module, str(path), {"serving_default": affine, "repeat": repeat, "slow": slow})


def save_upper(path):
    """Writes a model that answers a text in capitals."""
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def upper(text):
        return {"upper": tf.strings.upper(text)}

    tf.saved_model.save(module, str(path), {"serving_default": upper})


def save_classifier(path, strength, length=1000, explains_pairs=True):
    """Writes a model that tells good texts from bad ones by their words, with all signatures of a classifier.

    A word is worth 1, -1 or 0; `strength` says how sure the model is of it. It reads `length` words, and has
    pads in what it explains. Without `explains_pairs`, it lacks the signature for that, as older exports do.
    """
    module = tf.Module()
    names = tf.constant(["bad", "good"])

    def worth(words):
        good = tf.strings.regex_full_match(words, "good|fine|gripping")
        return tf.cast(good, tf.float32) - tf.cast(tf.strings.regex_full_match(words, "bad|dull"), tf.float32)

    def ragged_words_of(text):
        return tf.strings.split(text)[:, :length]

    def words_of(text):
        return ragged_words_of(text).to_tensor("")  # [B,T]

    def answer(words):
        logit = strength * tf.reduce_sum(worth(words), axis=1)
        scores = tf.nn.softmax(tf.stack([-logit, logit], axis=1))
        return {"label": tf.gather(names, tf.argmax(scores, axis=1)), "scores": scores}

    def explained(words):
        sign = 2.0 * tf.cast(tf.argmax(answer(words)["scores"], axis=1)[:, None], tf.float32) - 1.0
        pads = [[0, 0], [0, 3]]
        tokens = tf.pad(tf.where(words == "", "", " " + words), pads, constant_values="")
        importances = tf.pad(strength * sign * worth(words), pads)
        return {**answer(words), "tokens": tokens, "importances": importances}

    def explain(text):
        return explained(words_of(text))

    def explain_pair(text, text_pair):
        end = tf.RaggedTensor.from_tensor(tf.fill([tf.shape(text)[0], 1], ""))
        row = tf.concat([ragged_words_of(text), end, tf.strings.split(text_pair)], axis=1)
        return explained(row[:, : length + 1].to_tensor(""))

    def classify(inputs):
        text = tf.io.parse_example(inputs, {"text": tf.io.FixedLenFeature([], tf.string)})["text"]
        scores = answer(words_of(text))["scores"]
        return {"classes": tf.tile(names[None], [tf.shape(scores)[0], 1]), "scores": scores}

    def text(name):
        return tf.TensorSpec([None], tf.string, name)

    def pair(text, text_pair):
        return answer(words_of(text + " " + text_pair))

    functions = {
        "serving_default": tf.function(lambda text: answer(words_of(text)), input_signature=[text("text")]),
        "pair": tf.function(pair, input_signature=[text("text"), text("text_pair")]),
        "classify": tf.function(classify, input_signature=[text("inputs")]),
        "explain": tf.function(explain, input_signature=[text("text")]),
        **_readings(ragged_words_of),
    }
    if explains_pairs:
        both = [text("text"), text("text_pair")]
        functions["explain_pair"] = tf.function(explain_pair, input_signature=both)
    tf.saved_model.save(module, str(path), functions)


def _readings(words_of):
    """The signatures "embed" and "ids", as in exports, of a model that reads the words `words_of(text)`."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def embed(text):
        words = words_of(text)
        kinds = tf.strings.to_hash_bucket_fast(words.flat_values, 997)
        vectors = words.with_flat_values(tf.math.sin(tf.cast(kinds, tf.float32))[:, None] + [0.0, 0.5])
        return {"embedding": tf.reduce_mean(vectors, axis=1)}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "token_ids")])
    def ids(token_ids):
        return {"generated_ids": token_ids}

    return {"embed": embed, "ids": ids}


def save_generator(path, length=1000):
    """Writes a model that "generates" a text: the given one, backwards. It reads `length` words."""

    def words_of(text):
        return tf.strings.split(text)[:, :length]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def generate(text):
        text = tf.strings.reduce_join(words_of(text), axis=1, separator=" ")
        letters = tf.strings.bytes_split(text).to_tensor("")
        return {"generated_text": tf.strings.reduce_join(letters[:, ::-1], axis=1)}

    functions = {"serving_default": generate, "generate": generate, **_readings(words_of)}
    tf.saved_model.save(tf.Module(), str(path), functions)


TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64")
TYPES += ("uint8", "uint16", "uint32", "uint64", "bool", "string", "complex64")


def save_grammar(path):
    """Writes a model with a signature for every kind of request: a type each, several inputs, examples."""
    module = tf.Module()
    signatures = {}

    def add(name, function, **inputs):
        specs = [tf.TensorSpec(shape, dtype, key) for key, (shape, dtype) in inputs.items()]
        signatures[name] = tf.function(function, input_signature=specs)

    for dtype in TYPES:
        add(dtype, lambda x: {"y": tf.identity(x)}, x=([None], dtype))
    add(
        "pair",
        lambda a, b: {"sum": tf.reduce_sum(a, -1) + tf.cast(b, tf.float32), "twice": 2 * a},
        a=([None, 2], "float32"),
        b=([None], "int32"),
    )
    add("two", lambda x: {"length": tf.strings.length(x), "x_bytes": x}, x=([None], "string"))
    add("total", lambda x: {"total": tf.reduce_sum(x), "y": x}, x=([None], "float32"))
    add("three", lambda x: {"three": tf.constant([1.0, 2.0, 3.0]), "y": x}, x=([None], "float32"))
    add("scalar", lambda x: {"y": 2 * x}, x=([], "float32"))
    add("nothing", lambda: {"y": tf.constant([1.0])})
    add("gather", lambda x: {"y": tf.gather([10.0, 11.0], x)}, x=([None], "int32"))
    add("half", lambda x: {"y": tf.cast(x, tf.float16)}, x=([None], "float32"))

    def features(inputs):
        spec = {
            "x": tf.io.FixedLenFeature([1], tf.float32),
            "s": tf.io.FixedLenFeature([], tf.string, default_value=""),
        }
        return tf.io.parse_example(inputs, spec)

    def classify(inputs):
        x = features(inputs)["x"]
        names = tf.tile([["small", "large"]], [tf.shape(x)[0], 1])
        return {"classes": names, "scores": tf.concat([x, 2 * x], 1)}

    examples = {"inputs": ([None], "string")}
    add("classify", classify, **examples)
    add("classes", lambda inputs: {"classes": classify(inputs)["classes"]}, **examples)
    add("scores", lambda inputs: {"scores": classify(inputs)["scores"]}, **examples)
    add("flat", lambda inputs: {"scores": classify(inputs)["scores"][:, 0]}, **examples)
    add("regress", lambda inputs: {"outputs": 0.5 * features(inputs)["x"]}, **examples)
    add("labels", lambda inputs: {"outputs": tf.strings.length(features(inputs)["s"])}, **examples)
    module.functions = signatures
    tf.saved_model.save(
        module,
        str(path),
        {**signatures, tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: signatures["float32"]},
    )


def free_port():
    """Returns a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
