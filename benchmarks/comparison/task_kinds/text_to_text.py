"""Texts that answer with a text, which a decoder writes."""

from typing import ClassVar

from benchmarks.comparison.task_kinds.task_kind import TaskKind
from benchmarks.comparison.variants import Variant
from convnlp import tasks
from convnlp.data.schema import SEVERAL
from convnlp.models import LAYOUTS, SIZES
from convnlp.tasks import scores
from convnlp.tasks.text_to_text import greedy_predictions


class TextToText(TaskKind):
    """A model with a decoder, whose greedy answers are compared with the correct ones."""

    name = "text_to_text"
    left_out = ()
    chooses_own_rate = True
    keeps_presets = True  # COGS has a second test split, of other kinds of sentences
    metrics: ClassVar = {"accuracy": "exact_match"}
    curve = "token_accuracy"
    model_words = "encoder and decoder; the decoder is not pre-trained"
    score_words = "exact matches of greedy decoding on test data"
    best_words = "validation loss"

    def check_mixer(self, mixer):
        """Checks that a row can decode with several examples in a row of the batch."""
        if not Variant.parse(mixer).can_write():
            raise ValueError(
                "`--mixers` must be able to decode, and to keep several examples in a row apart, "
                f"for a task whose answer is a text. Received: {mixer!r}"
            )

    def set_task(self, config, plan, data, fields):
        """Adds a decoder that is as deep as the encoder.

        It uses the encoder's kernels, so with fewer layers it would not see far enough back. Training rows
        hold several examples, as in `configs/finetune_cogs.py`.
        """
        config.task.kind = self.name
        config.task.pack = True
        config.task.input_field, config.task.target_field = data.text_field, data.label_field
        config.task.second_text_field = data.second_text_field
        config.data.target_length = data.target_length
        config.model.num_decoder_layers = SIZES[plan.size]["num_decoder_layers"]
        if config.model.mixer in LAYOUTS:  # a decoder added to an encoder would get its mixers
            config.model.decoder_mixer = LAYOUTS[config.model.mixer][1]
        config.task.update(fields)

    def hits(self, model, source, texts, target, batch_size):
        """Counts exact matches, as `convnlp.tasks.text_to_text.text_to_text_scores` does."""
        task = tasks.TextToText.from_model(model, source, tasks.Fields(texts, target=target))
        found = task.read(source)
        inputs = tuple(found.texts[name] for name in texts)
        written = greedy_predictions(model, inputs if len(inputs) > 1 else inputs[0], batch_size)
        hits = [
            int(scores.normalized(text) in map(scores.normalized, right.split(SEVERAL)))
            for text, right in zip(written, found.texts[target], strict=True)
        ]
        return {"lengths": found.columns[0].row_lengths().numpy().tolist(), "hits": hits}
