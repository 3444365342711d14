"""What our programs do before TensorFlow is imported: mainly, they keep its notes out of their output.

TensorFlow 2.21 writes them before a program's first line, before it reads any log level (TF_CPP_MIN_LOG_LEVEL
hides none of them), and between later lines. So our programs give file descriptor 2 to a small process that
passes on everything else at once. It outlives a crash; after a crash for lack of memory, about which C++ says
little, it names the cause at the end. What Python writes goes to stderr as before. A process that only
imports convnlp is left alone.
"""

import os
import re
import select
import signal
import sys

from convnlp import allocator

PROGRAMS = ("benchmarks", "convnlp", "export")  # our packages whose modules are programs
LIGHT = ("convnlp.launch",)  # programs that need no TensorFlow
TRAINERS = ("benchmarks.comparison.worker",)  # benchmarks that train as our programs do
_STDERR = 2
# Information from C++ with its heading and continuation lines; from Python, it is that of a server, which has
# taken the place of its program. Errors are shown, except those of every start (GPU libraries registered
# twice, no driver (303), attributes newer than the code that reads them, integers that oneDNN does not
# support) and those that an exception in Python repeats.
_NOTE = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog"
    rb"|I\d{4} (?!.*\.py:\d+\] )|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: I "
    rb"|To enable the following instructions: "
    rb"|To suppress this warning, set the environment variable|Skipping registering GPU devices"
    rb"|[EW]\d{4} .*(failed call to cuInit: .*\(303\)"
    rb"|node_def_util\.cc:\d+\] NodeDef mentions attribute"
    rb"|util\.cc:\d+\] oneDNN supports DT_INT\d+ only on platforms with AVX-512"
    rb"|Unable to register cu\w+ factory|computation_placer\.cc:\d+\] computation placer already registered"
    rb"|Cannot dlopen some GPU libraries"
    rb"|op_kernel\.cc:\d+\] OP_REQUIRES failed at |local_rendezvous\.cc:\d+\] Local rendezvous is aborting"
    rb"|op_kernel\.cc:\d+\] [A-Z_]+: SourceError: )"
)
# A line of C++ that repeats an error in the data, which the program reports, and the lines that follow it.
_SOURCE_ERROR = re.compile(rb"[EW]\d{4} .*: SourceError: ")
_ITS_TRACEBACK = re.compile(
    rb"\s|$|Traceback \(most recent call last\):$|[\w.]+(Error|Exception)\b"
    rb"|The above exception was the direct cause of|During handling of the above exception"
)
# What C++ reports when it gets no memory or thread, before it ends the process by SIGABRT.
_FATAL = re.compile(rb".*(pthread_create\b.* failed|LLVM ERROR: out of memory|std::bad_alloc)", re.I)
OUT_OF_MEMORY = (
    "out of memory or threads: the machine, or a limit (ulimit or a container's), allows this process no "
    "more; smaller or shorter batches need less"
)
_PATIENCE_SECONDS = 0.2
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def is_note(line):
    """Returns whether a line (bytes) is a note of TensorFlow and not an error."""
    return bool(_NOTE.match(line))


def is_program():
    """Returns whether this process is one of our programs, started by `python -m` or the command `convnlp`.

    The server and its client do not count: they handle their signals and messages themselves.
    """
    if module := _module():
        return module.partition(".")[0] in PROGRAMS and not module.startswith("convnlp.serving")
    return is_command()


def is_light():
    """Returns whether this process was started as a program that needs none of our models."""
    return _module() in LIGHT


def is_command():
    """Returns whether this process is the command `convnlp` or `python -m convnlp`; see `convnlp.command`."""
    if module := _module():
        return module == "convnlp"
    return os.path.basename(sys.argv[0] if sys.argv else "") in ("convnlp", "convnlp.exe")


def _module():
    """Returns the module of `python -m`; "" if the process was started in another way."""
    arguments = sys.orig_argv
    return arguments[arguments.index("-m") + 1] if "-m" in arguments[:-1] else ""


def begin():
    """Prepares a program before it imports NumPy and TensorFlow: hides notes, and Ctrl-C gives no traceback.

    `convnlp.programs.run` and the training loop take over the signals while they run.
    """
    # Block size for gs://. TensorFlow's default, 64 MB, is fetched even for a single line, and is held for
    # each of the 64 files that are open at a time. A larger read, such as a tensor, still comes as a whole.
    os.environ.setdefault("GCS_READ_CACHE_BLOCK_SIZE_MB", "4")
    # NumPy and SciPy work on matrices too small to share: the threads of their BLAS wait for each other in
    # busy loops, four times as long as one thread takes for a linear head, and longer if a core is in use.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if _module() in TRAINERS or not _module().startswith("benchmarks."):  # others set it for both sides
        allocator.keep_memory()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    hide_notes()


def _interrupted(signum, frame):
    """Ends the process at once: an exception in the middle of an import may turn into another one."""
    print("stopped by SIGINT", file=sys.stderr, flush=True)
    os._exit(128 + signum)


def hide_notes():
    """Passes what is written to file descriptor 2 through a filter until the process ends.

    Does nothing with TF_CPP_MIN_LOG_LEVEL=0, which asks for the notes, or if stderr is closed. The first
    process of a container gets no filter either: its end would end the filter, perhaps with an error unread.
    """
    wanted = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0"
    if wanted or not hasattr(os, "fork") or os.getpid() == 1 or not _is_open(_STDERR):
        return
    sys.stderr.flush()
    stderr = os.dup(_STDERR)
    reader, writer = os.pipe()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    if not os.fork():
        try:
            for signum in _ENDS:  # meant for the program, whose last lines must get through
                signal.signal(signum, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            _run_filter(reader, stderr)
        finally:
            os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    os.close(reader)
    os.dup2(writer, _STDERR)  # unlike the pipe's other descriptors, child processes inherit it
    os.close(writer)
    # Python writes past the filter: a progress bar needs the terminal, and none of its lines is a note.
    sys.stderr = sys.__stderr__ = open(  # noqa: SIM115 - until the process ends
        stderr, "w", buffering=1, encoding=sys.stderr.encoding, errors="backslashreplace", closefd=False
    )


def _run_filter(reader, stderr):
    """Runs the filter's process, which ends when nobody can write any more."""
    os.chdir("/")
    low, high = sorted((reader, stderr))
    for first, end in ((0, low), (low + 1, high), (high + 1, os.sysconf("SC_OPEN_MAX"))):
        os.closerange(first, end)
    os.set_blocking(reader, True)
    pending, shown = b"", False  # an unfinished line, and whether its beginning was passed on
    is_out_of_memory = in_traceback = False

    def is_hidden(line):
        return is_note(line) or bool(in_traceback and _ITS_TRACEBACK.match(line))

    while True:
        # An unfinished line is shown after a moment, unless it begins like a note.
        if pending and not select.select([reader], [], [], _PATIENCE_SECONDS)[0]:
            if shown or not is_hidden(pending):
                _write(stderr, pending)
                pending, shown = b"", True
            continue
        data = os.read(reader, 1 << 16)
        if not data:
            break
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            is_out_of_memory |= bool(_FATAL.match(line))
            if shown or not is_hidden(line):
                _write(stderr, line + b"\n")
                in_traceback = False
            else:
                in_traceback |= bool(_SOURCE_ERROR.match(line))
            shown = False
    if pending and not is_hidden(pending):
        _write(stderr, pending)
    if is_out_of_memory:
        _write(stderr, f"error: {OUT_OF_MEMORY}\n".encode())


def _is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _write(descriptor, data):
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        pass  # nobody reads it any more, which must not affect the program
