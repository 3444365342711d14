"""Fuzzes one reader, guided by the coverage of our code, until it finds a defect or its time is over.

    python -m tests.fuzz.run --reader=records --workdir=runs/fuzz --seconds=3600

Flags with one dash are libFuzzer's (-help=1 lists them). In WORKDIR/READER, `corpus` holds the seeds and what
was found to reach new code, from which the next run goes on; crash-..., timeout-... and oom-... are files of
bytes that show a defect. Such a file as a further argument is read alone.

Needs atheris: Linux, Python 3.11 to 3.13.
"""

import argparse
import hashlib
import importlib
import os
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

# A reader of bytes of a few kilobytes that takes as long, on a busy machine, or as much memory, has a defect.
_DEFAULTS = {"-timeout": 120, "-rss_limit_mb": 4096}


def main(argv):
    """Writes the seeds, and hands over to libFuzzer."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reader", required=True)
    parser.add_argument("--workdir", required=True, type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    flags, rest = parser.parse_known_args(argv[1:])
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

    import atheris
    import tensorflow  # noqa: F401 - before the code that is watched

    with atheris.instrument_imports(include=["convnlp"]):
        table = importlib.import_module("tests.fuzz.table")
    if flags.reader not in table.READERS:
        parser.error(f"--reader must be one of {', '.join(table.READERS)}. Received: {flags.reader}")
    found = flags.workdir.resolve() / flags.reader
    (found / "corpus").mkdir(parents=True, exist_ok=True)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="fuzz"))
    reader = table.READERS[flags.reader](scratch)
    for seed in reader.seeds:
        (found / "corpus" / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    largest = max(map(len, reader.seeds))
    options = {**_DEFAULTS, "-max_len": 2 * largest, "-artifact_prefix": f"{found}/"}
    given = [
        f"{name}={value}" for name, value in options.items() if not any(f.startswith(name) for f in rest)
    ]
    files = [] if any(not each.startswith("-") for each in rest) else [str(found / "corpus")]
    started, count = time.monotonic(), 0

    def read(data):
        nonlocal count
        try:
            reader.read(data)
        except Exception:
            path = found / f"crash-{hashlib.sha1(data).hexdigest()}"
            path.write_bytes(data)
            traceback.print_exc()
            end(1, f"{path}: {data[:200]!r}")
        count += 1
        if time.monotonic() - started > flags.seconds:
            kept = len(os.listdir(found / "corpus"))
            end(0, f"{flags.reader}: {count} inputs, no defect; {kept} of them in {found / 'corpus'}")

    def end(status, line):
        # Not left to atheris, which would wait for the threads of TensorFlow and of servers.
        print(line, file=sys.stderr, flush=True)
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(status)

    atheris.Setup([argv[0], *given, *rest, *files], read)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv)
