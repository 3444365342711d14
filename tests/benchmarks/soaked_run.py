"""A run of `convnlp pretrain` as the soak sees it, without TensorFlow: checkpoints, metrics, last words.

    python soaked_run.py TEMPLATE pretrain --workdir=DIR --config.train.num_steps=N ...

TEMPLATE is a directory with the files of each checkpoint (model*) and a preset.
"""

import hashlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time

EVERY = 50
KEEP = 3
STEP_SECONDS = 0.001


def start(template, arguments, environment, log):
    """Starts such a run, for `benchmarks.soaking.training_run.Run`; it ends with this process."""
    from convnlp.launching.worker import ending_with_us  # not for the run itself

    command = [sys.executable, "-I", "-S", __file__, str(template), *arguments]
    return subprocess.Popen(ending_with_us(command), env=environment, stdout=log, stderr=log)


def main(template, *arguments):
    """Trains."""
    values = dict(each.lstrip("-").split("=", 1) for each in arguments if "=" in each)
    last, workdir = int(values["config.train.num_steps"]), pathlib.Path(values["workdir"])
    folder, stops = workdir / "checkpoints", []
    signal.signal(signal.SIGTERM, lambda *_: stops.append(1))
    folder.mkdir(parents=True, exist_ok=True)
    files = contents(pathlib.Path(template))
    step = newest(folder, files)
    rows = workdir / "metrics.jsonl"
    lines = rows.read_bytes().splitlines(True) if rows.exists() else []
    rows.write_bytes(b"".join(line for line in lines if json.loads(line)["step"] <= step))
    with open(rows, "ab", buffering=0) as metrics:
        while step < last and not stops:
            time.sleep(STEP_SECONDS)
            step += 1
            metrics.write(json.dumps({"step": step}).encode() + b"\n")
            print(f"step {step} of {last}", flush=True)
            if step % EVERY == 0:
                save(folder, step, files)
    if stops:
        save(folder, step, files)
        print(f"stopped by SIGTERM at step {step}, checkpoint saved; the same command continues the run")
        return 128 + signal.SIGTERM
    shutil.copytree(pathlib.Path(template) / "preset", workdir / "preset", dirs_exist_ok=True)
    return 0


def contents(template):
    """The files of a checkpoint: name -> bytes."""
    files = {path.name: path.read_bytes() for path in template.glob("model*")}
    facts = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in files.items()
    }
    return {**files, "manifest.json": json.dumps({"files": facts}).encode()}


def newest(folder, files):
    """The step to continue from; what is half-written or damaged is removed."""
    for path in folder.glob(".*"):
        shutil.rmtree(path)
    for path in sorted(folder.iterdir(), reverse=True):
        if {each.name: each.read_bytes() for each in path.iterdir()} == files:
            print(f"Resuming at step {int(path.name)}", flush=True)
            return int(path.name)
        print(f"Checkpoint {path} is damaged (it is)", flush=True)
        shutil.rmtree(path)
    return 0


def save(folder, step, files):
    """Writes a checkpoint, and removes the oldest."""
    partial, path = folder / f".{step:08d}", folder / f"{step:08d}"
    if not path.exists():
        partial.mkdir()
        for name, content in files.items():
            (partial / name).write_bytes(content)
        partial.rename(path)
    for old in sorted(folder.glob("[0-9]*"))[:-KEEP]:
        shutil.rmtree(old.rename(folder / f".removed-{old.name}"))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
