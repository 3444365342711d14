from tests.data.conftest import documents, tokenizer

__all__ = ["documents", "tokenizer"]
