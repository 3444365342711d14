"""A stand-in for Google Cloud Storage: the part of its JSON API that TensorFlow's gs:// asks for, over HTTPS.

    python -m tests.gcs.server FOLDER CERTIFICATE KEY LOG HELD FAULTS

FOLDER/BUCKET has a file for each object, its name quoted; FAULTS are `Faults` as JSON. LOG gets a JSON line
for each request. While there is a file HELD, each request with its text in the path waits; in the end it is
refused, since its client may be gone. What is answered follows cloud.google.com/storage/docs/json_api, what
is asked TensorFlow's gcs_file_system.cc. It listens at port 443 of 127.0.0.1 and needs a network of its own,
`tests.gcs.stand_in`.
"""

import collections
import dataclasses
import datetime
import http.server
import itertools
import json
import os
import pathlib
import re
import ssl
import sys
import threading
import time
import urllib.parse

OBJECT = re.compile(r"/storage/v1/b/(?P<bucket>[^/]+)/o/(?P<name>[^/]+)")
REWRITE = re.compile(OBJECT.pattern + r"/rewriteTo/b/(?P<other_bucket>[^/]+)/o/(?P<other>[^/]+)")
BUCKET = re.compile(r"/storage/v1/b/(?P<bucket>[^/]+)")
LIST = re.compile(BUCKET.pattern + "/o")
UPLOAD = re.compile(r"/upload/storage/v1/b/(?P<bucket>[^/]+)/o")
CONTENT = re.compile(r"/(?P<bucket>[^/]+)/(?P<name>.+)")  # of the host storage.googleapis.com
RANGE = re.compile(r"bytes[= ](\d+)-(\d+)(?:/\d+)?")


@dataclasses.dataclass(frozen=True)
class Faults:
    """What goes wrong, by the number of a request; 0 stands for never.

    Args:
        page_size: int, names in a page of a list. Google's has 1,000.
        refuse_every: int, every such request is answered by 503 and does nothing.
        lose_every: int, every such request is done, and its answer lost: the connection ends.
        break_every: int, of every such upload half arrives, and then comes 503.
        delay_every: int, every such request waits for `delay_seconds` first.
        delay_seconds: float.
    """

    page_size: int = 1000
    refuse_every: int = 0
    lose_every: int = 0
    break_every: int = 0
    delay_every: int = 0
    delay_seconds: float = 0.0


