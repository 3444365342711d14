"""The expected answers of an exported language model: generated ids and texts, embeddings.

A generated token is judged by how far its logit is below the best one, given the tokens before it.
"""

import numpy as np
import tensorflow as tf

from convnlp.tasks.reference import Reference, full_rows, relative_difference


class LanguageModelReference(Reference):
    """The expected answers of a language model.

    Args:
        lm: the model.
        length: int. L, the number of tokens that its encoder reads of a text.
        preprocess: see `Answers.preprocess`.
    """

    def __init__(self, lm, length, preprocess):
        self._lm, self._length, self._preprocess = lm, length, preprocess
        self._text_of = {}  # token ids of an input -> the text of the ids generated for it

    def error(self, name, inputs, outputs):
        """Returns the largest error of an answer; infinite if a text is not that of the generated ids.

        The answers of "ids" must come before those of "generate" and "pair", for the same rows.
        """
        if name == "embed":
            return relative_difference(outputs["embedding"], self.edge(inputs))
        token_ids, mask = self._rows(inputs)
        keys = [row[tokens].tobytes() for row, tokens in zip(token_ids, mask, strict=True)]
        if name == "ids":
            ids = outputs["generated_ids"]
            texts = self._texts(ids)
            self._text_of.update(zip(keys, texts, strict=True))
            return self._shortfall(token_ids, mask, ids)
        expected = self._answers(inputs["text"], [self._text_of.get(key, "") for key in keys])
        return 0.0 if outputs["generated_text"].tolist() == expected else np.inf

    def edge(self, inputs):
        """Returns the embedding [B,D], the mean of the encoder's output over the tokens."""
        token_ids, mask = self._whole(inputs)
        backbone = self._lm.backbone
        if not backbone.num_layers:
            backbone = backbone.encoder_only()
        encoded = backbone.encode(token_ids, padding_mask=mask).numpy()
        kept = np.asarray(backbone.encoder_output_mask(mask))
        return np.stack([row[tokens].mean(axis=0) for row, tokens in zip(encoded, kept, strict=True)])

    def _rows(self, inputs):
        """Returns what generation starts from: token ids and mask, [B,L] each."""
        return self._whole(inputs)

    def _whole(self, inputs):
        """Returns whole texts: token ids and mask, [B,L] each."""
        if "token_ids" in inputs:
            token_ids = full_rows(inputs["token_ids"], self._length)
            return token_ids, token_ids != 0
        text = (inputs["text"], inputs["text_pair"]) if "text_pair" in inputs else inputs["text"]
        rows = self._preprocess(text)
        return rows["token_ids"].numpy(), rows["padding_mask"].numpy()

    def _texts(self, generated):
        """Returns the text of each row of generated ids."""
        return self._lm.preprocessor.tokenizer.detokenize(tf.constant(generated))

    def _answers(self, inputs, generated):
        """Returns what "generate" should answer: the generated texts, as bytes."""
        return [text.encode() for text in generated]

    def _shortfall(self, token_ids, mask, generated):
        """Returns how far the logits of generated tokens are below the best, given the tokens before them."""
        backbone = self._lm.backbone
        encoded = backbone.encode(token_ids, padding_mask=mask)
        shifted = np.pad(generated[:, :-1], [[0, 0], [1, 0]])  # the start token is 0
        hidden = backbone.decode(shifted, encoded, encoder_padding_mask=mask)
        return self._below_best(backbone.logits(hidden).numpy(), generated)

    def _below_best(self, logits, generated):
        """Does the same for logits [B,N,V] and ids [B,N], which are pads after an end token."""
        chosen = np.take_along_axis(logits, generated[..., None], axis=-1)[..., 0]
        end = generated == self._lm.preprocessor.tokenizer.end_token_id
        before_end = np.cumsum(end, axis=1) - end == 0
        if generated[~before_end].any():
            return np.inf
        return float(np.max((logits.max(axis=-1) - chosen)[before_end]))
