"""What a run may leave in its directory: only complete checkpoints, and nothing half-written."""

import hashlib
import json
import re

_STEP = re.compile(r"\d{8,}")
_HALF_WRITTEN = re.compile(r"\.(removed-)?\d{8,}|\..*\.partial")


def unsound(workdir):
    """Returns the checkpoints with a file that does not match the manifest, and what is wrong with them."""
    found = []
    for folder in sorted((workdir / "checkpoints").glob("*")):
        if _STEP.fullmatch(folder.name) and (damage := _damage(folder)):
            found.append(f"checkpoint {folder.name}: {damage}")
    return found


def half_written(workdir):
    """Returns files and directories under temporary names; kill -9 may leave them until the next start."""
    return {
        str(path.relative_to(workdir))
        for folder in (workdir, workdir / "checkpoints")
        for path in folder.glob(".*")
        if _HALF_WRITTEN.fullmatch(path.name)
    }


def _damage(folder):
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        for name, facts in manifest["files"].items():
            content = (folder / name).read_bytes()
            if [len(content), hashlib.sha256(content).hexdigest()] != [facts["bytes"], facts["sha256"]]:
                return f"{name} does not agree with the manifest"
    except (OSError, ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return None
