"""The signatures of an exported model, around a Keras model that is itself never saved.

A `tf.Module` that holds a Keras model saves each variable twice, as Keras' object and as the plain variable
inside. Every Session, and thus TensorFlow Serving, then restores the one that the graph does not read: "Could
not find variable ...". So the model exists only in the closures of the functions, and the module owns the
plain variables.
"""

import dataclasses
import functools
from collections.abc import Callable

import tensorflow as tf

from convnlp.tasks import task_of
from convnlp.tasks.rows import TEXT, TOKEN_IDS, signature


@dataclasses.dataclass(frozen=True)
class Servable:
    """The arguments of `tf.saved_model.save`. Trace it within `convnlp.kernels.implementation("inference")`.

    Attributes:
        module: tf.Module. The owner of the variables.
        signatures: dict, name -> tf.function from named tensors to a dict of tensors.
        rows: object whose `of_texts` turns texts into the token ids of the signature "ids"; None without it.
        request: function from the name of a signature and texts to its inputs, see `Answers.request`; None if
            no requests are made.
    """

    module: tf.Module
    signatures: dict[str, Callable]
    rows: object
    request: Callable | None = None

    def only(self, name):
        """Returns the same servable with only one signature."""
        return dataclasses.replace(self, signatures={name: self.signatures[name]})


def servable(model, max_length=None, group_size=None):
    """Returns the signatures of a model for serving.

    B is any batch size, D the width, C the number of classes, and L the preprocessor's sequence length. Texts
    and token ids are cut at L, and padded to the longest of the batch, or to L if a mixer is not
    `pad_length_invariant`. The size of an output never depends on the other examples of the batch.

    | model | signature | inputs | outputs |
    |---|---|---|---|
    | TextClassifier | serving_default | text [B] | label [B], scores [B,C] |
    | | pair | text [B], text_pair [B] | label [B], scores [B,C] |
    | | classify | inputs [B]: a tf.Example with the feature "text" | classes [B,C], scores [B,C] |
    | | ids | token_ids [B,T], pads = 0 | label [B], scores [B,C] |
    | | explain | text [B] | label [B], scores [B,C], tokens [B,L], importances [B,L]: see `explain` |
    | | explain_pair | text [B], text_pair [B] | the same; the tokens of each text end with "" |
    | MultiLabelClassifier | serving_default, pair, ids | as above | labels [B,C], scores [B,C] |
    | TextRegressor | serving_default, pair, ids | as above | score [B] |
    | QuestionAnswerer | serving_default | question [B], context [B] | answer, score, start, end, [B] each |
    | | pair | text [B], the question, text_pair [B] | the same |
    | | ids | token_ids [B,T], pads = 0 | start_token [B], end_token [B], score [B] |
    | Seq2SeqLM | serving_default, generate | text [B] | generated_text [B] |
    | | pair | text [B], text_pair [B] | generated_text [B] |
    | | ids | token_ids [B,T], pads = 0 | generated_ids [B,max_length], pads = 0 |
    | PrefixLM | serving_default, generate | text [B] | generated_text [B], the text and what continues it |
    | | ids | token_ids [B,T], pads = 0, no end token | generated_ids [B,max_length], what continues them |
    | all | embed | text [B] | embedding [B,D], the mean of the encoder's output over the tokens |

    Args:
        model: a model of any task, with its preprocessor.
        max_length: int >= 1. The most tokens to generate, including the end token. Default: the
            preprocessor's `decoder_sequence_length` without the start token, which is what `generate` writes;
            of a `PrefixLM`, half of its `sequence_length`.
        group_size: int >= 1. How many rows of similar length are computed together, in a loop of the graph,
            except in explanations and in windows of contexts, which have their own loops. Default: the whole
            batch.

    Raises:
        ValueError: if the model has no preprocessor, `max_length` is out of range or given for a model that
            does not write text, or `group_size` is given for one that does.
    """
    task = task_of(model)
    if max_length is not None and not task.generates:
        raise ValueError(
            f"`max_length` must be None: a {type(model).__name__} does not write text. "
            f"Received: max_length={max_length}"
        )
    if group_size is not None and (task.generates or group_size < 1):
        raise ValueError(
            "`group_size` must be at least 1, and None for a model that writes text. "
            f"Received: group_size={group_size} for a {type(model).__name__}"
        )
    answers = task.answers(model)
    answers.rows.group_size = group_size
    signatures, rows = answers.signatures(max_length)
    signatures["embed"] = signature(
        lambda text: answers.rows.answered(
            lambda found: {"embedding": answers.rows.embed(found)}, answers.rows.of_texts(text)
        ),
        text=TEXT,
    )
    return Servable(owner(model), signatures, rows, functools.partial(answers.request, rows=rows))


def edge(model, inputs):
    """Returns the only signature of a TFLite model.

    | model | inputs | outputs |
    |---|---|---|
    | TextClassifier | token_ids [B,T], pads = 0, or text [B] | logits [B,C] |
    | MultiLabelClassifier | the same | probabilities [B,C] |
    | TextRegressor | the same | score [B,1] |
    | Seq2SeqLM, PrefixLM | the same | embedding [B,D] |
    | QuestionAnswerer | token_ids [B,T], pads = 0 | span_logits [B,2L], see `SpanAnswers` |

    Args:
        model: a model of any task, with its preprocessor.
        inputs: "ids" or "text".

    Raises:
        ValueError: if `inputs` is "text" and the model reads several.
    """
    answers = task_of(model).answers(model)
    if inputs == "text" and len(answers.text_inputs) > 1:
        raise ValueError(
            f"`inputs` must be ids for a {type(model).__name__}, which reads "
            f"{' and '.join(answers.text_inputs)}. Received: inputs={inputs!r}"
        )

    def answer(rows):
        return {answers.edge_output: answers.edge(rows)}

    if inputs == "ids":
        function = signature(lambda token_ids: answer(answers.rows.of_ids(token_ids)), token_ids=TOKEN_IDS)
    else:
        function = signature(lambda text: answer(answers.rows.of_texts(text)), text=TEXT)
    request = functools.partial(answers.request, rows=answers.rows)
    return Servable(owner(model), {"serving_default": function}, answers.rows, request)


def owner(model):
    """Returns a module with the plain variables of a Keras model, without any Keras objects."""
    module = tf.Module()
    module.model_variables = [variable._value for variable in model.variables]
    scales = [getattr(layer, "row_scales", None) for layer in model._flatten_layers()]
    module.row_scales = [value for value in scales if value is not None]
    return module
