"""What an exported model answers: signatures around a Keras model that is itself never saved.

A `tf.Module` that holds a Keras model saves each variable twice, as Keras' object and as the plain variable
inside, and every Session (so TensorFlow Serving) then restores the one that the graph does not read: "Could
not find variable ...". Here the model lives in the functions' closures only, and the module owns the plain
variables.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from convnlp.models import Seq2SeqLM
from export.saved_models.explain import explain
from export.saved_models.prefix_lm import PrefixLM, Prompts

_TEXT = tf.TensorSpec([None], tf.string)
_TOKEN_IDS = tf.TensorSpec([None, None], tf.int32)


@dataclasses.dataclass(frozen=True)
class Servable:
    """What `tf.saved_model.save` gets. Trace it within `convnlp.kernels.implementation("inference")`.

    Attributes:
        module: tf.Module, the owner of the variables.
        signatures: dict, name -> tf.function from named tensors to a dict of tensors.
        rows: EncoderRows or Prompts, how texts become the token ids of the signature "ids".
    """

    module: tf.Module
    signatures: dict[str, Callable]
    rows: "EncoderRows | Prompts"

    def only(self, name):
        """The same with one of the signatures."""
        return dataclasses.replace(self, signatures={name: self.signatures[name]})


def servable(model, max_length=None):
    """The signatures of a preset that are served.

    B is the batch, any; D the width, C the number of classes, L the preprocessor's sequence length. Texts and
    token ids are cut at L and padded to the longest of the batch, or to L where a mixer is not
    `pad_length_invariant`. No output has a size that depends on what else is in its batch.

    | model | signature | inputs | outputs |
    |---|---|---|---|
    | TextClassifier | serving_default | text [B] | label [B], scores [B,C] |
    | | pair | text [B], text_pair [B] | label [B], scores [B,C] |
    | | classify | inputs [B]: a tf.Example with the feature "text" | classes [B,C], scores [B,C] |
    | | ids | token_ids [B,T], pads = 0 | label [B], scores [B,C] |
    | | explain | text [B] | label [B], scores [B,C], tokens [B,L], importances [B,L]: see `explain` |
    | Seq2SeqLM | serving_default, generate | text [B] | generated_text [B] |
    | | ids | token_ids [B,T], pads = 0 | generated_ids [B,max_length], pads = 0 |
    | PrefixLM | serving_default, generate | text [B] | generated_text [B], the text and what continues it |
    | | ids | token_ids [B,T], pads = 0, no end token | generated_ids [B,max_length], what continues them |
    | all | embed | text [B] | embedding [B,D], the mean of the encoder's output over the tokens |

    Args:
        model: a `TextClassifier` or `Seq2SeqLM` with its preprocessor, or a `PrefixLM`.
        max_length: int >= 1. Bound of generated tokens, the end token included. Default: the preprocessor's
            `decoder_sequence_length`.

    Raises:
        ValueError: if the model has no preprocessor, or `max_length` is out of range or given for a
            classifier.
    """
    rows = encoder_rows = EncoderRows(model)
    if not _is_language_model(model):
        if max_length is not None:
            raise ValueError(
                f"`max_length` is for a Seq2SeqLM: a TextClassifier generates nothing. Received: {max_length}"
            )
        signatures = _classifier(model, rows)
    else:
        if max_length is None:
            max_length = model.preprocessor.decoder_sequence_length
        if max_length < 1:
            raise ValueError(f"`max_length` must be >= 1. Received: {max_length}")
        if isinstance(model, PrefixLM):
            rows = Prompts(model, max_length, encoder_rows.any_length)
            signatures = _prefix_lm(model, rows, max_length)
        else:
            _require_room(model, max_length)
            signatures = _language_model(model, rows, max_length)
    signatures["embed"] = signature(
        lambda text: {"embedding": encoder_rows.embed(encoder_rows.of_texts(text))}, text=_TEXT
    )
    return Servable(owner(model), signatures, rows)


def edge(model, inputs):
    """The one signature of a TFLite model.

    | model | inputs | outputs |
    |---|---|---|
    | TextClassifier | token_ids [B,T], pads = 0, or text [B] | logits [B,C] |
    | Seq2SeqLM, PrefixLM | the same | embedding [B,D] |

    Args:
        model: a `TextClassifier` or `Seq2SeqLM` with its preprocessor, or a `PrefixLM`.
        inputs: "ids" or "text".
    """
    rows = EncoderRows(model)

    def answer(encoder_rows):
        if _is_language_model(model):
            return {"embedding": rows.embed(encoder_rows)}
        return {"logits": model(encoder_rows, training=False)}

    if inputs == "ids":
        function = signature(lambda token_ids: answer(rows.of_ids(token_ids)), token_ids=_TOKEN_IDS)
    else:
        function = signature(lambda text: answer(rows.of_texts(text)), text=_TEXT)
    return Servable(owner(model), {"serving_default": function}, rows)


def signature(function, **inputs):
    """A tf.function of named inputs, each given by its `tf.TensorSpec`."""
    specs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in inputs.items()]
    return tf.function(function, input_signature=specs)


def owner(model):
    """A module with the plain variables of a Keras model, and nothing of Keras."""
    module = tf.Module()
    module.model_variables = [variable._value for variable in model.variables]
    return module


def label_names(classifier):
    """The names of the classes: "0", "1", ... where they have none."""
    return classifier.labels or [str(i) for i in range(classifier.num_classes)]


def reading_stack(backbone):
    """The stack that reads a text: the encoder, or of a decoder-only model the decoder."""
    return backbone.encoder if backbone.num_layers else backbone.decoder


class EncoderRows:
    """What a model's encoder reads, {"token_ids" int32 [B,T], "padding_mask" bool [B,T]}, from texts or ids.

    Args:
        model: a `TextClassifier`, `Seq2SeqLM` or `PrefixLM`.

    Attributes:
        max_length: int, L. Longer rows are cut.
        any_length: bool. Whether rows may be as short as the longest text of the batch.

    Raises:
        ValueError: if it has no preprocessor.
    """

    def __init__(self, model):
        if model.preprocessor is None:
            raise ValueError("`model` must have a preprocessor: without one its texts cannot be tokenized")
        self._model = model
        self._is_language_model = _is_language_model(model)
        name = "encoder_sequence_length" if self._is_language_model else "sequence_length"
        self.max_length = getattr(model.preprocessor, name)
        layers = reading_stack(model.backbone)._flatten_layers()
        self.any_length = all(getattr(layer, "pad_length_invariant", True) for layer in layers)

    def of_texts(self, text):
        """Texts [B], or a tuple of two for pairs, as in training but without pads that all rows have."""
        preprocessor = self._model.preprocessor
        if self._is_language_model:
            rows = preprocessor.generate_preprocess(text)
            rows = {name: rows[f"encoder_{name}"] for name in ("token_ids", "padding_mask")}
        else:
            rows = preprocessor(text, y=None)  # without `y`, keras_nlp takes a tuple for (x, y)
        if not self.any_length:
            return rows
        longest = tf.reduce_max(tf.reduce_sum(tf.cast(rows["padding_mask"], tf.int32), axis=1))
        return {name: row[:, :longest] for name, row in rows.items()}

    def of_ids(self, token_ids):
        """Token ids [B,T] with pads = 0, end token included."""
        token_ids = token_ids[:, : self.max_length]
        if not self.any_length:
            missing = self.max_length - tf.shape(token_ids)[1]
            token_ids = tf.ensure_shape(tf.pad(token_ids, [[0, 0], [0, missing]]), [None, self.max_length])
        return {"token_ids": token_ids, "padding_mask": token_ids != 0}

    def full_length(self, values):
        """Values of the places of rows, [B,T], filled up with "" or 0: [B,L].

        No output may be as long as the longest text of its batch: a server that splits a request or joins
        several could not put such parts together, and TensorFlow Serving ends there.
        """
        filled = tf.pad(values, [[0, 0], [0, self.max_length - tf.shape(values)[1]]])
        return tf.ensure_shape(filled, [None, self.max_length])

    def embed(self, rows):
        """The mean of the encoder's output over the tokens of each row: float32 [B,D].

        A decoder-only model reads the text as a source, in the stack that an `encoder_only()` of it has.
        """
        backbone, mask = self._model.backbone, rows["padding_mask"]
        encoded = backbone.encode(rows["token_ids"], padding_mask=mask)
        if not backbone.num_layers:  # so far they are the embedded tokens
            encoded = backbone.decoder.read(encoded, mask)
        weight = tf.expand_dims(tf.cast(backbone.encoder_output_mask(mask), tf.float32), -1)  # [B,T,1]
        total = tf.reduce_sum(tf.cast(encoded, tf.float32) * weight, axis=1)  # [B,D]
        return total / tf.maximum(tf.reduce_sum(weight, axis=1), 1.0)


def _classifier(classifier, rows):
    names = label_names(classifier)

    def answer_of(logits):
        return {
            "label": tf.gather(tf.constant(names), tf.argmax(logits, axis=-1)),
            "scores": tf.nn.softmax(logits),
        }

    def answer(inputs):
        return answer_of(classifier(inputs, training=False))

    def explained(text):
        inputs = rows.of_texts(text)
        logits = classifier(inputs, training=False)
        pieces = explain(classifier, inputs, logits)
        return {**answer_of(logits), **{name: rows.full_length(value) for name, value in pieces.items()}}

    def classify(inputs):
        text = tf.io.parse_example(inputs, {"text": tf.io.FixedLenFeature([], tf.string)})["text"]
        scores = answer(rows.of_texts(text))["scores"]
        return {"classes": tf.tile([names], [tf.shape(scores)[0], 1]), "scores": scores}

    return {
        "serving_default": signature(lambda text: answer(rows.of_texts(text)), text=_TEXT),
        "pair": signature(
            lambda text, text_pair: answer(rows.of_texts((text, text_pair))), text=_TEXT, text_pair=_TEXT
        ),
        "classify": signature(classify, inputs=_TEXT),
        "ids": signature(lambda token_ids: answer(rows.of_ids(token_ids)), token_ids=_TOKEN_IDS),
        "explain": signature(explained, text=_TEXT),
    }


def _is_language_model(model):
    return isinstance(model, (Seq2SeqLM, PrefixLM))


def _require_room(lm, max_length):
    """Raises ValueError where the mixers have weights for fewer positions than generation fills."""
    backbone = lm.backbone
    source = 0 if backbone.num_layers else lm.preprocessor.encoder_sequence_length  # in the decoder's row
    longest = backbone.decoder.longest_text()
    if longest is not None and source + max_length > longest:
        raise ValueError(
            f"`max_length` must be at most {longest - source}: the decoder's mixers have weights for "
            f"{longest} positions, and the source takes {source} of them. Received: {max_length}"
        )


def _language_model(lm, rows, max_length):
    def answer(inputs):
        ids = lm.generate_ids(inputs["token_ids"], inputs["padding_mask"], max_length)
        return tf.ensure_shape(ids, [None, max_length])

    def generate(text):
        return {"generated_text": lm.preprocessor.tokenizer.detokenize(answer(rows.of_texts(text)))}

    text_to_text = signature(generate, text=_TEXT)
    return {
        "serving_default": text_to_text,
        "generate": text_to_text,
        "ids": signature(
            lambda token_ids: {"generated_ids": answer(rows.of_ids(token_ids))}, token_ids=_TOKEN_IDS
        ),
    }


def _prefix_lm(lm, rows, max_length):
    def answer(inputs):
        return tf.ensure_shape(lm.generate_ids(inputs["token_ids"], max_length), [None, max_length])

    text_to_text = signature(
        lambda text: {"generated_text": lm.continued(text, answer(rows.of_texts(text)))}, text=_TEXT
    )
    return {
        "serving_default": text_to_text,
        "generate": text_to_text,
        "ids": signature(
            lambda token_ids: {"generated_ids": answer(rows.of_ids(token_ids))}, token_ids=_TOKEN_IDS
        ),
    }
