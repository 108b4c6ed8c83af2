"""The uvicorn settings of the server, with a time limit on receiving the header of a request."""

import asyncio

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from bert_tf.serving.app import Server


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Closes a connection that has not sent a complete request header within `timeout_keep_alive` seconds.

    uvicorn applies that limit only after a response. A client that connects and sends nothing, or sends its header or
    the rest of a refused request byte by byte, would otherwise keep its connection forever.
    """

    _limit: asyncio.TimerHandle | None = None  # closes the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the limit."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Stops the limit once the header is complete, and starts it for the next one."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # the server is responding
            self._end()
        elif self._limit is None:
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the limit."""
        super().connection_lost(exc)
        self._end()

    def shutdown(self) -> None:
        """Closes the connection when the server stops: complete requests are answered, incomplete ones dropped."""
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self.transport.close()
        else:
            super().shutdown()

    def _begin(self) -> None:
        self._limit = self.loop.call_later(self.timeout_keep_alive, self.transport.close)

    def _end(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def settings(server: Server) -> uvicorn.Config:
    """The uvicorn.Config of a Server; its `receive_seconds` limit the time to receive a header, and silence."""
    return uvicorn.Config(
        server.app(),
        http=Connection,
        ws="none",
        log_level="error",
        timeout_graceful_shutdown=max(1, int(server.seconds)),
        timeout_keep_alive=server.receive_seconds,  # type: ignore[arg-type]  # asyncio takes fractions
    )
