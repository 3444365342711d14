r"""Do the tests of any file notice? Breaks it in small ways, one at a time, and runs tests that you name.

    python -m tests.mutation.mutate_files --workdir=DIR --files='convnlp/objectives/*.py' \
        --tests='tests/objectives/test_*.py' [--every=3] [--kinds=sign --kinds=mask]

The changes are those of `tests.mutation.mutate`, which is about mixers; files are changed in a copy of the
tree. The tests run in the given order up to the first that fails, without the slow ones, so name fast ones
first. Prints what was noticed and by which test. Continues where it was stopped, unless these files have
changed since. If a change goes unnoticed, it may also change nothing, or be noticed by other tests.
"""

import glob
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from absl import app, flags

from tests.mutation.operators import KINDS, mutants
from tests.mutation.tree import ROOT, copy

TIMEOUT_SECONDS = 1800


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("workdir", None, "Directory of the results.", required=True)
    flags.DEFINE_multi_string("files", None, "Glob of files to break; repeatable.", required=True)
    flags.DEFINE_multi_string("tests", None, "Glob of files of tests to run; repeatable.", required=True)
    flags.DEFINE_integer("every", 1, "Make only every n-th change.", lower_bound=1)
    flags.DEFINE_multi_enum("kinds", list(KINDS), KINDS, "Of changes; repeatable.")


def changes(path, kinds, every):
    """Returns every n-th of the `Mutant`s of those kinds in a file, from the middle of the first n on."""
    found = [mutant for mutant in mutants(path.read_text(encoding="utf-8")) if mutant.kind in kinds]
    return found[every // 2 :: every]


def run(tree, tests):
    """Returns the first test that fails in a copy of the tree, or None if all pass."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-m", "not slow", *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return "they do not end"
    if not done.returncode:
        return None
    words = [line.split() for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return words[0][1] if words else f"pytest ends with {done.returncode}"


def main(_):
    """Flags -> changes, file by file -> what noticed them."""
    args = flags.FLAGS
    files, tests = (
        [name for pattern in patterns for name in sorted(glob.glob(pattern, root_dir=ROOT))]
        for patterns in (args.files, args.tests)
    )
    for flag, names in (("files", files), ("tests", tests)):
        if not names:
            sys.exit(f"error: `--{flag}` must match files below {ROOT.name}. Received: {args[flag].value}")
    results = pathlib.Path(args.workdir, "files.json")
    results.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    texts_of_tests = [(ROOT / name).read_text(encoding="utf-8") for name in tests]
    missed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = copy(pathlib.Path(folder))
        if noticed := run(tree, tests):
            sys.exit(f"error: `--tests` must pass before anything is changed. Received: {noticed} fails")
        for name in files:
            source = (ROOT / name).read_text(encoding="utf-8")
            for mutant in changes(ROOT / name, args.kinds, args.every):
                text = mutant.apply(source)
                key = hashlib.sha256("\n".join([name, text, *texts_of_tests]).encode()).hexdigest()[:16]
                if key not in known:
                    (tree / name).write_text(text, encoding="utf-8")
                    known[key] = run(tree, tests)
                    (tree / name).write_text(source, encoding="utf-8")
                    results.write_text(json.dumps(known, indent=1), encoding="utf-8")
                total += 1
                missed += known[key] is None
                after = mutant.shown(source)[1]
                print(
                    f"{name}:{mutant.line} {mutant.kind}: {after}  -> {known[key] or 'NOT NOTICED'}",
                    flush=True,
                )
    print(f"{total - missed} of {total} changes were noticed")


if __name__ == "__main__":
    define_flags()
    app.run(main)
