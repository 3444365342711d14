"""Versioned SavedModels, each written completely or not at all."""

import contextlib
import errno
import json
import os
import pathlib
import re
import shutil
import tempfile
import uuid

import tensorflow as tf

from convnlp import kernels, outputs, saved_model_sums
from convnlp.export import preset
from convnlp.export.lite import tflite_files
from convnlp.export.saved_models import precision, signatures
from convnlp.export.verification import checks, requests
from convnlp.export.verification.graph import Graph
from convnlp.models import checksums, preset_names
from convnlp.models.folded_constants import folded
from convnlp.models.int8_tables import store_in_int8
from convnlp.models.narrow_weights import store_in_bfloat16
from convnlp.tasks import task_of

TFLITE_NAME = "model.tflite"  # where servers with --prefer_tflite_model look for it
_PRESET_SUMS = "assets.extra/preset.json"


def default_output(preset):
    """Returns the base directory of a preset's SavedModel: models/PRESET beside it.

    It is named after the preset, not the model, so that another preset beside it is not served in its place.
    That of a preset that ships with the package, or is behind a URL, is in the working directory.

    Args:
        preset: str, a name or a directory.
    """
    if preset in preset_names.names() or "://" in preset:
        return os.path.join("models", os.path.basename(preset.rstrip("/")))
    directory = pathlib.Path(os.path.abspath(preset))  # its own name, if it is "." or ".."
    return str(directory.parent / "models" / directory.name)


def made_from(output, preset_dir):
    """Returns the highest version in a base directory, the one that is served, if it was made from a preset.

    Args:
        output: str. The base directory; it need not exist.
        preset_dir: str. A directory written by `save_to_preset`.

    Returns:
        pathlib.Path of the version, or None if there is none, or it was made from other files.
    """
    base = pathlib.Path(output)
    version = base / str(_highest_version(base))
    recorded = version / _PRESET_SUMS
    return version if recorded.exists() and recorded.read_text() == _sums(preset_dir) else None


def export(
    preset_dir,
    output,
    ids_output=None,
    version=None,
    max_length=None,
    check=True,
    tflite=False,
    dtype="float32",
    group_size=None,
    quantize_tables=False,
):
    """Writes both SavedModels of a preset.

    Args:
        preset_dir: str. Name, or directory written by `save_to_preset`.
        output: str. Base directory of the model with all signatures.
        ids_output: str. Base directory of the model with only the signature "ids". Default: `output` +
            "_ids".
        version: int >= 0. Default: 1 more than the highest version in either directory.
        max_length: int. See `signatures.servable`.
        check: bool. Whether to run `checks.check` before anything appears in `output`.
        tflite: bool. Whether to write `model.tflite` beside the model with all signatures, in mode "dynamic".
        dtype: "float32", "bfloat16" or "auto". The type of matrix products; see `precision`.
        group_size: int. See `signatures.servable`.
        quantize_tables: bool. Whether to store the tables of tokens and n-grams in int8; see
            `convnlp.models.int8_tables`.

    Returns:
        (path of the version, path of its ids-only twin, the errors of `checks.check` or {}).

    Raises:
        ValueError: if the preset cannot be exported like this, the version exists, both base directories are
            the same, one is a URL, a file or not writable, or a signature differs from the preset.
        OSError: if a version cannot be written. In this case, nothing is left behind.
    """
    targets = new_versions(output, ids_output, version)
    bases = [target.parent for target in targets]
    preset_sums = _sums(preset_dir)  # before it is read, since it may be replaced meanwhile
    model = served = preset.load(preset_dir)
    is_narrow = precision.resolve(dtype, model) == "bfloat16"
    precision.check_tables(quantize_tables, model)
    if is_narrow or quantize_tables:
        served = preset.load(preset_dir)
    with contextlib.ExitStack() as stack:
        scratch = [stack.enter_context(_scratch(base)) for base in bases]
        constants = folded(served, task_of(model).generates, keeps_offsets=is_narrow)
        layers = served.backbone.encoder.traced_once()
        with kernels.implementation("inference"), constants, layers:
            if quantize_tables:
                store_in_int8(served)
            if is_narrow:
                store_in_bfloat16(served)
            everything = signatures.servable(served, max_length, group_size)
            servables = dict(zip(scratch, (everything, everything.only("ids")), strict=True))
            for directory, servable in servables.items():
                _save(servable, model, preset_dir, directory)
        if tflite:
            tflite_files.export(preset_dir, scratch[0] / TFLITE_NAME)
        errors = checks.check(model, servables) if check else {}
        for directory in scratch:
            (directory / _PRESET_SUMS).write_text(preset_sums)
            saved_model_sums.write(directory)
        while not _publish(scratch, targets):  # somebody else has taken the number meanwhile
            targets = new_versions(output, ids_output, version)
    names = dict(zip(scratch, targets, strict=True))
    return *targets, {(names[directory], *key): error for (directory, *key), error in errors.items()}


