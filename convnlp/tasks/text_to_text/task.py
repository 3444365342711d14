"""Text to text: turns a text, or a pair, into a text, which may be the name of a class."""

import dataclasses
from typing import ClassVar

import numpy as np
import tensorflow as tf

from convnlp import losses, scores
from convnlp.data import Label, batching, examples, packing, sources
from convnlp.data.schema import SEVERAL
from convnlp.layers import dropout_seed
from convnlp.models import Seq2SeqLM, Seq2SeqLMPreprocessor, Tokenizer
from convnlp.models.token_rows import text_batches
from convnlp.tasks.scored_fields import Fields, names_of, texts_of
from convnlp.tasks.task import Task
from convnlp.tasks.text_to_text.answers import LanguageModelAnswers

_OF_TEXTS = ("word_f1", *scores.SQUAD)
METRICS = ("exact_match", *_OF_TEXTS, "ranked_accuracy", "ranked_f1", "ranked_f1_macro")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextToText(Task):
    """Turns a text, or a pair, into a text, which may be the name of a class, by a `Seq2SeqLM`.

    Args:
        tokenizer: `Tokenizer`.
        input_fields: tuple of one or two str, the text or the pair.
        target_field: str, a text, or a list of acceptable texts: the model is trained on the first, and
            scored by the best of them; or a class, if there are `label_names`.
        label_names: tuple of str. Default None.
        label_threshold: float, if the target is a number that stands for one of two classes; see
            `convnlp.data.Label`. Default None.
        input_length: int. S, tokens of an input.
        target_length: int. T, tokens of a target.
        pack: bool. Whether training rows hold several examples. Default False.
    """

    name: ClassVar[str] = "text_to_text"
    model_cls: ClassVar[type] = Seq2SeqLM
    best: ClassVar[tuple] = ("valid/loss", "min")
    generates: ClassVar[bool] = True
    metrics: ClassVar[tuple] = METRICS
    share_metrics: ClassVar[tuple] = ("exact_match", "squad_exact_match", "ranked_accuracy")
    found_fields: ClassVar[tuple] = ("input_field", "target_field")
    text_roles: ClassVar[tuple] = ("input_field", "second_text_field")

    tokenizer: Tokenizer
    input_fields: tuple
    target_field: str
    input_length: int
    target_length: int
    label_names: tuple | None = None
    label_threshold: float | None = None
    pack: bool = False

    @classmethod
    def from_config(cls, config, tokenizer, train):
        task = config.task
        if task.label_threshold is not None and not task.label_names:
            raise ValueError(
                "`task.label_names` must name the two classes, which the model is to write, with "
                f"`task.label_threshold`. Received: task.label_threshold={task.label_threshold}"
            )
        if task.num_epochs != 0 and task.pack:
            raise ValueError(
                "`task.num_epochs` must be 0 with `task.pack`; set `train.num_steps`. "
                f"Received: task.num_epochs={task.num_epochs}, task.pack=True"
            )
        return cls(
            tokenizer=tokenizer,
            input_fields=tuple(filter(None, (task.input_field, task.second_text_field))),
            target_field=task.target_field,
            label_names=tuple(task.label_names) or None,
            label_threshold=task.label_threshold,
            input_length=config.data.input_length,
            target_length=config.data.target_length,
            pack=task.pack,
        )

    @classmethod
    def from_model(cls, model, source, fields):
        if len(fields.texts) not in (1, 2):
            raise ValueError(
                f"`text_fields` must be one or two fields for a Seq2SeqLM. Received: {list(fields.texts)}"
            )
        tokenizer, target, names = model.preprocessor.tokenizer, fields.target, None
        target_length = model.preprocessor.decoder_sequence_length
        if target is None:
            target = fields.label
            names = tuple(fields.label_names or sources.label_names(source.whole, target))
            # They are ranked, whatever their length.
            target_length = max(target_length, *(len(row) + 1 for row in tokenizer.tokenize(list(names))))
        return cls(
            tokenizer=tokenizer,
            input_fields=tuple(fields.texts),
            target_field=target,
            label_names=names,
            label_threshold=None if names is None else fields.label_threshold,
            input_length=model.preprocessor.encoder_sequence_length,
            target_length=target_length,
        )

    @classmethod
    def scored_fields(cls, model, source, trained, given):
        """As in `Task`; what is not given is as in training, if the data have all of it."""
        own = {}
        if "texts" not in given:
            own["texts"] = texts_of(trained, cls.text_roles)
        if not {"target", "label"} & {*given}:
            is_class = bool(trained.get("label_names"))
            own["label" if is_class else "target"] = trained.get("target_field")
        there = {*sources.Sample(source, 1).fields}
        if not own or not all(value and names_of(value) <= there for value in own.values()):
            own = {}
        if "label" in own:
            own |= {name: trained.get(name) for name in ("label_names", "label_threshold")}
        return Fields(**{**own, **given})

    @classmethod
    def answers(cls, model):
        return LanguageModelAnswers(model)

    @property
    def decoder_length(self):
        return self.target_length

    @property
    def known_metrics(self):
        if not self.label_names:
            return ("exact_match", *_OF_TEXTS)
        without = set(_OF_TEXTS) | ({"ranked_f1"} if len(self.label_names) != 2 else set())
        return tuple(name for name in METRICS if name not in without)

    def read(self, source, training=False):
        return read_text_to_text(
            source,
            self.tokenizer,
            input_length=self.input_length,
            target_length=self.target_length,
            input_field=self.input_fields,
            target_field=self.target_field,
            label_names=self.label_names,
            label_threshold=self.label_threshold,
            keep_texts=not training,
        )

    def batches(self, found, batch_size, *, training=False, **order):
        return text_to_text_batches(
            found,
            batch_size,
            start_token_id=self.tokenizer.start_token_id,
            training=training,
            pack=self.pack and training,
            **order,
        )

    def model(self, backbone):
        lengths = self.input_length, self.target_length
        return Seq2SeqLM(backbone, Seq2SeqLMPreprocessor(self.tokenizer, *lengths))

    def loss(self, model):
        return text_to_text_loss(model.backbone)

    def scores(self, model, found, batch_size=32):
        inputs = tuple(found.texts[field] for field in self.input_fields)
        inputs = inputs if len(inputs) > 1 else inputs[0]
        targets = found.texts[self.target_field]
        return text_to_text_scores(model, inputs, targets, self.label_names, batch_size)


