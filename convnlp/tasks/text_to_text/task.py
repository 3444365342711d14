"""Text to text: turns a text, or a pair, into a text, which may be the name of a class."""

import dataclasses
from typing import ClassVar

from convnlp import losses
from convnlp.data import sources
from convnlp.layers import dropout_seed
from convnlp.models import Seq2SeqLM, Seq2SeqLMPreprocessor, Tokenizer
from convnlp.tasks.scored_fields import Fields, names_of, texts_of
from convnlp.tasks.task import Task
from convnlp.tasks.text_to_text.answers import LanguageModelAnswers
from convnlp.tasks.text_to_text.examples import read_text_to_text, text_to_text_batches
from convnlp.tasks.text_to_text.scoring import METRICS, OF_TEXTS, text_to_text_scores

_SHORTEST = 2  # tokens of an input, by the rule of `data.input_length`


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
    config_fields: ClassVar[tuple] = (
        *found_fields,
        "second_text_field",
        "label_names",
        "label_threshold",
        "pack",
    )

    tokenizer: Tokenizer
    input_fields: tuple
    target_field: str
    input_length: int
    target_length: int
    label_names: tuple | None = None
    label_threshold: float | None = None
    pack: bool = False

    @classmethod
    def check_backbone(cls, config, backbone):
        Seq2SeqLM.check_backbone(backbone)
        source, target = config.data.input_length or _SHORTEST, config.data.target_length
        backbone.require_length("decoder", "data.target_length", target)
        if not backbone.num_layers:  # one row holds both
            backbone.require_length("decoder", "data.input_length + data.target_length", source + target)
        super().check_backbone(config, backbone)

    @classmethod
    def longest_input(cls, config, backbone):
        longest = super().longest_input(config, backbone)
        return longest if longest is None or backbone.num_layers else longest - config.data.target_length

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
        """As in `Task`; what is not given is as in training, if the data have it and the texts."""
        of_class = [name for name in ("label_names", "label_threshold") if name in given]
        if "target" in given and (unused := ["label_field"] * ("label" in given) + of_class):
            raise ValueError(
                f"`{unused[0]}` must not be given with `target_field`, which holds a text and no class. "
                f"Received: target_field={given['target']!r}"
            )
        own = {}
        if "texts" not in given:
            own["texts"] = texts_of(trained, cls.text_roles)
        if not {"target", "label"} & {*given}:
            is_class = bool(of_class or trained.get("label_names"))
            own["label" if is_class else "target"] = trained.get("target_field")
        there = {*sources.Sample(source, 1).fields}
        own = {name: value for name, value in own.items() if value and names_of(value) <= there}
        if "texts" not in own | given:
            own = {}
        if "target" not in own | given:
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
            return ("exact_match", *OF_TEXTS)
        without = set(OF_TEXTS) | ({"ranked_f1"} if len(self.label_names) != 2 else set())
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

    def scores(self, model, found, batch_size=32, outputs=None):
        inputs = tuple(found.texts[field] for field in self.input_fields)
        inputs = inputs if len(inputs) > 1 else inputs[0]
        targets = found.texts[self.target_field]
        return text_to_text_scores(model, inputs, targets, self.label_names, batch_size)


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
