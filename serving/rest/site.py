"""What the server answers outside the REST interface: the page of metrics, and room for other pages."""

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from convnlp.serving.rest.http_protocol import VERBS
from convnlp.serving.rest.interface import not_found, target

METRICS_PATH = "/monitoring/prometheus/metrics"


def build_site(metrics=None, metrics_path=METRICS_PATH, routes=()):
    """Builds the ASGI application for the paths that are not the REST interface's.

    Args:
        metrics: `Metrics` or None. What the page of metrics shows; None for no such page.
        metrics_path: str. Where it is.
        routes: sequence of starlette Route. Further pages.

    Returns:
        A Starlette application; what it does not have is libevent's page for 404.
    """

    def show_metrics(request):
        asked, headers = target(request.scope), {"content-type": "text/plain"}
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