def read_text_to_text(
    source,
    tokenizer,
    *,
    input_length,
    target_length,
    input_field="inputs",
    target_field="targets",
    label_names=None,
    label_threshold=None,
    keep_texts=False,
):
    """Reads input and target texts, for an encoder and a decoder.

    Args:
        source: `Source`.
        tokenizer: has `tokenize` and `end_token_id`.
        input_length: int, S, with the end token.
        target_length: int, T, with the end token. Longer texts are cut, and their number is logged.
        input_field: string, or a tuple of two for a pair of texts, each followed by the end token.
        target_field: string, a text, or a list of texts, of which the first is the target; or a class, if
            there are `label_names`.
        label_names: sequence of strings; the target is the name of the class in `target_field`. Default None.
        label_threshold: float, see `convnlp.data.Label`. Default None.
        keep_texts: bool, whether to keep the texts, for scores. Default False.

    Returns:
        `examples.Examples` with two columns, inputs and targets, and the texts of both fields.

    Raises:
        SourceError: if the source or any of its examples is wrong.
        ValueError: if the lengths leave no room for the texts, or for the names of the classes.

    Example:
    >>> _ = open("rows.jsonl", "w").write(json.dumps({"inputs": "The old river.", "targets": "river"}))
    >>> found = read_text_to_text(
    ...     Source("jsonl:rows.jsonl"), tokenizer, input_length=12, target_length=4, keep_texts=True)
    >>> found.texts["targets"]
    ['river']
    """
    fields = (input_field,) if isinstance(input_field, str) else tuple(input_field)
    rows = [examples.Rows(fields, input_length)]
    if not label_names:
        rows.append(examples.Rows((target_field,), target_length, "data.target_length", several=True))
        return examples.load(source, tokenizer, rows, keep_texts=keep_texts)
    names = _label_rows(tokenizer, label_names, target_length)
    label = Label(target_field, names=tuple(label_names), threshold=label_threshold)
    found = examples.load(source, tokenizer, rows, label=label, keep_texts=keep_texts)
    texts = {target_field: [label.names[index] for index in found.labels]} if keep_texts else {}
    return dataclasses.replace(
        found,
        columns=(*found.columns, tf.gather(names, found.labels)),
        lengths=(input_length, target_length),
        texts=found.texts | texts,
    )


