"""How uvicorn runs the server: its connections, with a limit for what it would wait for without end."""

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol


class Connection(AutoHTTPProtocol):
    """Closes a connection on which no header of a request has come whole within `timeout_keep_alive` seconds.

    uvicorn has that limit for silence after an answer alone. A client that opens a connection and says nothing, or
    sends a header, or what is left of a request that is refused already, byte by byte, would keep it for ever.
    """

    _limit = None  # the call that closes it

    def connection_made(self, transport):
        super().connection_made(transport)
        self._begin()

    def data_received(self, data):
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # the header is there, the server answers
            self._end()
        elif self._limit is None:
            self._begin()

    def connection_lost(self, exc):
        super().connection_lost(exc)
        self._end()

    def shutdown(self):
        """The server stops: a request that has not come whole is not waited for, one that has is answered."""
        if self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete:
            self.transport.close()
        else:
            super().shutdown()

    def _begin(self):
        self._limit = self.loop.call_later(self.timeout_keep_alive, self.transport.close)

    def _end(self):
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def settings(server):
    """The uvicorn.Config of a Server; its `receive_seconds` are what a header may take, and silence."""
    return uvicorn.Config(
        server.app(),
        http=Connection,
        ws="none",
        log_level="error",
        timeout_graceful_shutdown=max(1, int(server.seconds)),
        timeout_keep_alive=server.receive_seconds,
    )
