"""What every command-line program shares: one clear line for a user's error, and an exit code that tells."""

import importlib
import sys

import tensorflow as tf
from absl import app, flags, logging

from convnlp import startup
from convnlp.data import source_error_message
from convnlp.training.loop import StoppedError

_MIXER_MODULES = flags.DEFINE_list(
    "mixer_modules",
    [],
    "Modules of your own to import first, which register mixers (docs/your_own_mixer.md).",
)


def run(main):
    """Runs `main(argv)` under absl.

    Errors that a user can cause (wrong flag or config field, missing or damaged file, full disk, non-finite
    loss) end in the line `error: ...` on stderr and exit code 1; `--verbosity=1` shows where they were
    raised. A run stopped by a signal exits with 128 + the signal's number, 143 for SIGTERM, so that a
    script does not take it for finished. Any other exception is a defect of ours and keeps its traceback.
    """

    def quiet_main(argv):
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)  # absl's default shows TensorFlow's notes to itself
        import_mixers(_MIXER_MODULES.value)
        return main(argv)

    with startup.notes_hidden():
        tf.config.list_physical_devices()  # the first look for devices says what it did not find
    flags.FLAGS.register_key_flag_for_module(sys.argv[0], flags.FLAGS["mixer_modules"])  # --help shows it
    try:
        app.run(quiet_main, flags_parser=_parse)
    except StoppedError as stop:
        print(stop, file=sys.stderr)
        sys.exit(stop.exit_code)
    except (ValueError, OSError, ArithmeticError, tf.errors.OpError) as error:
        _fail(error)


def import_mixers(modules):
    """Imports the modules of that name, each of which calls `convnlp.layers.register_mixer`.

    Raises:
        ValueError: if one cannot be imported.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ValueError(
                "`--mixer_modules` must be modules in this directory or on PYTHONPATH. "
                f"Received: {module!r} ({error})"
            ) from error


def _parse(argv):
    try:
        return flags.FLAGS(argv)
    except (flags.Error, AttributeError, OSError, TypeError, ValueError) as error:
        return _fail(error)


def _fail(error):
    logging.debug("raised here:", exc_info=error)
    print(f"error: {source_error_message(error) or _one_line(error)}", file=sys.stderr)
    sys.exit(1)


def _one_line(error):
    """The first line of a message, and its last one too: a config file's own error stands there."""
    lines = [line.strip() for line in (str(error) or type(error).__name__).splitlines() if line.strip()]
    return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"