def text_to_text_batches(found, batch_size, *, start_token_id, training, pack=False, **order):
    """Makes batches of an input and a target text, for an encoder and a decoder.

    Args:
        found: `examples.Examples` from `read_text_to_text`.
        batch_size: int, B, of this worker.
        start_token_id: int, the token before the target in the decoder's input.
        training: bool, see `batching.labelled_batches`.
        pack: bool, in training only: puts several examples into each row, told apart by segment ids. Default
            False.
        **order: `seed`, `num_epochs` and `shard` of `batching.order`.

    Returns:
        A tf.data.Dataset of dicts: `encoder_token_ids` int32 [B,S], `decoder_token_ids` (the target one place
        later, after the start token), `target_token_ids` int32 [B,T], `encoder_padding_mask` bool [B,S] and
        `decoder_padding_mask` bool [B,T], which is False in rows that only fill up an evaluation. Packed rows
        also have int32 `encoder_segment_ids` [B,S] and `decoder_segment_ids` [B,T], from 1; 0 for padding.
        Unpacked, its cardinality is the number of batches.

    Raises:
        ValueError: if `pack` is set in an evaluation, and as for `batching.order`.

    Example:
    >>> _ = open("rows.jsonl", "w").write(json.dumps({"inputs": "The old river.", "targets": "river"}))
    >>> found = read_text_to_text(Source("jsonl:rows.jsonl"), tokenizer, input_length=12, target_length=4)
    >>> for batch in text_to_text_batches(found, 1, start_token_id=0, training=False):
    ...     print(tokenizer.detokenize(batch["target_token_ids"]), batch["decoder_padding_mask"].numpy())
    ['river'] [[ True  True False False]]
    """
    if pack and not training:
        raise ValueError(
            "`pack` must be False in evaluation, where every example has its row. Received: pack=True"
        )
    (inputs, targets), (input_length, target_length) = found.columns, found.lengths
    numbered = batching.order(len(found), batch_size, training=training, **order)
    start = tf.constant([[start_token_id]])

    def take(indices):
        target = tf.gather(targets, indices)
        shifted = tf.concat([tf.repeat(start, indices.shape[0], axis=0), target[:, :-1]], axis=1)
        return tf.gather(inputs, indices), shifted, target

    @tf.autograph.experimental.do_not_convert
    def batch(indices, weights):
        encoder, decoder, target = take(indices)
        encoder_token_ids, encoder_padding_mask = batching.dense(encoder, [batch_size, input_length])
        decoder_token_ids, decoder_padding_mask = batching.dense(decoder, [batch_size, target_length])
        return {
            "encoder_token_ids": encoder_token_ids,
            "encoder_padding_mask": encoder_padding_mask,
            "decoder_token_ids": decoder_token_ids,
            "decoder_padding_mask": decoder_padding_mask & (weights > 0)[:, tf.newaxis],
            "target_token_ids": batching.dense(target, [batch_size, target_length])[0],
        }

    names = {
        "encoder_token_ids": input_length,
        "decoder_token_ids": target_length,
        "target_token_ids": target_length,
    }

    @tf.autograph.experimental.do_not_convert
    def columns(indices, _):
        return dict(zip(names, take(indices), strict=True))

    @tf.autograph.experimental.do_not_convert
    def packed(rows):
        encoder, decoder = rows["encoder_token_ids"], rows["decoder_token_ids"]
        return {
            "encoder_token_ids": encoder.token_ids,
            "encoder_padding_mask": encoder.segment_ids > 0,
            "encoder_segment_ids": encoder.segment_ids,
            "decoder_token_ids": decoder.token_ids,
            "decoder_padding_mask": decoder.segment_ids > 0,
            "decoder_segment_ids": decoder.segment_ids,
            "target_token_ids": rows["target_token_ids"].token_ids,
        }

    if not pack:
        return numbered.map(batch).prefetch(tf.data.AUTOTUNE)
    return packing.pack(numbered.map(columns), names, batch_size).map(packed).prefetch(tf.data.AUTOTUNE)


