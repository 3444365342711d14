"""What all command-line programs share: one clear line for a user's error, and a telling exit code."""

import dis
import errno
import importlib
import logging as python_logging
import math
import os
import re
import select
import signal
import sys

import tensorflow as tf
from absl import app, flags, logging

from convnlp import startup
from convnlp.data import source_error_message
from convnlp.runs import config_files
from convnlp.training import heartbeat, storage, strategy
from convnlp.training.finite import NonFiniteError
from convnlp.training.stopping import StoppedError

# What TensorFlow reports about files, networks and memory; any other error of an operation is a defect.
_ENVIRONMENT = (
    tf.errors.NotFoundError
    | tf.errors.AlreadyExistsError
    | tf.errors.PermissionDeniedError
    | tf.errors.UnauthenticatedError
    | tf.errors.FailedPreconditionError
    | tf.errors.ResourceExhaustedError
    | tf.errors.DataLossError
    | tf.errors.UnavailableError
    | tf.errors.DeadlineExceededError
)
LOST_WORKER = os.EX_TEMPFAIL  # the exit code
_TOO_LARGE = os.strerror(errno.EFBIG)
# How NumPy, Python in a data pipeline, and TensorFlow's kernels say that there is no memory left.
_NO_MEMORY = ("MemoryError", "OOM when allocating", "Out of memory", "failed to allocate memory")
_MODULES = flags.DEFINE_list(
    "modules",
    [],
    "Modules of your own to import first, which register mixers, objectives, tasks or modes of export "
    "(docs/your_own_mixer.md).",
)
_MIXER_MODULES = flags.DEFINE_list("mixer_modules", [], "The older name of --modules.")
_MISSING_FLAG = re.compile(r"flag --(\w+)=None: Flag --\1 must have a value other than None\.")
_HOME = re.compile(r"(?P<flag>--?(?P<name>[\w.]+)=([a-z]+:)?)(?P<path>~(/.*)?)", re.DOTALL)
_TEXTS = ("text", "text_pair")  # flags whose values are what somebody has written


