"""The answers of an exported text-to-text model."""

import tensorflow as tf

from convnlp.tasks.answers import Answers
from convnlp.tasks.rows import TEXT, TOKEN_IDS, signature
from convnlp.tasks.text_to_text.reference import LanguageModelReference


class LanguageModelAnswers(Answers):
    """Generated texts and ids, by greedy decoding; see `Answers`."""

    @property
    def sequence_length(self):
        return self.model.preprocessor.encoder_sequence_length

    def preprocess(self, text):
        rows = self.model.preprocessor.generate_preprocess(text)
        return {name: rows[f"encoder_{name}"] for name in ("token_ids", "padding_mask")}

    def signatures(self, max_length=None):
        if max_length is None:
            max_length = self.model.preprocessor.decoder_sequence_length - 1  # without the start token
        if max_length < 1:
            raise ValueError(f"`max_length` must be >= 1. Received: {max_length}")
        _require_room(self.model, max_length)

        def generated(rows):
            ids = self.model.generate_ids(rows["token_ids"], rows["padding_mask"], max_length)
            return tf.ensure_shape(ids, [None, max_length])

        def generate(text):
            ids = generated(self.rows.of_texts(text))
            return {"generated_text": self.model.preprocessor.tokenizer.detokenize(ids)}

        def from_ids(token_ids):
            return {"generated_ids": generated(self.rows.of_ids(token_ids))}

        text_to_text = signature(generate, text=TEXT)
        return {
            "serving_default": text_to_text,
            "generate": text_to_text,
            "pair": signature(lambda text, text_pair: generate((text, text_pair)), text=TEXT, text_pair=TEXT),
            "ids": signature(from_ids, token_ids=TOKEN_IDS),
        }, self.rows

    def request(self, name, texts, rows):
        """As in `Answers`; "ids" is asked about the rows of texts and of pairs, see the reference."""
        found = super().request(name, texts, rows)
        text = tf.constant(texts)
        both = [rows.of_texts(each)["token_ids"] for each in (text, (text, text[::-1]))]
        width = max(row.shape[1] for row in both)
        both = [tf.pad(row, [[0, 0], [0, width - row.shape[1]]]) for row in both]
        return {**found, "token_ids": tf.concat(both, axis=0).numpy()} if name == "ids" else found

    def reference(self):
        return LanguageModelReference(self.model, self.sequence_length, self.preprocess)


def _require_room(lm, max_length):
    """Raises ValueError if the mixers take fewer positions than generation fills."""
    backbone = lm.backbone
    source = 0 if backbone.num_layers else lm.preprocessor.encoder_sequence_length  # in the decoder's row
    longest = backbone.decoder.longest_text()
    if longest is not None and source + max_length > longest:
        raise ValueError(
            f"`max_length` must be at most {longest - source}: the decoder's mixers take {longest} "
            f"positions, and the source takes {source} of them. Received: {max_length}"
        )
