"""What a server needs to start and to run: time to its first answer, memory by form, worker and model.

    python -m benchmarks.startup --workdir=DIR [--json=FILE] [--docs_dir=docs] [--notimes]

`serving.server` serves every form of one classifier, as large as the demo's for Banking77, in processes of
its own. They get requests until every worker has answered; then their memory is read. For each row, the
server is started --repeats times, and the figures are medians. Copies of the model under other names show
how much memory a further model takes. Memory does not depend on what else the machine does, because
libraries and files that several processes share are counted once. Times do depend on it; --notimes leaves
them out of the page. The exported forms stay in --workdir; use another directory after a change of the
code.
"""

import pathlib
import statistics
import tempfile

from absl import flags

from benchmarks import machine, pages
from benchmarks.shared_flags import check_json, define_output
from benchmarks.starting import forms, page, servers
from convnlp import programs
from convnlp.training.storage import write_json

PAGE = "serving_processes.md"
_FURTHER_MODELS = 2


def define_flags():
    """Defines the flags; not on import, so that programs can be imported side by side."""
    flags.DEFINE_string("workdir", None, "Directory for the exported forms.", required=True)
    define_output("json", "File to write all results to.")
    define_output("docs_dir", f"Directory of {PAGE}, whose generated part to write.")
    flags.DEFINE_string("preset", None, "Directory of a classifier. Default: one as large as the demo's.")
    flags.DEFINE_list("forms", [], f"Forms, of {', '.join(forms.FORMS)}. Default: all.")
    flags.DEFINE_list("workers", ["1", "2", "4"], "Numbers of workers, including 1.")
    flags.DEFINE_integer("repeats", 3, "How often to start each server.", lower_bound=1)
    flags.DEFINE_bool("times", True, "Write times too, not only memory.")


def main(_):
    """Flags -> forms -> servers -> rows, JSON, page."""
    args = flags.FLAGS
    chosen = forms.chosen(args.forms)
    workers = checked(args.workers)
    check_json(args.json)
    if args.docs_dir:
        pages.require_marks("docs_dir", pathlib.Path(args.docs_dir, PAGE), page.BEGIN)
    workdir = pathlib.Path(args.workdir).absolute()
    workdir.mkdir(parents=True, exist_ok=True)
    preset = args.preset or forms.write_preset(workdir)
    result = {
        "machine": machine.describe(None),
        "settings": {"times": args.times, "repeats": args.repeats, "preset": args.preset or "demo"},
        "rows": [],
    }
    for key, form in chosen.items():
        version = forms.build(preset, key, workdir)
        for num_workers in workers:
            row = measured(version, form, num_workers, args.repeats)
            result["rows"].append({"form": key, "num_workers": num_workers, **row})
            print(line(result["rows"][-1]), flush=True)
            if args.json:
                write_json(args.json, result)
    if args.docs_dir:
        pages.replace_generated(pathlib.Path(args.docs_dir, PAGE), page.BEGIN, page.text(result))


def checked(workers):
    """Returns the numbers of workers; raises ValueError if they are not numbers or do not include 1."""
    if not all(word.isdigit() and int(word) for word in workers) or "1" not in workers:
        raise ValueError(f"`workers` must be whole numbers >= 1, including 1. Received: {','.join(workers)}")
    return sorted(map(int, workers))


def measured(version, form, num_workers, repeats):
    """Returns a row: medians over the servers that were started."""
    found = [_served(version, form, 1, num_workers) for _ in range(repeats)]
    row = {
        key: statistics.median(each[key] for each in found)
        for key in ("seconds", "cpu_seconds", "load_seconds", "warm_up_seconds", "request_ms")
    }
    row["processes"] = found[0]["processes"]
    row["own_bytes"] = statistics.median(servers.own(each["processes"]) for each in found)
    row["bytes"] = statistics.median(servers.together(each["processes"]) for each in found)
    files = [path for path in version.rglob("*") if path.is_file()]
    row["disk_bytes"] = sum(path.stat().st_size for path in files)
    if num_workers == 1:
        more = [_served(version, form, 1 + _FURTHER_MODELS, 1) for _ in range(repeats)]
        own = statistics.median(servers.own(each["processes"]) for each in more)
        row["further_model_bytes"] = (own - row["own_bytes"]) / _FURTHER_MODELS
    return row


def _served(version, form, num_models, num_workers):
    with tempfile.TemporaryDirectory() as folder:
        return servers.measure(version, folder, num_models, num_workers, form.flags)


def line(row):
    """Returns the line that is printed for a row."""
    further = row.get("further_model_bytes")
    more = "" if further is None else f", a further model {page.megabytes(further)} MB"
    return (
        f"{row['form']}, {row['num_workers']} workers: {page.megabytes(row['bytes'])} MB, "
        f"{page.megabytes(row['own_bytes'])} MB of its own{more}; first answer after {row['seconds']:.1f} s, "
        f"{row['cpu_seconds']:.1f} s of CPU"
    )


if __name__ == "__main__":
    define_flags()
    programs.run(main)