def run(main, takes_arguments=False):
    """Runs `main(argv)` under absl.

    A path that begins with "~/" in the value of a flag is in the home directory, as where a shell expands it.
    Without `takes_arguments`, an argument that belongs to no flag is refused: it would have no effect, as the
    last words of a text without quotes.

    Errors that are meant for users (wrong flag or config field, missing or damaged file, full disk, lost
    worker, non-finite loss; see `user_message`) end with the line `error: ...` on stderr and exit code 1;
    `--verbosity=1` shows where they were raised. A program that has lost another worker exits with 75
    (`LOST_WORKER`): nothing is wrong with it, and it may be restarted. A run stopped by a signal exits with
    128 + the signal's number, such as 143 for SIGTERM, so that a script does not take it for finished. A
    program whose output goes to a pipe that nobody reads any more ends without a word, as by SIGPIPE. Any
    other exception is a defect of ours and keeps its traceback.
    """

    def quiet_main(argv):
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)  # absl's default shows TensorFlow's internal notes
            logging.get_absl_handler().setFormatter(python_logging.Formatter("%(message)s"))
            # Batches of several lengths are traced on purpose; TensorFlow thinks that is a mistake.
            python_logging.getLogger("tensorflow").addFilter(
                lambda record: "triggered tf.function retracing" not in record.getMessage()
            )
        if len(argv) > 1 and not takes_arguments:
            raise ValueError(
                "a value must follow its flag as --flag=value, in quotes if it contains spaces. "
                f"Received: {argv[1]!r}, which belongs to no flag"
            )
        import_modules(modules())
        code = main(argv)
        if sys.stdout is not None:  # None: closed from the start
            sys.stdout.flush()  # here, where a pipe that nobody reads is no traceback yet
        return code

    sys.argv[1:] = map(with_home, sys.argv[1:])
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # replaces that of `startup.begin`
    flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS["modules"])  # so that --help shows it
    try:
        app.run(quiet_main, flags_parser=_parse)
    except StoppedError as stop:
        heartbeat.mark(ended=True)
        print(stop, file=sys.stderr)
        sys.exit(stop.exit_code)
    except KeyboardInterrupt:
        print("stopped by SIGINT", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        heartbeat.mark(ended=True)  # TensorFlow may take some seconds to end, without a sign of life
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still in its buffer
            sys.exit(128 + signal.SIGPIPE)
        message = user_message(error)
        if message is None:
            raise
        _fail(error, message, LOST_WORKER if strategy.is_unreachable(error) else 1)


def _nobody_reads():
    """Whether the standard output is a pipe whose reader has seen enough, such as `head`."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def user_message(error):
    """Returns what to tell a user about an exception, in one line; None for a defect, to show its traceback.

    These are meant for users: a ValueError that a `raise` statement in our own code, or in a module of
    --modules, has raised (not one from code that it calls), or that is of our own class; what the operating
    system or TensorFlow's file systems report; a lost worker; values that are not finite; no memory.
    """
    if message := source_error_message(error):
        return message
    worker = strategy.lost_worker(error)
    if worker is not None:
        return f"worker {worker} was lost; start all workers again to continue from the last checkpoint"
    original = _original(error)
    if _is_out_of_memory(original):
        return startup.OUT_OF_MEMORY
    if isinstance(original, ValueError):
        meant = _is_ours(type(original).__module__) or _is_raised_by_us(original)
    elif isinstance(original, OSError):
        meant = original.errno != errno.EBADF
    else:
        # A full disk may show as an OutOfRangeError, which otherwise means the end of a data set.
        too_large = isinstance(original, tf.errors.OutOfRangeError) and _TOO_LARGE in str(original)
        meant = too_large or isinstance(original, NonFiniteError | _ENVIRONMENT)
    return _one_line(original) if meant else None


def _is_out_of_memory(error):
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return any(words in str(error) for words in _NO_MEMORY)
    no_thread = isinstance(error, RuntimeError) and "can't start new thread" in str(error)
    return no_thread or isinstance(error, MemoryError)


def _original(error):
    """Returns the exception that Keras or AutoGraph has raised again, with lines around its message."""
    inner = error.__context__
    while type(inner) is type(error) and _words(inner) in _words(error):
        error, inner = inner, inner.__context__
    return error


def _words(error):
    """Returns a message without its line breaks and indents: AutoGraph indents what it repeats."""
    return " ".join(str(error).split())


def _is_raised_by_us(error):
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    instruction = dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]]  # where the frame was left
    return _is_ours(trace.tb_frame.f_globals.get("__name__", "")) and instruction == "RAISE_VARARGS"


def _is_ours(module):
    ours = {*startup.PROGRAMS, "configs", "__main__"}  # "configs": a user's file may import it so
    if flags.FLAGS.is_parsed():
        ours |= {name.partition(".")[0] for name in modules()}
    return module.partition(".")[0] in ours


def modules():
    """Returns the modules that --modules names, followed by those of --mixer_modules."""
    return [*_MODULES.value, *_MIXER_MODULES.value]


def with_home(argument):
    """Returns an argument, --flag=~/PATH or --flag=KIND:~/PATH, with the home directory in place of "~".

    Shells leave it as it is there, so that an output would go to a folder named "~".
    """
    found = _HOME.fullmatch(argument)
    if not found or found["name"] in _TEXTS:
        return argument
    return found["flag"] + os.path.expanduser(found["path"])


def import_modules(names):
    """Imports modules that register a user's own classes.

    They do so by `convnlp.layers.register_mixer`, `convnlp.objectives.register_objective`,
    `convnlp.tasks.register_task` or `convnlp.export.lite.forms.register_form`.

    Raises:
        ValueError: if a module cannot be imported.
    """
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ValueError(
                "`--modules` must name modules in this directory or on PYTHONPATH. "
                f"Received: {name!r} ({error})"
            ) from error


def _parse(argv):
    try:
        rest = flags.FLAGS(argv)
        for name in flags.FLAGS:  # the bounds of a flag let it pass, as no comparison with it is true
            if isinstance(value := flags.FLAGS[name].value, float) and math.isnan(value):
                raise ValueError(f"flag --{name} must be a number. Received: {name}=nan")
        return rest
    except (flags.Error, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        message = config_files.unknown_field(argv) or _one_line(error)
        return _fail(error, _MISSING_FLAG.sub(r"flag --\1 must be given", message))


def _fail(error, message, code=1):
    logging.debug("raised here:", exc_info=error)
    # This must be the last line, so the threads of libraries may log nothing more.
    handler = logging.get_absl_handler().python_handler
    with handler.lock:
        handler.emit = lambda record: None
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def _one_line(error):
    return config_files.one_line(storage.without_operations(str(error))) or type(error).__name__
