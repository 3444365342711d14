"""The expected answers of an exported `PrefixLM`: continuations and embeddings."""

import numpy as np
import tensorflow as tf

from convnlp.models.tokenizer import SPACE
from convnlp.tasks.text_to_text.reference import LanguageModelReference


class PrefixLMReference(LanguageModelReference):
    """The expected answers of an encoder that continues a text: one prompt at a time, without pads."""

    def error(self, name, inputs, outputs):
        if name == "ids":  # these come first
            self._longest = self._length - outputs["generated_ids"].shape[1]
        return super().error(name, inputs, outputs)

    def _rows(self, inputs):
        """Returns two lists of B: the last tokens of each prompt, and a mask of ones."""
        tokenizer = self._lm.preprocessor.tokenizer
        if "token_ids" in inputs:
            rows = [row[row != 0] for row in inputs["token_ids"]]
        else:
            rows = [row.numpy() for row in tokenizer.ragged(inputs["text"])]
        end = np.array([tokenizer.end_token_id], np.int32)
        rows = [row[-self._longest :] if row.size else end for row in rows]
        return rows, [np.ones_like(row, bool) for row in rows]

    def _texts(self, generated):
        """Returns what each row adds to its prompt."""
        pieces = self._lm.preprocessor.tokenizer.pieces(tf.constant(generated)).numpy()
        return [b"".join(row).decode().replace(SPACE, " ") for row in pieces]

    def _answers(self, inputs, generated):
        prompts = [text.decode().rstrip(" \t\n\f\r") for text in inputs]
        pairs = zip(prompts, generated, strict=True)
        return [(prompt + text if prompt else text.removeprefix(" ")).encode() for prompt, text in pairs]

    def _shortfall(self, prompts, masks, generated):
        backbone, worst = self._lm.backbone, 0.0
        for prompt, mask, ids in zip(prompts, masks, generated, strict=True):
            row = np.concatenate([prompt, ids])[None, :-1]
            prefix_mask = np.concatenate([mask, np.zeros_like(ids, bool)])[None, :-1]
            hidden = backbone.encode(row, prefix_mask=prefix_mask)[:, len(prompt) - 1 :]
            worst = np.maximum(worst, self._below_best(backbone.logits(hidden).numpy(), ids[None]))
        return worst
