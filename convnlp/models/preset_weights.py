"""Reads what a preset's weight files hold without loading them, and checks whether a model has it all."""

import json
import math
import os
import re

import h5py
import keras
import numpy as np

WEIGHTS, INDEX, TASK_WEIGHTS = "model.weights.h5", "model.weights.json", "task.weights.h5"
_PART = re.compile(r"model_\d{5,}\.weights\.h5")  # one of several weight files, as Keras names them


def shapes(directory, name=WEIGHTS):
    """Returns the shapes of the floating-point weights in a file of a preset, or in the files of its index.

    Args:
        directory: str.
        name: str. `WEIGHTS` (which may be split into several files, listed in `INDEX`) or `TASK_WEIGHTS`.

    Returns:
        dict, path in the file -> tuple of ints.

    Raises:
        ValueError: if a file is missing or damaged; the message names it.
    """
    names = [name]
    if name == WEIGHTS and not os.path.exists(os.path.join(directory, WEIGHTS)):
        names = _parts(directory)
    found = {}
    for part in names:
        found.update(_shapes_of_file(directory, part))
    return found


def count(found):
    """Returns the number of weights in what `shapes` returned."""
    return sum(map(math.prod, found.values()))


def check_finite(variables, where, what):
    """Raises ValueError if a variable holds NaN or an infinity.

    Args:
        variables: list of `keras.Variable`.
        where: str. The beginning of the message.
        what: str. What holds the value.
    """
    for variable in variables:
        if "float" not in str(variable.dtype):
            continue
        value = keras.ops.convert_to_numpy(variable)
        if not np.isfinite(value).all():
            bad = value[~np.isfinite(value)].flat[0]
            raise ValueError(f"{where}: {what} holds {bad} in {variable.path}, all weights must be finite")


def check_complete(variables, found, where, name):
    """Raises ValueError unless a model has as many weights as its file.

    If the file lacks layers, or has too many, Keras ignores it or only warns: the weights would be random.

    Args:
        variables: list of `keras.Variable` that were read from the file.
        found: what `shapes` returned for the file.
        where: str. The beginning of the message.
        name: str. The file.
    """
    floats = [v for v in variables if "float" in str(v.dtype)]
    expected = sum(math.prod(v.shape) for v in floats)
    if expected != count(found):
        raise ValueError(
            f"{where}: {name} holds {count(found):,} weights, and the saved configuration describes a model "
            f"of {expected:,}"
        )


def copy(source, target, dtype):
    """Copies a weight file of a preset, with its floats in another type and without an optimizer's state.

    Rounding to float16 changes a weight by at most 2^-11 of its value, and one below 2^-14 by at most 2^-25.
    Keras casts to the type of its variables when it reads the file.

    Args:
        source: str. The file, `WEIGHTS`, `TASK_WEIGHTS` or one that an `INDEX` names.
        target: str. The file to write.
        dtype: str. "float16" or "float32".

    Returns:
        (number of weights, the largest change of a weight).

    Raises:
        ValueError: if a weight would not be finite (float16 ends at 65,504); the message names it.
    """
    num_weights, largest = 0, 0.0
    with h5py.File(source, "r") as old, h5py.File(target, "w") as new:

        def visit(name, item):
            nonlocal num_weights, largest
            if name.partition("/")[0] == "optimizer":
                return
            if isinstance(item, h5py.Dataset):
                value = item[()]
                if item.dtype.kind == "f":
                    with np.errstate(over="ignore"):
                        value = value.astype(dtype)
                    if not np.isfinite(value).all():
                        bad = item[()].flat[np.argmin(np.isfinite(value))]
                        raise ValueError(
                            f"`dtype` must have room for all weights. Received: dtype={dtype}, {name} in "
                            f"{source} holds {bad:g}"
                        )
                    num_weights += value.size
                    largest = max(
                        largest, float(np.max(np.abs(value - item[()].astype("float64")), initial=0))
                    )
                copied = new.create_dataset(name, data=value)
            else:
                copied = new.require_group(name)
            for key, value in item.attrs.items():
                copied.attrs[key] = value

        old.visititems(visit)
        new.attrs.update(old.attrs)
    return num_weights, largest


def remove_others(directory, name):
    """Removes all weight files of the backbone except those of one save.

    Args:
        directory: str.
        name: str. What that save has written, `WEIGHTS` or `INDEX`, whose parts are kept too.
    """
    kept = {name, *(_parts(directory) if name == INDEX else ())}
    for file in os.listdir(directory):
        if (file in (WEIGHTS, INDEX) or _PART.fullmatch(file)) and file not in kept:
            os.remove(os.path.join(directory, file))


def stored_in(directory):
    """Returns the type of the backbone's stored floats, such as "float16"; of several, the widest."""
    name = WEIGHTS if os.path.exists(os.path.join(directory, WEIGHTS)) else _parts(directory)[0]
    found = []
    with h5py.File(os.path.join(directory, name), "r") as file:
        file.visititems(lambda _, item: found.append(item.dtype) if isinstance(item, h5py.Dataset) else None)
    return max((dtype for dtype in found if dtype.kind == "f"), key=lambda dtype: dtype.itemsize).name


def _parts(directory):
    """Returns the weight files that an index names."""
    path = os.path.join(directory, INDEX)
    if not os.path.isfile(path):
        raise ValueError(f"preset {directory}: {WEIGHTS} is missing, expected the weights there")
    try:
        with open(path, encoding="utf-8") as file:
            weight_map = json.load(file)["weight_map"]
        names = {
            part for value in weight_map.values() for part in (value if isinstance(value, list) else [value])
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"preset {directory}: {INDEX} is damaged, expected an index of weights") from error
    for name in names:
        if not isinstance(name, str) or os.path.basename(name) != name or not name.endswith(".weights.h5"):
            raise ValueError(f"preset {directory}: {INDEX} names {name!r}, expected a weight file beside it")
    return sorted(names)


def _shapes_of_file(directory, name):
    path = os.path.join(directory, name)
    if not os.path.isfile(path):
        raise ValueError(f"preset {directory}: {name} is missing, expected the weights there")
    found = {}

    def visit(key, item):
        if not isinstance(item, h5py.Dataset):
            return
        if item.external or item.is_virtual or item.id.get_storage_size() < item.size * item.dtype.itemsize:
            # It may unfold a few bytes to gigabytes, or read another file: Keras writes weights in full.
            raise ValueError(
                f"preset {directory}: {name} does not hold all of {key} itself, {item.shape} {item.dtype}"
            )
        if item.size < 64:
            item[...]  # a truncated file opens, and fails here
        if item.dtype.kind == "f" and key.startswith("layers/"):  # not the optimizer of a compiled task
            found[key] = item.shape

    try:
        with h5py.File(path, "r") as file:
            # Returning a value stops the visit: HDF5 takes no exception from this function.
            linked = file.visititems_links(lambda key, link: None if isinstance(link, h5py.HardLink) else key)
            if linked is not None:
                raise ValueError(f"preset {directory}: {name} holds a link in place of {linked}")
            file.visititems(visit)
    except (OSError, RuntimeError, KeyError) as error:
        raise ValueError(
            f"preset {directory}: {name} is damaged, expected a complete HDF5 file ({error})"
        ) from error
    return found
