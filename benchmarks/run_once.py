"""Runs programs of the library as a user would, unless that has been done."""

import shlex
import subprocess
import sys

from convnlp.launching.worker import ending_with_us


def run_once(program, workdir, fields, done):
    """Runs `python -m program` unless `done` exists, and prints the command in both cases.

    Args:
        program: str, a module such as "convnlp.finetune".
        workdir: pathlib.Path, its --workdir, created if missing; its output goes to log.txt there.
        fields: dict, name of a flag -> value, such as {"config.seed": 1}.
        done: pathlib.Path of a file or directory that exists once the program has finished.

    Raises:
        ValueError: if the program fails, with the last line that it wrote.
    """
    options = [f"--{name}={value}" for name, value in fields.items()]
    command = [sys.executable, "-m", program, *options, f"--workdir={workdir}"]
    print("$", shlex.join(["python", *command[1:]]), flush=True)
    if not done.exists():
        workdir.mkdir(parents=True, exist_ok=True)
        with open(workdir / "log.txt", "ab") as log:
            code = subprocess.run(ending_with_us(command), check=False, stdout=log, stderr=log).returncode
        if code:
            lines = (workdir / "log.txt").read_text(encoding="utf-8", errors="replace").splitlines()
            raise ValueError(f"{program} has ended with exit code {code}: {''.join(lines[-1:])}")
