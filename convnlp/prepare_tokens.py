r"""Writes any source as a token cache, which `convnlp pretrain` reads as tokens:DIR.

    convnlp prepare-tokens --source='jsonl:web/*.jsonl.gz' --tokenizer=spm.model --output=DIR

Every document is read and tokenized once. Training then maps the files into memory, shuffles all rows by
arithmetic, and continues in the middle of an epoch without reading what came before. The same command
continues a run that was stopped; for a complete cache, it compares the sums of all files.
"""

from absl import flags

from convnlp import outputs, programs, source_flags
from convnlp.data import Source, SourceError, fields, sources, token_writer
from convnlp.data.opening import NO_TEXT
from convnlp.models import Tokenizer
from convnlp.training import run_lock


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    source_flags.define_source("source", "Texts to tokenize", required=True)
    flags.DEFINE_string("tokenizer", "", "SentencePiece model, such as convnlp train-tokenizer writes.")
    flags.DEFINE_string("preset", "", "Preset whose tokenizer to use instead of --tokenizer.")
    flags.DEFINE_string("output", None, "Directory to write: new, or of the same cache.", required=True)
    source_flags.define_split("split")
    source_flags.define_text_field("text_field")
    source_flags.define_data_dir("data_dir")
    flags.DEFINE_integer(
        "shard_tokens", token_writer.SHARD_TOKENS, "Tokens per file, all of them held in memory.", 1
    )


def main(_):
    """Reads the flags, checks the source, writes the cache."""
    args = flags.FLAGS
    outputs.check_folder("output", args.output, takes_urls=True)  # which the next line refuses, and says why
    token_writer.check_directory(args.output)
    tokenizer = _tokenizer(args.tokenizer, args.preset)
    source = Source(args.source, args.split, args.data_dir)
    if source.kind == "tokens":
        raise SourceError(NO_TEXT.format(source.name))
    field = args.text_field
    if field == "text":
        field = fields.text(source)
    sources.check(source, (field,))
    with run_lock.held(args.output, "output"):
        made = token_writer.write(source, tokenizer, args.output, field, shard_tokens=args.shard_tokens)
    count = len(made["shards"])
    print(
        f"{args.output}: {made['documents']:,} documents, {made['tokens']:,} tokens "
        f"in {count} shard{'' if count == 1 else 's'}; read it as tokens:{args.output}"
    )


def _tokenizer(path, preset):
    if bool(path) == bool(preset):
        raise ValueError(
            "Exactly one of `--tokenizer` and `--preset` must be given. "
            f"Received: tokenizer={path!r}, preset={preset!r}"
        )
    if path:
        return Tokenizer.from_file(path)
    return Tokenizer.from_preset(preset)


if __name__ == "__main__":
    define_flags()
    programs.run(main)
