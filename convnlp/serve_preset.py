r"""Serves a preset over REST in one step: exports it, unless that has been done, and starts the server.

    convnlp serve-preset --preset=RUN/preset --rest_api_port=8501

The SavedModel goes to --output, by default RUN/models/preset, and is remade if the preset has changed. It is
what `convnlp export` makes; to deploy it, give it to TensorFlow Serving (docs/deploying.md).
"""

import errno
import os
import socket
import sys
from urllib.parse import quote

from absl import flags

from convnlp import outputs, programs
from convnlp.export.saved_models import versions
from convnlp.models import preset_names

_PRESET = flags.DEFINE_string("preset", None, "Name or directory of a preset.", required=True)
_NAME = flags.DEFINE_string("model_name", "default", "Name of the model in requests.")
_OUTPUT = flags.DEFINE_string(
    "output", None, "Base directory of the SavedModel. Default: models/PRESET beside the preset."
)
_REST_PORT = flags.DEFINE_integer("rest_api_port", 8501, "Port of the REST interface.", 1, 65535)
_HOST = flags.DEFINE_string("host", "127.0.0.1", "Address to listen on.")


def require_free_port(host, port):
    """Raises ValueError if the server could not listen there, before an export that would be in vain."""
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            pass
    except OSError as error:
        no_host = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # the latter on a system without IPv6
        if isinstance(error, socket.gaierror) or error.errno in no_host:
            raise ValueError(
                f"`host` must be an address of this machine. Received: {host} ({error})"
            ) from error
        raise ValueError(f"`rest_api_port` must be free on {host}. Received: {port} ({error})") from error


def main(_):
    """Preset -> SavedModel -> server."""
    if not _NAME.value:
        raise ValueError("`model_name` must not be empty")
    require_free_port(_HOST.value, _REST_PORT.value)
    preset = preset_names.locate(_PRESET.value)
    output = versions.default_output(_PRESET.value) if _OUTPUT.value is None else _OUTPUT.value
    outputs.check_folder("output", output)
    there = versions.made_from(output, preset)
    if there is None:
        print(f"exporting {preset}, which takes about a minute", flush=True)
        there, *_ = versions.export(preset, output)
        print(f"exported to {there}", flush=True)
    host = f"[{_HOST.value}]" if ":" in _HOST.value else _HOST.value
    url = f"http://{host}:{_REST_PORT.value}"
    model = quote(_NAME.value, safe="")
    print(f"serving {there} at {url}/v1/models/{model}:predict; {url}/ in a browser", flush=True)
    server = [
        *(sys.executable, "-m", "convnlp.serving.server", "--port=0", f"--host={_HOST.value}"),
        *(
            f"--rest_api_port={_REST_PORT.value}",
            f"--model_name={_NAME.value}",
            f"--model_base_path={output}",
        ),
    ]
    os.execv(server[0], server)


if __name__ == "__main__":
    programs.run(main)