def new_versions(output, ids_output=None, version=None):
    """Returns the two directories that an export will make, once it is certain that it can make them.

    Args:
        output: str. As for `export`, like the other arguments.
        ids_output: str.
        version: int.

    Returns:
        list of pathlib.Path.

    Raises:
        ValueError: as for `export`, as far as it does not depend on the preset.
    """
    ids_output = ids_output or _twin(output)
    bases = [pathlib.Path(output), pathlib.Path(ids_output)]
    for name, base in zip(("output", "ids_output"), (output, ids_output), strict=True):
        outputs.check_folder(name, base)
    if bases[0].resolve() == bases[1].resolve():
        raise ValueError(
            f"`ids_output` must be another directory than `output`. Received: {ids_output} twice"
        )
    if version is None:
        version = 1 + max(map(_highest_version, bases))
    if not is_version(str(version)):
        raise ValueError(f"`version` must be a number of at most 63 bits. Received: {version}")
    targets = [base / str(version) for base in bases]
    for target in targets:
        if os.path.lexists(target):
            raise ValueError(f"`version` must be new. Received: {version}, but {target} exists")
    return targets


def _twin(output):
    base = pathlib.Path(output)  # without a slash at its end, which would put the twin inside
    return f"{os.path.abspath(base) if base.name in ('', '..') else base}_ids"


def describe(directory):
    """Returns a line per signature of a SavedModel: its name, inputs and outputs, with types and shapes."""
    return [
        f"{name:16s} {_tensors(signature.inputs)}  ->  {_tensors(signature.outputs)}"
        for name, signature in sorted(Graph(directory).signatures.items())
    ]


def _tensors(infos):
    described = []
    for name, info in sorted(infos.items()):
        shape = ",".join("?" if dim.size < 0 else str(dim.size) for dim in info.tensor_shape.dim)
        described.append(f"{name} {tf.dtypes.as_dtype(info.dtype).name} [{shape}]")
    return ", ".join(described)


def _save(servable, model, preset_dir, directory):
    module = servable.module
    with tempfile.TemporaryDirectory() as scratch:
        files = preset.asset_files(preset_dir)
        labels = task_of(model).answers(model).labels
        if labels:
            files.append(os.path.join(scratch, "labels.txt"))
            pathlib.Path(files[-1]).write_text(preset.label_lines(labels), encoding="utf-8")
        module.assets = [tf.saved_model.Asset(file) for file in files]
        tf.saved_model.save(module, str(directory), signatures=servable.signatures)
    extra = directory / "assets.extra"
    extra.mkdir()
    with tf.io.TFRecordWriter(str(extra / "tf_serving_warmup_requests")) as writer:
        for record in requests.warm_up_records(servable):
            writer.write(record)


def _sums(preset_dir):
    return json.dumps(checksums.of(preset_names.locate(preset_dir)), indent=2) + "\n"


def _highest_version(base):
    return max((int(path.name) for path in base.glob("*") if is_version(path.name)), default=0)


def is_version(name):
    """Whether servers accept a name as a version: a number of at most 63 bits."""
    return bool(re.fullmatch("[0-9]+", name)) and int(name) < 2**63


def version_directory(path):
    """Returns the SavedModel at `path`, or the highest version in it."""
    path = pathlib.Path(path)
    versions = [child for child in path.glob("*") if is_version(child.name) and child.is_dir()]
    if (path / "saved_model.pb").exists() or not versions:
        return path
    return max(versions, key=lambda child: int(child.name))


def _publish(scratch, targets):
    """Names both directories, the twin first; or neither, if a name is taken. Returns whether it did."""
    done = []
    try:
        for directory, target in ((scratch[1], targets[1]), (scratch[0], targets[0])):
            directory.rename(target)
            done.append((target, directory))
    except OSError as error:
        for target, directory in done:
            target.rename(directory)
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


@contextlib.contextmanager
def _scratch(base):
    """Yields a directory inside `base` that TensorFlow Serving ignores because its name is not a number."""
    is_new = not base.exists()
    base.mkdir(parents=True, exist_ok=True)
    # Not mkdtemp, whose directories only their owner may read; nor the process's number, which in a container
    # is that of the process before, whose directory stays if it was killed.
    scratch = base / f".export-{uuid.uuid4().hex}"
    scratch.mkdir()
    with outputs.tidy_end():
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            if is_new and not any(base.iterdir()):
                base.rmdir()
