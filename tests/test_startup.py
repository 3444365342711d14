"""What a program writes to stderr: its own lines and errors, and none of TensorFlow's notes."""

import functools
import os
import signal
import subprocess
import sys
import time

import pytest

from convnlp import startup
from tests.run_program import ROOT

pytestmark = pytest.mark.multiprocess

# Without what convnlp/__init__.py does: it imports TensorFlow.
LOAD = """
import os, sys, types
package = types.ModuleType("convnlp")
package.__path__ = ["convnlp"]
sys.modules["convnlp"] = package
from convnlp import startup
"""
CODE = """
startup.hide_notes()
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\\n")
os.write(2, b"I0000 00:00:17 1 port.cc:153] oneDNN custom operations are on.\\nW0000 00:00:17 1 some.cc:1] a")
os.write(2, b" warning\\n")
print("from Python", file=sys.stderr)
os.write(2, b"E0000 00:00:17 1 node_def_util.cc:680] NodeDef mentions attribute use_unbounded_threadpool\\n")
os.write(2, b"E0000 00:00:17 1 util.cc:131] oneDNN supports DT_INT64 only on platforms with AVX-512.\\n")
os.write(2, b"E0000 00:00:17 1 cuda_platform.cc:52] failed call to cuInit: INTERNAL: UNKNOWN ERROR (303)\\n")
os.write(2, b"W0000 00:00:17 1 op_kernel.cc:1858] OP_REQUIRES failed at save_restore_v2_ops.cc:163 : full\\n")
os.write(2, b"W0000 00:00:17 1 local_rendezvous.cc:412] Local rendezvous is aborting with status: full\\n")
os.write(2, b"E0000 00:00:17 1 ring_alg.cc:291] Aborting RingReduce\\n")
os.write(2, b"I0000 00:00:17 1 service.cc:152] XLA service 0x1 initialized for platform Host\\n")
os.write(2, b"I1129 00:00:17.000001 1 retries.py:62] model m version 1: loading models/1\\n")
"""
SHOWN = {
    "W0000 00:00:17 1 some.cc:1] a warning",
    "from Python",
    "E0000 00:00:17 1 ring_alg.cc:291] Aborting RingReduce",
    "I1129 00:00:17.000001 1 retries.py:62] model m version 1: loading models/1",
}


def run(code, before=LOAD, **environment):
    """Runs that code after `before`, in a fresh process without TensorFlow's log level of the tests."""
    inherited = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    return subprocess.run(
        [sys.executable, "-c", before + code],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("", 0),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("os.abort()", -signal.SIGABRT),
        ("os._exit(3)", 3),
    ],
)
def test_only_notes_are_hidden_however_the_process_ends(end, code):
    done = run(CODE + "os.write(2, b'F0000 check failed, no end of line')\n" + end)
    assert done.returncode == code
    assert set(done.stderr.splitlines()) == SHOWN | {"F0000 check failed, no end of line"}


@pytest.mark.parametrize(
    "words",
    [
        "LLVM ERROR: pthread_create failed: Resource temporarily unavailable",
        "F0000 00:00:17 9 env.cc:84] Check failed: ret == 0 (11 vs. 0) Thread t via pthread_create() failed.",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ],
)
def test_a_crash_for_want_of_memory_ends_in_a_clear_line(words):
    code = f"startup.hide_notes(); os.write(2, {words!r}.encode() + b'\\n  and more\\n'); os.abort()"
    done = run(code)
    assert done.returncode == -signal.SIGABRT
    assert done.stderr.splitlines() == [words, "  and more", f"error: {startup.OUT_OF_MEMORY}"]


def test_an_error_in_the_data_is_not_repeated_with_its_traceback():
    lines = [
        "W0000 00:00:17 1 op_kernel.cc:1845] INVALID_ARGUMENT: SourceError: a.csv, line 12: no",
        "Traceback (most recent call last):",
        "",
        '  File "files.py", line 214, in values',
        "    return parse(record)",
        "",
        "ValueError: no",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "convnlp.data.errors.SourceError: a.csv, line 12: no",
        "\t [[{{node PyFunc}}]]",
        "W0000 00:00:17 1 some.cc:1] a warning",
        "  which goes on",
        "Traceback (most recent call last):",
    ]
    code = f"startup.hide_notes(); os.write(2, {chr(10).join(lines)!r}.encode() + b'\\n')"
    assert run(code).stderr.splitlines() == lines[-3:]


def test_a_line_without_an_end_is_shown_while_the_process_runs():
    code = "startup.hide_notes(); os.write(2, b'50 %'); input()"
    command = [sys.executable, "-c", LOAD + code]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert os.read(process.stderr.fileno(), 100) == b"50 %"
        process.stdin.close()


