"""`benchmarks.startup`: how memory is counted, what the page says of it, a run in small."""

import json
import subprocess
import sys

import pytest

from benchmarks import processes, startup
from benchmarks.starting import forms, page, servers
from tests.small_classifier import small_classifier

MB = 10**6
# A process with 100 MB that a child of it has too, and the child with another 50.
FORKS = """
import os, sys, time
shared = bytearray(os.urandom(10**6) * 100)
def wait(more):
    print("ready", flush=True)
    sys.stdin.readline()
pid = os.fork()
wait(bytearray(os.urandom(10**6) * 50) if pid == 0 else None)
"""


def test_what_processes_share_is_counted_once():
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
        (child,) = processes.children(process.pid)
        alone, both = (
            [servers.memory(pid) for pid in pids] for pids in ([process.pid], [process.pid, child])
        )
        process.communicate("\n\n")
    assert 100 * MB < alone[0]["anonymous"] < 120 * MB
    assert 150 * MB < both[1]["anonymous"] < 170 * MB
    assert 150 * MB < servers.own(both) < 170 * MB
    assert 45 * MB < alone[0]["pss_anonymous"] < 70 * MB  # half of what it shares
    files = max(each["rss"] - each["anonymous"] for each in both)
    assert servers.together(both) == servers.own(both) + files


def result(times):
    rows = []
    for key, own in (("float32", 300), ("tflite", 200)):
        for num_workers in (1, 2, 4):
            size = {"own_bytes": (own + 50 * num_workers) * MB, "bytes": (own + 60 * num_workers) * MB}
            seconds = {"seconds": 4.5, "cpu_seconds": 6.25, "load_seconds": 1.5, "warm_up_seconds": 0.75}
            row = {"form": key, "num_workers": num_workers, "disk_bytes": 12.5 * MB, "request_ms": 2.5}
            rows.append(row | size | seconds | ({"further_model_bytes": 33 * MB} if num_workers == 1 else {}))
    return {
        "rows": rows,
        "settings": {"times": times},
        "machine": {"cpu": "a CPU", "flags": ["avx2"], "threads": None},
    }


def test_the_page_has_a_line_a_form():
    lines = page.text(result(times=False)).splitlines()
    assert lines[0].count("|") == lines[2].count("|")
    assert lines[2:4] == [
        "| SavedModel float32 | 12.5 | 360 | 350 | 33 | 50 | 420 | 540 |",
        "| LiteRT int8 and SavedModel float32 | 12.5 | 260 | 250 | 33 | 50 | 320 | 440 |",
    ]
    assert "were not measured" in lines[5]
    assert "| flags | avx2 |" in lines
    assert not any("threads" in line for line in lines)


def test_times_are_shown_where_they_were_to_be_measured():
    text = page.text(result(times=True))
    assert "| SavedModel float32 | 2 | 4.5 | 6.25 | 1.5 | 0.75 | 2.5 |" in text
    assert "were not measured" not in text


def test_one_number_of_workers_tells_nothing_of_a_further_one():
    found = result(times=False)
    found["rows"] = [row for row in found["rows"] if row["num_workers"] != 4]
    assert page.text(found).splitlines()[2] == "| SavedModel float32 | 12.5 | 360 | 350 | 33 |  | 420 |"


def test_wrong_flags_end_in_one_line():
    assert startup.checked(["4", "1"]) == [1, 4]
    for workers in (["2"], ["1", "x"], ["0", "1"]):
        with pytest.raises(ValueError, match="`workers` must be whole numbers >= 1, including 1"):
            startup.checked(workers)
    assert forms.chosen([]) == forms.FORMS
    with pytest.raises(ValueError, match=r"`--forms` must be among float32, .*Received: 'int4'"):
        forms.chosen(["float32", "int4"])


@pytest.mark.slow
@pytest.mark.serving
@pytest.mark.multiprocess
def test_the_program_measures_servers(tmp_path):
    small_classifier(["dynamic_conv"], 16, ["bad", "good"]).save_to_preset(str(tmp_path / "preset"))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / startup.PAGE).write_text(
        f"before\n{page.BEGIN}\n\n<!-- end of generated part -->\nbehind\n"
    )
    command = [
        sys.executable,
        "-m",
        "benchmarks.startup",
        f"--workdir={tmp_path}",
        f"--preset={tmp_path}/preset",
    ]
    command += [f"--json={tmp_path}/found.json", f"--docs_dir={tmp_path}/docs", "--repeats=1"]
    subprocess.run([*command, "--forms=float32,tflite", "--workers=1,2"], check=True, timeout=1200)
    rows = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert [(row["form"], row["num_workers"], len(row["processes"])) for row in rows] == [
        ("float32", 1, 1),
        ("float32", 2, 3),
        ("tflite", 1, 1),
        ("tflite", 2, 3),
    ]
    for row in rows:
        assert 0 < row["warm_up_seconds"] < row["load_seconds"] < row["seconds"]
        assert 100 * MB < row["own_bytes"] < row["bytes"]
    # Two workers share what is imported.
    assert rows[1]["own_bytes"] < 1.7 * rows[0]["own_bytes"]
    assert "SavedModel float32" in (tmp_path / "docs" / startup.PAGE).read_text()
