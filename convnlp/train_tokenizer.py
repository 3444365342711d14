r"""Trains a SentencePiece tokenizer from any source.

    convnlp train-tokenizer --source=pydocs --vocabulary_size=8000 --output=tokenizer/spm.model

The model has T5's layout: pad 0, end 1, unknown 2, no beginning of sentence. `--vocabulary_size` includes the
100 sentinels, which are not in the model but above its pieces: 8000 makes a model of 7900 pieces.
"""

import io
import re
import string

import sentencepiece
from absl import flags, logging

from convnlp import outputs, programs, source_flags
from convnlp.data import Source, fields, rules, sources

NUM_SENTINELS = 100
MAX_PIECES = 1 << 24  # far beyond this the trainer would not end, and from 2^31 on not begin
MAX_LINE_BYTES = 8192  # longer lines are cut; the trainer would leave them out
_TOO_HIGH = re.compile(r"Vocabulary size too high .*value <= (\d+)", re.DOTALL)  # what the trainer says
NUM_THREADS = 2  # affects the result: each thread rounds its own sums
# Number of pieces -> characters that such a vocabulary has, even if the sample lacks them: a name, a price or
# an emoticon in a user's own text should not be unknown because it was rare in the sample. Characters that
# normalisation (NFKC) decomposes, such as "…", are not included.
REQUIRED_CHARACTERS = {
    1_000: string.ascii_letters + string.digits + string.punctuation,
    8_000: "–—‘’“”•§©®°±×÷€£¥¿¡áàâäãåæçéèêëíìîïñóòôöõøœßúùûüÁÀÂÄÅÇÉÈÊÍÑÓÔÖØÚÜ←→↑↓✓★☆♥♡"  # noqa: RUF001
    "😀😁😂🤣😃😄😅😆😉😊😍😘😎🙂🤔😐🙄😏😥😫😴😛😜🙃😞😟😤😢😭😩😬😱😳😡😠🤢👍👎👏🙏💪🔥❤✨🎉💔💯😇",
}


def train(lines, vocabulary_size, character_coverage=0.9995):
    """Trains a unigram model; the same lines give the same bytes.

    Reference: Kudo, 2018, "Subword Regularization", section 3.2, https://arxiv.org/abs/1804.10959. There is
    no byte fallback: the tokenizer of the training graph, the server and the edge device does not support it.
    Case is kept, and common characters have pieces of their own; see `REQUIRED_CHARACTERS`.

    Args:
        lines: iterable of strings or UTF-8 bytes.
        vocabulary_size: int, the number of pieces plus 100 sentinels. If the text yields fewer pieces, the
            vocabulary is that much smaller, and a warning says so.
        character_coverage: float in [0.98, 1]. The rarest characters beyond it are unknown. Defaults to
            0.9995.

    Returns:
        bytes, the model.

    Raises:
        ValueError: if `vocabulary_size` leaves no piece or more than 2^24, if there is too little text for
            it, or if `character_coverage` is out of range.
    """
    num_pieces = vocabulary_size - NUM_SENTINELS
    if num_pieces < 4:
        raise ValueError(
            f"`vocabulary_size` must leave pieces besides {NUM_SENTINELS} sentinels. "
            f"Received: {vocabulary_size}"
        )
    if num_pieces > MAX_PIECES:
        raise ValueError(
            f"`vocabulary_size` must be at most {MAX_PIECES + NUM_SENTINELS}. Received: {vocabulary_size}"
        )
    rules.number("[0.98, 1]").check("character_coverage", character_coverage)
    lines = list(lines)  # the trainer would mistake an error of the iterator for its own
    while True:
        try:
            return _trained(lines, num_pieces, character_coverage)
        except RuntimeError as error:
            most = _TOO_HIGH.search(str(error))
            if not most or not 4 <= int(most[1]) < num_pieces:
                raise ValueError(
                    f"too little text for vocabulary_size={vocabulary_size} ({num_pieces} pieces): "
                    f"{' '.join(str(error).split())}"
                ) from error
            num_pieces = int(most[1])
            logging.warning(
                "The text yields a vocabulary of only %d, which replaces vocabulary_size=%d",
                num_pieces + NUM_SENTINELS,
                vocabulary_size,
            )


