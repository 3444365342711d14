"""A vocabulary of bytes, as a SentencePiece model that `convnlp.models.Tokenizer` can read."""

import io
import pathlib
import tempfile

import sentencepiece

from convnlp.training import storage

_OTHER = 0x100  # the first of the characters that stand for bytes that are not printable ASCII
_LAST = 0xFFFF  # the last character that is split into bytes


def model():
    """Returns the model: pad, end, unknown, and a piece for each byte but 0.

    The tokenizer's op does not support byte fallback, so the model's normalisation splits characters into
    bytes: printable ASCII characters, including the space, stay as they are, and every other character up
    to U+FFFF becomes, for each byte b of its UTF-8 encoding, the character U+0100 + b. All pieces are
    single characters; nothing is added to a text, and no space is removed. Characters beyond U+FFFF, such
    as emoji, and NUL are unknown: one token for a run of them.

    Returns:
        bytes. They differ between calls only by the name of a temporary file, so a text always has the same
        ids.

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
            sentence_iterator=iter(["a b"]),  # all pieces but the space are given below
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
    """Writes the model unless it exists.

    Args:
        path: pathlib.Path.
    """
    if not path.exists():
        storage.write(str(path), model())


def _stand_in(byte):
    return chr(byte) if ord(" ") <= byte <= ord("~") else chr(_OTHER + byte)


def _taken_apart():
    """Returns the characters that are split into bytes; surrogates are not characters."""
    return (
        chr(code)
        for code in range(1, _LAST + 1)
        if not ord(" ") <= code <= ord("~") and not 0xD800 <= code < 0xE000
    )


def _rule(character):
    """Returns a line of the normalisation table: a code point and its replacements, in hexadecimal."""
    return f"{ord(character):X}\t{' '.join(f'{_OTHER + byte:X}' for byte in character.encode())}\n"
