"""The paths of the server outside the REST interface: the metrics, and other pages."""

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from convnlp.serving.core.metrics import METRICS_PATH
from convnlp.serving.rest.http_protocol import VERBS
from convnlp.serving.rest.interface import not_found


def build_site(metrics=None, metrics_path=METRICS_PATH, routes=()):
    """Builds the ASGI application for the paths that are not the REST interface's.

    Args:
        metrics: `Metrics` or None. The metrics to show; None for none.
        metrics_path: str. The path of the metrics.
        routes: sequence of starlette Route. Further pages.

    Returns:
        A Starlette application; unknown paths get libevent's page for 404.
    """

    def show_metrics(request):
        asked, headers = request.scope["target"], {"content-type": "text/plain"}
        if asked != metrics_path:  # a query is part of the path
            return PlainTextResponse(f"Unexpected path: {asked}. Should be {metrics_path}", 400, headers)
        return PlainTextResponse(metrics.page(), headers=headers)

    routes = list(routes)
    if metrics is not None:
        routes.append(Route(metrics_path, show_metrics, methods=sorted(VERBS)))
    site = Starlette(routes=routes)
    site.router.redirect_slashes = False
    site.router.default = not_found
    return site
