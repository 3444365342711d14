"""The page at `/`, on which the served models can be tried in a browser.

It uses the REST interface like any client. Only the names of the models, which that interface does not list,
are written into the page.
"""

import functools
import html
import json
from pathlib import Path

from starlette.responses import Response
from starlette.routing import Route

from convnlp.serving.rest.interface import not_found

_FOLDER = Path(__file__).parent
_CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
_POLICY = {
    "default-src": "'none'",
    "connect-src": "'self'",
    "img-src": "data:",  # the empty icon
    "script-src": "'self'",
    "style-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
_HEADERS = {
    "content-security-policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


def page_routes(model_names):
    """Returns the routes of the page.

    The real server has nothing at `/`. So only clients that accept HTML, as browsers do, get the page; others
    get the real server's 404.

    Args:
        model_names: Callable. Returns the current names of the models.

    Returns:
        list of starlette Route.
    """

    def index():
        page = (_FOLDER / "index.html").read_text(encoding="utf-8")
        return page.replace("{{models}}", html.escape(json.dumps(sorted(model_names()))))

    routes = [Route("/", _Page("index.html", index, only_as_html=True))]
    for path in sorted(_FOLDER.iterdir()):
        if path.suffix in (".css", ".js"):
            read = functools.partial(path.read_text, encoding="utf-8")
            routes.append(Route(f"/page/{path.name}", _Page(path.name, read)))
    return routes


class _Page:
    """An ASGI application for one file."""

    def __init__(self, name, read, only_as_html=False):
        self._headers = {"content-type": _CONTENT_TYPES[Path(name).suffix], **_HEADERS}
        self._read = read
        self._only_as_html = only_as_html

    async def __call__(self, scope, receive, send):
        accepted = b",".join(value for key, value in scope["headers"] if key == b"accept")
        is_asked = scope["method"] in ("GET", "HEAD") and (not self._only_as_html or b"text/html" in accepted)
        if not is_asked:
            await not_found(scope, receive, send)
            return
        body = self._read().encode()
        headers = {**self._headers, "content-length": str(len(body))}
        if self._only_as_html:
            headers["vary"] = "Accept"
        await Response(b"" if scope["method"] == "HEAD" else body, headers=headers)(scope, receive, send)
