"""Ends a request whose client has gone, so that what it asked for is not computed for nobody."""

import asyncio

from serving.core.errors import ServingError

# Most requests are answered before: only those that are not are watched, by a task each.
_PATIENCE_SECONDS = 0.1


class Disconnect:
    """`async with Disconnect(receive) as client:` raises once the client has gone; see `asyncio.timeout`.

    Args:
        receive: Callable. The one of the ASGI application; `client.receive` is to be used in its place.

    Raises:
        ServingError: CANCELLED.
    """

    def __init__(self, receive):
        self._receive = receive
        self._has_body = False
        self._is_gone = False
        self._watcher = None

    async def receive(self):
        """Receives a message of the request, as the ASGI application does."""
        message = await self._receive()
        self._has_body = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message

    async def __aenter__(self):
        self._task = asyncio.current_task()
        self._wait()
        return self

    async def __aexit__(self, kind, error, traceback):
        self._timer.cancel()
        if self._watcher:
            self._watcher.cancel()
        if self._is_gone and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise ServingError("CANCELLED", "The client has gone") from error

    def _wait(self):
        self._timer = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self._look)

    def _look(self):
        if self._has_body:  # else it is being read, and nobody else may receive
            self._watcher = asyncio.create_task(self._watch())
        else:
            self._wait()

    async def _watch(self):
        if (await self._receive())["type"] == "http.disconnect":
            self._is_gone = True
            self._task.cancel()
