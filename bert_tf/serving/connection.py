"""The uvicorn settings of the server, with limits on connections, and on the time and the header of a request."""

import asyncio
import json
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bert_tf.serving.app import Server

MAX_HEADER_BYTES = 65_536  # of the request line and all headers; also of trailers and of what frames chunks
NO_SNIFF = ("x-content-type-options", "nosniff")


def _refusal(status: str, error: str, *headers: str) -> bytes:
    """A response after which the connection is closed."""
    body = json.dumps({"error": error})
    fixed = [": ".join(NO_SNIFF), "content-type: application/json", f"content-length: {len(body)}", "connection: close"]
    return "\r\n".join([f"HTTP/1.1 {status}", *fixed, *headers, "", body]).encode()


TOO_LARGE = _refusal(
    "431 Request Header Fields Too Large", f"The header of the request is larger than {MAX_HEADER_BYTES:,} bytes."
)
TOO_MANY = _refusal("503 Service Unavailable", "There are too many connections: try again later.", "retry-after: 1")


class Connection(HttpToolsProtocol):
    """A connection with limits that uvicorn with httptools does not have.

    With `most` others it is answered 503 at once.

    It is closed when a complete request header has not arrived within `timeout_keep_alive` seconds. uvicorn applies
    that limit only after a response. A client that connects and sends nothing, or sends its header or the rest of a
    refused request byte by byte, would otherwise keep its connection forever.

    A request header above MAX_HEADER_BYTES is answered 431. Complete headers are counted, and so is what the parser
    has received without passing it on: the beginning of one endless header.

    It is also closed when the client has read nothing of what is sent for `timeout_keep_alive` seconds.
    """

    most = 0  # connections at a time
    _limit: asyncio.TimerHandle | None = None  # closes the connection
    _patience: asyncio.TimerHandle | None = None  # closes the connection of a client that does not read
    _unsent_bytes = 0  # when that was started
    _header_bytes = 0  # of this request
    _unparsed_bytes = 0  # received since the last part of a body or the last end of a request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the limit, or refuses the connection."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self.connections.discard(self)
            transport.write(TOO_MANY)
            transport.close()
        else:
            self._begin()

    def data_received(self, data: bytes) -> None:
        """Stops the limit once the header is complete, and starts it for the next one."""
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._unparsed_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            self._refuse_header()
        if self._is_responding:
            self._end()
        elif self._limit is None:
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the limits."""
        super().connection_lost(exc)
        self._end()
        self._stop_waiting()

    def pause_writing(self) -> None:
        """Called when the client reads more slowly than the server sends: from now on it has to read."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """Called when the client has read nearly all."""
        super().resume_writing()
        self._stop_waiting()

    def shutdown(self) -> None:
        """Closes the connection when the server stops: complete requests are answered, incomplete ones dropped."""
        if self._is_responding and self.cycle.more_body:
            self.transport.close()
        else:
            super().shutdown()

    def on_message_begin(self) -> None:
        """Called by the parser at the beginning of a request."""
        self._header_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Called by the parser for parts of the URL."""
        self._count_header(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser for each header, and for each trailer after a body in chunks."""
        self._count_header(len(name) + len(value))
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Called by the parser for parts of the body."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called by the parser at the end of a request."""
        self._unparsed_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Called where the parser fails, which it does after an exception in `on_header` too."""
        if self._header_bytes > MAX_HEADER_BYTES:
            self._refuse_header()
        else:
            super().send_400_response(msg)

    @property
    def _is_responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MAX_HEADER_BYTES:
            raise ValueError("the header is too large")  # stops the parser

    def _refuse_header(self) -> None:
        if not self._is_responding:  # else it would be taken for the response to an earlier request
            self.transport.write(TOO_LARGE)
        self.transport.close()

    def _begin(self) -> None:
        self._limit = self.loop.call_later(self.timeout_keep_alive, self.transport.close)

    def _end(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _wait_for_reader(self) -> None:
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self._patience = self.loop.call_later(self.timeout_keep_alive, self._check_progress)

    def _check_progress(self) -> None:
        if self.transport.get_write_buffer_size() < self._unsent_bytes:
            self._wait_for_reader()
        else:
            self.transport.abort()  # close() would wait until the client has read the rest

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


def settings(server: Server, *, most_connections: int = 512, **tls: Any) -> uvicorn.Config:
    """The uvicorn.Config of a Server; its `receive_seconds` limit the time to receive a header, and silence.

    Args:
        server: the Server.
        most_connections: further ones are refused.
        tls: `ssl_certfile` and `ssl_keyfile` of uvicorn.
    """
    return uvicorn.Config(
        server.app(),
        http=type("Connection", (Connection,), {"most": most_connections}),
        ws="none",
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[NO_SNIFF],
        timeout_graceful_shutdown=max(1, int(server.seconds)),
        timeout_keep_alive=server.receive_seconds,  # type: ignore[arg-type]  # asyncio takes fractions
        **tls,
    )
