"""The reader of SentencePiece models: `Tokenizer`, and the operation that it makes of them."""

import functools
import io

import sentencepiece

from convnlp.models import Tokenizer
from tests import corpus
from tests.fuzz.reader import Reader, documented

_TEXTS = ["the old river", "", "\u2581</s>\n\0 \U0001f600", "x" * 300]


@functools.cache
def small_proto():
    """A model of 2 kB: without the 240 kB of rules by which characters are normalised."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus.documents(50)),
        model_writer=model,
        vocab_size=60,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        normalization_rule_name="identity",
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


class TokenizerModel(Reader):
    """`Tokenizer(data)`, and a few texts there and back."""

    def __init__(self, folder):
        super().__init__(folder)
        self.seeds = [small_proto(), corpus.tiny_proto()]

    def read(self, data):
        tokenizer = None
        with documented(ValueError):
            tokenizer = Tokenizer(data, num_sentinels=2)
        if tokenizer is None:
            return "refused"
        ids = tokenizer.ragged(_TEXTS)
        size = tokenizer.vocabulary_size()
        assert all(0 <= one < size for row in ids.to_list() for one in row)
        assert len(tokenizer.detokenize(ids)) == len(_TEXTS)
        return "read"