def text_to_text_loss(backbone):
    """Returns the teacher-forced cross-entropy of the target tokens, for `convnlp.training.loop`.

    Source: Raffel et al., 2020, section 3.1.4. The mean is over the target tokens that are not padding.
    """

    def loss_fn(batch, seed, training=True):
        with dropout_seed(seed):
            encoded = losses.encode(backbone, batch, training)
            logits = losses.target_logits(backbone, batch, encoded, batch["encoder_padding_mask"], training)
        targets, mask = batch["target_token_ids"], batch["decoder_padding_mask"]
        loss_sum, weight = losses.cross_entropy(logits, targets, mask)
        return {
            "loss_sum": loss_sum,
            "weight": weight,
            "token_accuracy": (losses.hits(logits, targets, mask), weight),
        }

    return loss_fn


def text_to_text_scores(lm, inputs, targets, label_names=None, batch_size=32):
    """Scores a text-to-text model by real greedy decoding, and by ranking label strings.

    Args:
        lm: a `convnlp.models.Seq2SeqLM` with its preprocessor.
        inputs: list of str, or a tuple of two for pairs.
        targets: list of str, what the model should write. Several acceptable texts are separated by
            `convnlp.data.schema.SEVERAL`; the best counts.
        label_names: list of str that includes every target. If given, "ranked_accuracy", "ranked_f1" (for
            two names) and "ranked_f1_macro" take the name of highest log-probability as the answer.
        batch_size: int.

    Returns:
        dict of floats: "exact_match" (see `normalized`), "num_examples" and, without `label_names`, "word_f1"
        (see `scores.word_f1`), "squad_exact_match" and "squad_f1" (see `scores.squad_normalized`); with
        `label_names`, the scores named there.
    """
    predictions = greedy_predictions(lm, inputs, batch_size)
    pairs = [(a, b.split(SEVERAL)) for a, b in zip(predictions, targets, strict=True)]
    hits = [max(scores.normalized(a) == scores.normalized(b) for b in right) for a, right in pairs]
    found = {"exact_match": float(np.mean(hits)), "num_examples": float(len(hits))}
    if label_names is None:
        of_pair = {"word_f1": scores.word_f1, **scores.SQUAD}
        best = {name: [max(of(a, b) for b in right) for a, right in pairs] for name, of in of_pair.items()}
        return {**found, **{name: float(np.mean(values)) for name, values in best.items()}}
    labels = np.array([list(label_names).index(target) for target in targets])
    ranked = scores.of_logits(lm.rank_labels(inputs, label_names, batch_size=batch_size), labels)
    ranked = {f"ranked_{name}": value for name, value in ranked.items()}
    return {**found, **{name: ranked[name] for name in METRICS if name in ranked}}


def greedy_predictions(lm, inputs, batch_size=32):
    """Returns what `lm.generate` writes with the greedy sampler, whatever sampler it is compiled with.

    Args:
        lm: a `convnlp.models.Seq2SeqLM` with its preprocessor.
        inputs: list of str, or a tuple of two for pairs.
        batch_size: int. The last batch is filled up, so that one graph serves all.

    Returns:
        list of str.
    """
    max_length = lm.preprocessor.decoder_sequence_length - 1  # without the start token
    generate = tf.function(lambda ids, mask: lm.generate_ids(ids, mask, max_length), autograph=False)
    texts = []
    for chunk, count in text_batches(inputs, batch_size):
        x = lm.preprocessor.generate_preprocess(chunk)
        ids = generate(x["encoder_token_ids"], x["encoder_padding_mask"])
        texts += lm.preprocessor.tokenizer.detokenize(ids)[:count]
    return texts


def _label_rows(tokenizer, names, length):
    """Returns the target of each class; names must fit, since a cut one could be taken for another."""
    tokenize = tf.function(
        lambda texts: examples.concatenate([tokenizer.tokenize(texts)], length, tokenizer.end_token_id),
        autograph=False,
    )
    rows, num_cut = tokenize(tf.constant(list(names)))
    if num_cut:
        raise ValueError(
            f"`target_length` must hold the name of every class, of {list(names)}. Received: {length}"
        )
    return rows
