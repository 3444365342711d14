"""A vocabulary of bytes, as a SentencePiece model that `convnlp.models.Tokenizer` reads."""

import io
import pathlib
import tempfile

import sentencepiece

from convnlp.training import storage

_OTHER = 0x100  # where the characters begin that stand for bytes without a printed one
_LAST = 0xFFFF  # of the characters that are taken apart


def model():
    """The model: pad, end, unknown, and a piece for each byte but 0.

    The op of the tokenizer knows no byte fallback, so that the model's normalisation takes characters apart:
    a printed ASCII character and a space stay what they are, and every other one up to U+FFFF becomes, for
    each byte b of its UTF-8, the character U+0100 + b. All pieces are single characters; nothing is added to
    a text, and no space is dropped. Characters beyond U+FFFF, such as emoji, and NUL are unknown: one token
    for a run of them.

    Returns:
        bytes. Wherever it is made, a text has the same ids; the name of a temporary file differs in it.

    Example:
    >>> processor = sentencepiece.SentencePieceProcessor(model_proto=model())
    >>> len(processor.encode("a é")), len("a é".encode())
    (4, 4)
    """
    pieces = "".join(_stand_in(byte) for byte in range(1, 256) if byte != ord(" "))
    written = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder, "rules.tsv")
        rules.write_text("".join(map(_rule, _taken_apart())), encoding="ascii")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b"]),  # all pieces are named, but for the space
            model_writer=written,
            model_type="unigram",
            vocab_size=3 + 255,
            required_chars=pieces,
            max_sentencepiece_length=1,
            character_coverage=1.0,
            normalization_rule_tsv=str(rules),
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            num_threads=1,
            minloglevel=2,
        )
    return written.getvalue()


def write(path):
    """Writes the model unless it is there.

    Args:
        path: pathlib.Path.
    """
    if not path.exists():
        storage.write(str(path), model())


def _stand_in(byte):
    return chr(byte) if ord(" ") <= byte <= ord("~") else chr(_OTHER + byte)


def _taken_apart():
    """The characters that are not what stands for them; surrogates are none."""
    return (
        chr(code)
        for code in range(1, _LAST + 1)
        if not ord(" ") <= code <= ord("~") and not 0xD800 <= code < 0xE000
    )


def _rule(character):
    """A line of the table of normalisation: hexadecimal code points, and those that they become."""
    return f"{ord(character):X}\t{' '.join(f'{_OTHER + byte:X}' for byte in character.encode())}\n"