def test_what_ends_the_program_does_not_end_its_last_words():
    code = """
import signal, time
startup.hide_notes()
signal.signal(signal.SIGTERM, lambda *_: None)
os.killpg(0, signal.SIGTERM)
os.write(2, b"the last words\\n")
"""
    command = [sys.executable, "-c", LOAD + code]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, timeout=60, check=True, start_new_session=True
    )
    assert done.stderr == b"the last words\n"


def test_an_error_while_starting_is_shown():
    lines = run(CODE + "raise ImportError('broken')").stderr.splitlines()
    assert set(lines) >= SHOWN
    assert "ImportError: broken" in lines


def test_log_level_0_shows_notes():
    assert run(CODE, TF_CPP_MIN_LOG_LEVEL="0").stderr.count("oneDNN custom") == 1


def test_a_program_reads_object_stores_in_small_pieces():
    """Unless its user has said how large they are."""
    code = "startup.begin(); print(os.environ['GCS_READ_CACHE_BLOCK_SIZE_MB'])"
    assert (run(code).stdout, run(code, GCS_READ_CACHE_BLOCK_SIZE_MB="64").stdout) == ("4\n", "64\n")


def test_a_program_has_one_thread_for_small_matrices():
    code = "startup.begin(); print(os.environ['OPENBLAS_NUM_THREADS'])"
    assert (run(code).stdout, run(code, OPENBLAS_NUM_THREADS="2").stdout) == ("1\n", "2\n")


@pytest.mark.parametrize("arguments", [["convnlp", "fit-head"], ["convnlp.fit_head"]])
def test_a_program_begins_before_numpy_is_imported(tmp_path, arguments):
    """NumPy's BLAS reads its number of threads when it is loaded."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "def note(event, args):\n"
        "    if event == 'os.putenv' and args[0] == b'OPENBLAS_NUM_THREADS':\n"
        "        print('begun, with numpy' if 'numpy' in sys.modules else 'begun')\n"
        "sys.addaudithook(note)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    found = subprocess.run(
        [sys.executable, "-m", *arguments, "--help"],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.stdout.splitlines()[:1] == ["begun"], found.stderr


def test_with_stderr_closed():
    done = run("os.close(2); startup.hide_notes(); print('went on')")
    assert done.stdout == "went on\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["python", "-m", "convnlp.pretrain", "--workdir=x"], True),
        (["python", "-X", "dev", "-m", "export.saved_model"], True),
        (["python", "-m", "convnlp.export.saved_model"], True),
        (["python", "-m", "convnlp.serving.server"], False),
        (["python", "-m", "serving.server"], False),
        (["python", "-m", "pytest", "tests"], False),
        (["python", "-m", "convnlpx"], False),
        (["python", "notebook.py"], False),
        (["python", "-c", "import convnlp"], False),
        (["python", "-m"], False),
    ],
)
def test_which_processes_are_programs_of_ours(monkeypatch, arguments, expected):
    monkeypatch.setattr(sys, "orig_argv", arguments)
    assert startup.is_program() == expected


def test_the_command_is_a_program_of_ours(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "/usr/bin/convnlp", "pretrain"])
    monkeypatch.setattr(sys, "argv", ["/usr/bin/convnlp", "pretrain"])
    assert startup.is_program()
    assert startup.is_command()


@pytest.mark.parametrize("module", ["convnlp.pretrain", "export.verify", "pytest"])
def test_a_module_is_not_the_command(monkeypatch, module):
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", module, "convnlp"])
    assert not startup.is_command()


def test_importing_convnlp_leaves_the_process_alone():
    code = """
import os, signal, sys
def state():
    return os.readlink("/proc/self/fd/2"), sys.stderr, signal.getsignal(signal.SIGINT), children()
def children():
    return open(f"/proc/self/task/{os.getpid()}/children").read()
before = state()
dup2 = os.dup2
os.dup2 = lambda *_: print("redirected")
import convnlp
print(state() == before, convnlp.__version__ != "")
"""
    assert run(code, before="").stdout == "True True\n"


@pytest.mark.parametrize(
    "program",
    ["convnlp.prepare_tfds"]
    + [pytest.param(name, marks=pytest.mark.slow) for name in ("export.saved_model", "export.tflite_report")],
)
def test_a_wrong_flag_is_one_line(program, monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    command = [sys.executable, "-m", program, "--nonsense=1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == "error: Unknown command line flag 'nonsense'\n"


def test_ctrl_c_before_the_run_is_one_line():
    command = [
        sys.executable,
        "-m",
        "convnlp.pretrain",
        "--config=configs/pretrain_mini.py",
        "--workdir=/none",
    ]
    # A job in the background inherits the signal ignored.
    ready = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=ready) as process:
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        while not open(children, encoding="utf-8").read() and process.poll() is None:  # noqa: SIM115
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors == "stopped by SIGINT\n"
