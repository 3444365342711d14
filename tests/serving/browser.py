"""A browser for tests: Chromium without a window, told what to do by the WebDriver protocol.

https://www.w3.org/TR/webdriver2/ is HTTP and JSON, so that nothing is needed but the standard library and
Debian's packages chromium and chromium-driver.
"""

import base64
import contextlib
import http.client
import json
import shutil
import subprocess
import tempfile
import time

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
CONTROL, ENTER, TAB = "\ue009", "\ue007", "\ue004"
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element's id, by the standard
_FLAGS = (
    "--headless",
    "--no-sandbox",  # which root cannot have
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# All takes milliseconds; a busy machine may take many times as long.
_PATIENCE_SECONDS = 180


class Browser:
    """One window.

    Args:
        port: int. Where chromedriver listens.
        profile: str. An empty directory for the browser's own files.
        phone: bool. Whether it is a phone of 360 x 740 pixels that follows <meta name=viewport>, rather than
            a window of 1200 x 900.
    """

    def __init__(self, port, profile, phone=False):
        self._port = port
        self._session = ""
        options = {
            "binary": CHROMIUM,
            "args": [*_FLAGS, f"--user-data-dir={profile}", "--window-size=1200,900"],
        }
        if phone:
            metrics = {"width": 360, "height": 740, "pixelRatio": 1, "touch": True}
            options["mobileEmulation"] = {"deviceMetrics": metrics}
        logs = {"browser": "ALL"}
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": logs,
            "timeouts": {"script": 1000 * _PATIENCE_SECONDS},
        }
        session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{session['sessionId']}"

    def _ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_PATIENCE_SECONDS)
        connection.request(method, self._session + path, None if body is None else json.dumps(body))
        value = json.loads(connection.getresponse().read())["value"]
        connection.close()
        if isinstance(value, dict) and "error" in value:
            raise AssertionError(f"{value['error']}: {value['message']}")
        return value

    def open(self, url):
        """Loads a page."""
        self._ask("POST", "/url", {"url": url})

    def close(self):
        """Ends the browser."""
        self._ask("DELETE", "")

    def script(self, code):
        """Runs JavaScript, and returns what it returns."""
        return self._ask("POST", "/execute/sync", {"script": code, "args": []})

    def wait(self, expression):
        """Returns the value of an expression in JavaScript as soon as it is true."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (value := self.script(f"return {expression}")):
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"not true: {expression}. The page: {self.script('return document.body.innerText')}"
                )
            time.sleep(0.05)
        return value

    def type(self, keys):
        """Presses keys, wherever the focus is."""
        focus = self._ask("GET", "/element/active")[_ELEMENT]
        self._ask("POST", f"/element/{focus}/value", {"text": keys})

    def command(self, name, **arguments):
        """Runs a command of Chromium's own protocol."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": name, "params": arguments})

    def complaints(self):
        """What the browser has written to its console since it was asked last."""
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path):
        """Writes a picture of the whole page."""
        picture = self.command("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))


@contextlib.contextmanager
def opened(port, phone=False):
    """Starts a browser at the port of a chromedriver, and ends it after the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(port, profile, phone)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def driver(port):
    """Runs chromedriver at a port until the block ends."""
    process = subprocess.Popen(
        [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            with contextlib.suppress(OSError):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/status")
                if connection.getresponse().status == 200:
                    break
            assert process.poll() is None, "chromedriver ended"
            assert time.monotonic() < deadline, "chromedriver does not answer"
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()
