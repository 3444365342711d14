"""gs:// on this machine: a network in which Google's names mean `tests.gcs.server`, and nothing else is.

The processes in it see 127.0.0.1 alone, so that nothing can leave the machine. It takes root, or user
namespaces; `unavailable` says why there is none.
"""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import urllib.parse

from tests.gcs.server import Faults
from tests.run_program import ROOT, Program, run_program

HOSTS = ("www.googleapis.com", "storage.googleapis.com")
_UNSHARE = ("unshare", "--net", "--mount", "--propagation=private")
_WAYS = (_UNSHARE, (*_UNSHARE, "--user", "--map-root-user"))
# In the namespaces: only lo, the names, then the server.
_ENTER = 'ip link set lo up && mount --bind "$0" /etc/hosts && exec "$@"'


@functools.cache
def _way():
    """(the first of `_WAYS` that works here, ""), or (None, why none does)."""
    reason = ""
    for way in _WAYS:
        try:
            done = subprocess.run(
                [*way, "sh", "-c", _ENTER, "/etc/hosts", "true"], capture_output=True, text=True
            )
        except OSError as error:
            return None, str(error)
        if done.returncode == 0:
            return way, ""
        reason = done.stderr.strip()
    return None, reason


def unavailable():
    """Why there is no stand-in on this machine, or ""."""
    for program in ("openssl", "nsenter"):
        try:
            subprocess.run([program, "--version"], capture_output=True)
        except OSError as error:
            return str(error)
    return _way()[1]


@dataclasses.dataclass(frozen=True)
class StandIn:
    """A running stand-in.

    Attributes:
        folder: pathlib.Path, its objects, certificate and log.
        prefix: tuple of strings, with which a command begins that runs in its network.
        environment: dict, the variables that such a command needs besides.
    """

    folder: pathlib.Path
    prefix: tuple
    environment: dict

    def run(self, program, *arguments, timeout=3600, **variables):
        """`tests.run_program.run_program` in the network of the stand-in."""
        environment = {**os.environ, **self.environment, **variables}
        return run_program(program, *arguments, timeout=timeout, environment=environment, prefix=self.prefix)

    def start(self, program, *arguments, **files):
        """`tests.run_program.Program` in the network of the stand-in."""
        environment = {**os.environ, **self.environment}
        return Program(program, *arguments, environment=environment, prefix=self.prefix, **files)

    def put(self, bucket, name, content):
        """Puts an object there, past the server."""
        self._path(bucket, name).write_bytes(content)

    def put_folder(self, folder, bucket, prefix):
        """Puts all files of a folder there."""
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file():
                self.put(bucket, f"{prefix}/{path.relative_to(folder)}", path.read_bytes())

    def get(self, bucket, name):
        """The bytes of an object."""
        return self._path(bucket, name).read_bytes()

    def remove(self, bucket, name):
        """Removes an object."""
        self._path(bucket, name).unlink()

    def fetch(self, bucket, prefix, folder):
        """Copies the objects below a prefix to a new folder, which is returned."""
        for name in self.names(bucket, prefix):
            if name and not name.endswith("/"):
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.get(bucket, prefix + name))
        return folder

    def names(self, bucket, prefix=""):
        """The names of the objects below a prefix, without it, sorted."""
        found = (urllib.parse.unquote(path.name) for path in (self.folder / "objects" / bucket).iterdir())
        return sorted(name.removeprefix(prefix) for name in found if name.startswith(prefix))

    def _path(self, bucket, name):
        return self.folder / "objects" / bucket / urllib.parse.quote(name, safe="")

    @contextlib.contextmanager
    def holding(self, text):
        """Makes every request wait that has this text in its path; none of them is ever carried out.

        So a program that is about to write such an object stands still, and can be killed there. Yields a
        function that says whether a request waits.
        """
        before, held = len(self.requests()), self.folder / "held"
        held.write_text(text)
        try:
            yield lambda: any(request["fault"] == "held" for request in self.requests()[before:])
        finally:
            held.unlink()

    def requests(self):
        """What was asked, a list of dicts: method, path, code, fault."""
        lines = (self.folder / "log").read_text().splitlines()
        return [json.loads(line) for line in lines]


@contextlib.contextmanager
def serving(folder, bucket, **faults):
    """A `StandIn` with an empty bucket.

    Args:
        folder: pathlib.Path, an empty directory.
        bucket: str.
        **faults: those of `tests.gcs.server.Faults`.
    """
    (folder / "objects" / bucket).mkdir(parents=True)
    hosts = "".join(f"127.0.0.1 {host}\n" for host in ("localhost", *HOSTS))
    (folder / "hosts").write_text(hosts)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", "/CN=stand-in", "-keyout", key, "-out", certificate),
            *("-addext", "subjectAltName=" + ",".join(f"DNS:{host}" for host in HOSTS)),
        ],
        check=True,
        capture_output=True,
    )
    server = [sys.executable, "-m", "tests.gcs.server", folder / "objects", certificate, key]
    server += [folder / "log", folder / "held", json.dumps(dataclasses.asdict(Faults(**faults)))]
    way, _ = _way()
    process = subprocess.Popen(
        [*way, "sh", "-c", _ENTER, folder / "hosts", *server], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout.readline() == b"ready\n"
        namespaces = ["--net", "--mount", *["--user", "--preserve-credentials"] * ("--user" in way)]
        prefix = ("nsenter", "--target", str(process.pid), *namespaces, f"--wd={ROOT}", "--")
        client = {
            "GCS_RETRY_CONFIG_INIT_DELAY_TIME_US": "0",  # at once, not after half a second and more
            "GCS_REQUEST_IDLE_TIMEOUT_SECS": "3600",  # however long an answer is held back
        }
        # Read when TensorFlow is imported, which the fork server does; the last one is of `convnlp.startup`.
        variables = {**client, "GCS_READ_CACHE_BLOCK_SIZE_MB": "4"}
        prefix = (*prefix, "env", *(f"{name}={value}" for name, value in variables.items()))
        environment = {
            **client,  # for what a program starts itself
            "CURL_CA_BUNDLE": str(certificate),
            "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",  # or it would look for credentials
            "no_proxy": "*",
        }
        yield StandIn(folder, prefix, environment)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
