import pytest

from convnlp.models import Tokenizer
from tests import corpus


@pytest.fixture(scope="session")
def tokenizer():
    return Tokenizer(corpus.tiny_proto())


@pytest.fixture(scope="session")
def documents(tmp_path_factory):
    """A source of two corpora, one four times as large as the other."""
    folder = tmp_path_factory.mktemp("documents")
    corpus.write_jsonl(folder / "large.jsonl.gz", [{"text": text} for text in corpus.documents(400, seed=1)])
    corpus.write_jsonl(folder / "small.jsonl", [{"text": text} for text in corpus.documents(100, seed=2)])
    return f"jsonl:{folder}/*.jsonl*"