def _trained(lines, num_pieces, character_coverage):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="unigram",
        vocab_size=num_pieces,
        character_coverage=character_coverage,
        required_chars=required_characters(num_pieces),
        byte_fallback=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        max_sentence_length=MAX_LINE_BYTES,
        num_threads=NUM_THREADS,
        minloglevel=2,
    )
    return model.getvalue()


def required_characters(num_pieces):
    """Returns the characters that a model with this many pieces always has, as one string."""
    return "".join(text for least, text in REQUIRED_CHARACTERS.items() if num_pieces >= least)


def sample(source, fields=("text",), *, num_documents, num_bytes):
    """Yields the lines of the first documents of a source; every field contributes its share.

    So does every file, as far as the sample goes: of more than `files.OPEN_FILES`, each group (see
    `sources.groups`) gives the same share of the documents and bytes. TFDS data sets are read in their order.

    Args:
        source: `Source`.
        fields: tuple of str. The fields that hold texts.
        num_documents: int. The most documents.
        num_bytes: int. The most bytes, exceeded by at most one document.

    Yields:
        str, of at most `MAX_LINE_BYTES` bytes.
    """
    groups = sources.groups(source, fields)
    for left, group in zip(range(len(groups), 0, -1), groups, strict=True):
        if num_documents <= 0 or num_bytes <= 0:
            return
        # What a group does not have is left to those after it.
        rest = num_documents - -(-num_documents // left), num_bytes - -(-num_bytes // left)
        for document in _documents(group().as_numpy_iterator()):
            if num_documents <= rest[0] or num_bytes <= rest[1]:
                break
            num_documents -= 1
            num_bytes -= sum(map(len, document))
            for line in (line for text in document for line in text.decode("utf-8").splitlines()):
                yield from _cut(line)


def _documents(blocks):
    """Yields the documents in blocks, each a tuple of the bytes of its fields."""
    for block in blocks:
        yield from zip(*block.values(), strict=True)


def _cut(line):
    """Cuts a line into parts of at most `MAX_LINE_BYTES`, whatever its characters."""
    size = MAX_LINE_BYTES // 4
    return (line[start : start + size] for start in range(0, len(line), size))


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    source_flags.define_source("source", "Texts to learn from", required=True)
    flags.DEFINE_string("output", None, "File to write, such as DIR/spm.model.", required=True)
    flags.DEFINE_integer("vocabulary_size", 32000, "Pieces and the 100 sentinels together.")
    source_flags.define_split("split")
    source_flags.define_text_fields("text_fields", "Fields that hold text, separated by commas.", ["text"])
    flags.DEFINE_alias("fields", "text_fields")  # the older name
    flags.DEFINE_float(
        "character_coverage",
        0.9995,
        "Share of the text's characters that get a piece; 1 leaves none unknown.",
    )
    source_flags.define_data_dir("data_dir")
    flags.DEFINE_integer("num_documents", 1_000_000, "Maximum number of documents to read.", 1)
    flags.DEFINE_integer("sample_bytes", 20_000_000, "Maximum number of bytes of text to read.", 1)


def main(_):
    """Reads the sample, trains, and puts the file in place when it is complete."""
    args = flags.FLAGS
    source = Source(args.source, args.split, args.data_dir)
    outputs.check_file("output", args.output, inputs=sources.paths(source))
    names = args.text_fields
    if names == ["text"]:
        names = [fields.text(source)]
    lines = sample(source, names, num_documents=args.num_documents, num_bytes=args.sample_bytes)
    model = train(lines, args.vocabulary_size, args.character_coverage)
    outputs.write_file(args.output, model)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model).vocab_size()
    print(f"{args.output}: {pieces} pieces, {pieces + NUM_SENTINELS} tokens with {NUM_SENTINELS} sentinels")


if __name__ == "__main__":
    define_flags()
    programs.run(main)
