"""Which texts and token ids a `Seq2SeqBackbone` takes; what it does not take is one clear line."""


def longest_text(backbone, side):
    """Returns the most tokens that a side takes; see `Seq2SeqBackbone.longest_text`."""
    limits = [getattr(backbone, side).longest_text()]
    if backbone.position_embedding == "learned":
        limits.append(backbone.max_sequence_length)
    return min((limit for limit in limits if limit is not None), default=None)


def require_length(backbone, side, name, length):
    """Raises ValueError if a side cannot take a text; see `Seq2SeqBackbone.require_length`."""
    longest, having = longest_text(backbone, side), f"{side}'s mixers have"
    if longest is not None and length > longest:
        if longest != getattr(backbone, side).longest_text():
            having = "learned position embedding has"
        raise ValueError(
            f"`{name}` must be at most {longest}, the longest text that the {having} weights "
            f"for (max_sequence_length={backbone.max_sequence_length}). Received: {name}={length}"
        )


def require_vocabulary(backbone, preprocessor):
    """Raises ValueError if a tokenizer has other ids; see `Seq2SeqBackbone.require_vocabulary`."""
    tokenizer = getattr(preprocessor, "tokenizer", None)
    if (
        getattr(tokenizer, "proto", None) is not None
        and tokenizer.vocabulary_size() != backbone.vocabulary_size
    ):
        raise ValueError(
            "`preprocessor` must have a tokenizer with as many ids as the embedding has rows, "
            f"vocabulary_size={backbone.vocabulary_size}. Received: one with {tokenizer.vocabulary_size()}"
        )
