"""Asks the application without a server around it: no sockets, no process."""

import asyncio

from convnlp.serving.core.limits import Limits
from convnlp.serving.core.loader import Loader
from convnlp.serving.core.metrics import Metrics
from convnlp.serving.core.model_config import ModelConfig
from convnlp.serving.core.models import ModelManager
from convnlp.serving.core.runner import Runner
from convnlp.serving.page.site import page_routes
from convnlp.serving.rest.interface import RestApp
from convnlp.serving.rest.site import build_site


class InProcess:
    """An application on the models of a directory, one folder a model.

    Args:
        folder: path. Holds NAME/VERSION/.
        configs: list of ModelConfig or None. By default the newest version of every model.
        runner: `Runner` or `Batcher`, or None for a runner of its own.
        limits: `Limits` or None.
        **options: of `RestApp`.
    """

    def __init__(self, folder, configs=None, runner=None, limits=None, **options):
        self.metrics = Metrics()
        if configs is None:
            configs = [ModelConfig(path.name, str(path)) for path in sorted(folder.iterdir())]
        load = Loader(self.metrics, (limits or Limits()).timeout_ms)
        self.manager = ModelManager(configs, load, any_labels=True)
        self.manager.load()
        self.runner = runner or Runner(2, 8)
        site = build_site(self.metrics, routes=page_routes(self.manager.names))
        self.app = RestApp(self.manager, self.runner, self.metrics, limits, site=site, **options)

    def ask(self, method, path, body=b"", headers=()):
        """Sends one request and returns status, headers and body."""
        return asyncio.run(request(self.app, method, path, body, headers))

    def post(self, path, body, headers=()):
        """Sends one POST and returns status and body."""
        status, _, answer = self.ask("POST", path, body, headers)
        return status, answer


async def request(app, method, path, body=b"", headers=()):
    """Sends one request to an application and returns status, headers (a dict) and body."""
    raw_path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": raw_path,
        "raw_path": raw_path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "target": path,
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
    }
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    start, *parts = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], headers, b"".join(part["body"] for part in parts)