class Objects:
    """Buckets of whole objects, in a folder.

    Args:
        folder: pathlib.Path, with a folder for each bucket.
    """

    def __init__(self, folder):
        self._folder = folder

    def has_bucket(self, bucket):
        return (self._folder / bucket).is_dir()

    def path(self, bucket, name):
        """Where an object lies, if there is one."""
        return self._folder / bucket / urllib.parse.quote(name, safe="")

    def names(self, bucket):
        """The names of all objects, sorted."""
        return sorted(urllib.parse.unquote(entry.name) for entry in (self._folder / bucket).iterdir())

    def facts(self, bucket, name):
        """What TensorFlow asks of an object, a dict; None if there is none."""
        try:
            found = self.path(bucket, name).stat()
        except FileNotFoundError:
            return None
        updated = datetime.datetime.fromtimestamp(found.st_mtime, datetime.UTC)
        return {
            "size": str(found.st_size),
            "generation": str(found.st_mtime_ns // 1000),
            "updated": updated.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }

    def write(self, bucket, name, content):
        """Puts an object there; readers see the one before or this one."""
        partial = self._folder / f"partial-{bucket}"
        partial.write_bytes(content)
        os.replace(partial, self.path(bucket, name))


class Stand(http.server.ThreadingHTTPServer):
    """The server, with its objects, its uploads and what goes wrong."""

    daemon_threads = True

    def __init__(self, address, objects, log, held, faults):
        self.objects, self.faults = objects, faults
        self._log, self._held = log, held
        self.lock = threading.Lock()  # objects change one at a time
        self.uploads, self.finished, self.counts = {}, set(), collections.Counter()
        self.sessions = itertools.count(1)
        super().__init__(address, Handler)

    def handle_error(self, *client):
        """Tells of an error, unless it is that a client is gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(*client)

    def note(self, **facts):
        """Adds a line to the log."""
        with self.lock:
            self._log.write(json.dumps(facts) + "\n")
            self._log.flush()

    def holds(self, path):
        """Whether the request for a path has to wait."""
        try:
            text = self._held.read_text()
        except FileNotFoundError:
            return False
        return bool(text) and text in urllib.parse.unquote(path)

    def is_due(self, fault, every):
        """Whether this request is the one in so many that a fault befalls."""
        if not every:
            return False
        with self.lock:
            self.counts[fault] += 1
            return self.counts[fault] % every == 0


class Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self):
        self._take()

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_):
        pass

    def _take(self):
        split = urllib.parse.urlsplit(self.path)
        self._query = dict(urllib.parse.parse_qsl(split.query))
        self._is_lost = False
        body = self._body()
        faults = self.server.faults
        if self.server.holds(self.path):
            self._note(503, "held")
            while self.server.holds(self.path):
                time.sleep(0.05)
            return self._send(503, b"")
        if self.server.is_due("delay", faults.delay_every):
            time.sleep(faults.delay_seconds)
        if self.server.is_due("refuse", faults.refuse_every):
            return self._answer(503, {"error": {"message": "refused"}}, fault="refused")
        self._is_lost = self.server.is_due("lose", faults.lose_every)
        for method, host, pattern, do in (
            ("PUT", "www", UPLOAD, self._upload_part),
            ("POST", "www", UPLOAD, self._begin_upload),
            ("GET", "www", LIST, self._list),
            ("GET", "www", OBJECT, self._stat),
            ("GET", "www", BUCKET, self._bucket),
            ("DELETE", "www", OBJECT, self._delete),
            ("POST", "www", REWRITE, self._rewrite),
            ("GET", "storage", CONTENT, self._content),
        ):
            is_there = self.headers.get("Host", "").partition(".")[0] == host
            if self.command == method and is_there and (found := pattern.fullmatch(split.path)):
                names = {key: urllib.parse.unquote(value) for key, value in found.groupdict().items()}
                if not self.server.objects.has_bucket(names["bucket"]):
                    return self._answer(404, {"error": {"message": "no such bucket"}})
                return do(body, **names)
        return self._answer(501, {"error": {"message": "the stand-in does not know this"}})

    def _body(self):
        """TensorFlow says how long it is, and sends it in chunks, which is what counts."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self._line(), 16):
            body += self.rfile.read(size)
            self._line()
        self._line()
        return body

    def _line(self):
        if line := self.rfile.readline():
            return line
        raise ConnectionAbortedError("in the middle of a request")

    def _answer(self, code, content=b"", headers=None, fault=""):
        fault = fault or ("lost" if self._is_lost else "")
        self._note(code, fault)
        if fault == "lost":
            self.close_connection = True
            return
        self._send(code, content if isinstance(content, bytes) else json.dumps(content).encode(), headers)

    def _note(self, code, fault):
        self.server.note(method=self.command, path=self.path, code=code, fault=fault)

    def _send(self, code, content, headers=None):
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _bucket(self, _, bucket):
        self._answer(200, {"name": bucket, "location": "HERE"})

    def _stat(self, _, bucket, name):
        facts = self.server.objects.facts(bucket, name)
        self._answer(200 if facts else 404, facts or {"error": {"message": "no such object"}})

    def _list(self, _, bucket):
        """Objects and, up to a delimiter, what they have in common, page by page in the order of names."""
        prefix, delimiter = self._query.get("prefix", ""), self._query.get("delimiter")
        entries = {}  # name -> whether it is a prefix
        for name in self.server.objects.names(bucket):
            if not name.startswith(prefix):
                continue
            head, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
            entries[prefix + head + found if found else name] = bool(found)
        rest = sorted(name for name in entries if name > self._query.get("pageToken", ""))
        count = min(int(self._query.get("maxResults", 1000)), self.server.faults.page_size)
        page = {
            "items": [{"name": name} for name in rest[:count] if not entries[name]],
            "prefixes": [name for name in rest[:count] if entries[name]],
        }
        page = {key: value for key, value in page.items() if value}
        if len(rest) > count:
            page["nextPageToken"] = rest[count - 1]
        self._answer(200, page)

    def _content(self, _, bucket, name):
        """A range of an object; the headers of Google's answer that TensorFlow does not read are left out."""
        try:
            content = self.server.objects.path(bucket, name).read_bytes()
        except FileNotFoundError:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        first, last = map(int, RANGE.fullmatch(self.headers["Range"]).groups())
        if first >= len(content):
            self._answer(416, b"<Error><Code>InvalidRange</Code></Error>")
            return
        part = content[first : last + 1]
        end = first + len(part) - 1
        self._answer(206, part, {"Content-Range": f"bytes {first}-{end}/{len(content)}"})

    def _delete(self, _, bucket, name):
        with self.server.lock:
            is_there = self.server.objects.facts(bucket, name) is not None
            self.server.objects.path(bucket, name).unlink(missing_ok=True)
        self._answer(204 if is_there else 404)

    def _rewrite(self, _, bucket, name, other_bucket, other):
        with self.server.lock:
            if is_there := self.server.objects.facts(bucket, name) is not None:
                content = self.server.objects.path(bucket, name).read_bytes()
                self.server.objects.write(other_bucket, other, content)
        self._answer(200 if is_there else 404, {"done": True} if is_there else {})

    def _begin_upload(self, body, bucket):
        name = self._query["name"]
        if self._query["uploadType"] == "media":
            with self.server.lock:
                is_there = self.server.objects.facts(bucket, name) is not None
                is_refused = is_there and self._query.get("ifGenerationMatch") == "0"
                if not is_refused:
                    self.server.objects.write(bucket, name, body)
            self._answer(412 if is_refused else 200, {})
            return
        with self.server.lock:
            session = str(next(self.server.sessions))
            self.server.uploads[session] = bytearray()
        query = urllib.parse.urlencode({"uploadType": "resumable", "name": name, "upload_id": session})
        location = f"https://www.googleapis.com/upload/storage/v1/b/{bucket}/o?{query}"
        self._answer(200, headers={"Location": location})

    def _upload_part(self, body, bucket):
        """What comes of an object, from where the upload stands; or the question where that is."""
        session, content_range = self._query["upload_id"], self.headers.get("Content-Range", "")
        with self.server.lock:
            parts, is_finished = self.server.uploads.get(session), session in self.server.finished
        if is_finished:  # and the answer was lost
            self._answer(200, {})
            return
        if parts is None:
            self._answer(404, {"error": {"message": "no such upload"}})
            return
        part = RANGE.fullmatch(content_range)
        if part or not content_range:
            if part and int(part[1]) != len(parts):
                self._answer(400, {"error": {"message": f"{len(parts)} bytes are there"}})
                return
            if len(body) > 1 and self.server.is_due("break", self.server.faults.break_every):
                parts += body[: len(body) // 2]
                self._answer(503, {"error": {"message": "broken off"}}, fault="broken")
                return
            parts += body
        elif int(content_range.rpartition("/")[2]) != len(parts):
            headers = {"Range": f"bytes=0-{len(parts) - 1}"} if parts else {}
            self._answer(308, headers=headers)
            return
        with self.server.lock:
            self.server.objects.write(bucket, self._query["name"], bytes(parts))
            self.server.finished.add(session)
        self._answer(200, {})


def main(folder, certificate, key, log, held, faults):
    """Serves until it is killed; says "ready" when it listens."""
    faults = Faults(**json.loads(faults))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with open(log, "a", encoding="utf-8") as log_file:
        stand = Stand(("127.0.0.1", 443), Objects(pathlib.Path(folder)), log_file, pathlib.Path(held), faults)
        # The handshake in the thread of the request: a client that does not greet holds nobody up.
        stand.socket = context.wrap_socket(stand.socket, server_side=True, do_handshake_on_connect=False)
        print("ready", flush=True)
        stand.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
