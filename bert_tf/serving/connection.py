"""The uvicorn settings of the server, with limits on connections and on a request's time and header size."""

import asyncio
import json
import math
import socket
import ssl
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bert_tf.serving.app import Server

MAX_HEADER_BYTES = 65_536  # of the request line and all headers; also of trailers and chunk framing
PARTING_BYTES, PARTING_SECONDS = 64 << 20, 5.0  # limits for dropping the rest of a request after its response
REFUSED_SECONDS = 1.0  # how long a connection beyond the limit stays open for its response
AT_ONCE = 16  # connections accepted before the limit applies to the first of them
BACKLOG = 1024  # connections that the operating system queues
NO_SNIFF = ("x-content-type-options", "nosniff")


def _refusal(status: str, error: str, *headers: str) -> bytes:
    """A response that closes the connection."""
    body = json.dumps({"error": error})
    fixed = [": ".join(NO_SNIFF), "content-type: application/json", f"content-length: {len(body)}", "connection: close"]
    return "\r\n".join([f"HTTP/1.1 {status}", *fixed, *headers, "", body]).encode()


TOO_LARGE = _refusal(
    "431 Request Header Fields Too Large", f"The header of the request is larger than {MAX_HEADER_BYTES:,} bytes."
)
INVALID = _refusal("400 Bad Request", "The request is not valid HTTP.")
TOO_MANY = _refusal("503 Service Unavailable", "There are too many connections: try again later.", "retry-after: 1")


class _Parser:
    """httptools' parser, but it treats a request for a protocol upgrade as an ordinary one (RFC 9110, 7.8).

    httptools ends such a request after its header and leaves the body to the new protocol. Java's HTTP client and
    `curl --http2` ask for HTTP/2 in every request.
    """

    def __init__(self, connection: "Connection") -> None:
        self._connection, self._parser = connection, httptools.HttpRequestParser(connection)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def feed_data(self, data: bytes) -> None:
        """Parses received data."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if not self._connection.is_upgrade:  # a CONNECT
                raise
            again, self._parser = self._connection.header(), httptools.HttpRequestParser(self._connection)
            self._parser.feed_data(again)
            self.feed_data(data[upgrade.args[0] :])


class _Transport:
    """The transport of a connection; the connection decides how to close."""

    def __init__(self, transport: asyncio.Transport, connection: "Connection") -> None:
        self._transport, self._connection = transport, connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        """Called by uvicorn after a response."""
        self._connection.close()

    def is_closing(self) -> bool:
        """Returns whether nothing more will be sent."""
        return self._connection.is_parting or self._transport.is_closing()


class Connection(HttpToolsProtocol):
    """A connection with limits that uvicorn with httptools does not have.

    Beyond `most` connections, up to `most_refused` get a 503; the rest are reset.

    It is closed if no complete request header arrives within `timeout_keep_alive` seconds. uvicorn applies that limit
    only after a response. A client that connects and sends nothing, or sends its header or the rest of a refused
    request byte by byte, would otherwise keep its connection forever.

    A request header above MAX_HEADER_BYTES gets a 431. The limit counts complete headers and the data that the parser
    has received but not passed on, which may be the beginning of one endless header.

    It is also closed if the client reads none of the response for `timeout_keep_alive` seconds.

    After a response to a request that has not arrived completely, the rest is read and dropped for a while before the
    connection is closed: closing it with unread data would reset it, and the client would lose the response.
    """

    most = most_refused = 0  # connections at a time
    refused: set[asyncio.Protocol]  # connections that get a 503
    is_counted = False  # whether it got its place among `most` before the TLS handshake
    _limit: asyncio.TimerHandle | None = None  # closes the connection
    _patience: asyncio.TimerHandle | None = None  # closes the connection of a client that does not read
    _unsent_bytes = 0  # when `_patience` was started
    _header_bytes = 0  # of this request
    _unparsed_bytes = 0  # received since the last body part or end of a request
    _parting_bytes: int | None = None  # received and dropped; None while the connection is used

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.parser = _Parser(self)  # type: ignore[assignment]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the limit, or refuses the connection."""
        self._transport = transport
        super().connection_made(_Transport(transport, self))  # type: ignore[arg-type]
        if self.is_counted or len(self.connections) <= self.most:
            self._begin()
            return
        self.connections.discard(self)
        if len(self.refused) >= self.most_refused:
            transport.abort()
            return
        self.refused.add(self)
        self._refuse(TOO_MANY, REFUSED_SECONDS)

    def close(self) -> None:
        """Closes the connection after a response."""
        if self.cycle is not None and self.cycle.more_body:
            self._part()
        else:
            self._transport.close()

    @property
    def is_parting(self) -> bool:
        """Returns whether the last response was sent and further input is dropped."""
        return self._parting_bytes is not None

    def _part(self, seconds: float = PARTING_SECONDS) -> None:
        """Closes the connection after `seconds`, or once the client has closed its end."""
        if self._parting_bytes is None and not self._transport.is_closing():
            self._parting_bytes = 0
            self._end()
            if self._transport.can_write_eof():
                self._transport.write_eof()
            self._transport.resume_reading()
            self._limit = self.loop.call_later(min(seconds, self.timeout_keep_alive), self._transport.close)

    def data_received(self, data: bytes) -> None:
        """Stops the limit once the header is complete, and starts it for the next one."""
        if self._parting_bytes is None:
            self._unparsed_bytes += len(data)
            super().data_received(data)
            if self._unparsed_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
                self._refuse(TOO_LARGE)
        elif self._parting_bytes <= PARTING_BYTES:
            self._parting_bytes += len(data)
        else:
            self._transport.abort()
        if self.is_parting:
            return
        if self._is_responding:
            self._end()
        elif self._limit is None:
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the limits."""
        super().connection_lost(exc)
        self.refused.discard(self)
        self._end()
        self._stop_waiting()

    def pause_writing(self) -> None:
        """Called when the client reads more slowly than the server sends: starts the timeout for reading."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """Called when the client has read nearly all."""
        super().resume_writing()
        self._stop_waiting()

    def shutdown(self) -> None:
        """Closes the connection when the server stops: complete requests get responses, incomplete ones are dropped."""
        if self._is_responding and not self.cycle.more_body:
            super().shutdown()
        else:
            self._transport.close()

    @property
    def is_upgrade(self) -> bool:
        """Returns whether the parsed header asks for a protocol upgrade."""
        return self.parser.should_upgrade() and any(name == b"upgrade" for name, _ in self.headers)

    def header(self) -> bytes:
        """The parsed header without the upgrade request."""
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        lines += [b"%s: %s" % (name, value) for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        """Called by the parser at the beginning of a request."""
        self._header_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Called by the parser for parts of the URL."""
        self._count_header(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser for each header, and for each trailer after a chunked body."""
        self._count_header(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Called by the parser at the end of a header, possibly one that `_Parser` has parsed again."""
        if not self.is_upgrade:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Called by the parser for parts of the body."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called by the parser at the end of a request."""
        self._unparsed_bytes = 0
        if not self.is_upgrade:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Called when the parser fails, including after an exception in `on_header`."""
        self._refuse(TOO_LARGE if self._header_bytes > MAX_HEADER_BYTES else INVALID)

    @property
    def _is_responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MAX_HEADER_BYTES:
            raise ValueError("the header is too large")  # stops the parser

    def _refuse(self, response: bytes, seconds: float = PARTING_SECONDS) -> None:
        if not self._is_responding:  # otherwise it would look like the response to an earlier request
            self._transport.write(response)
        self._part(seconds)

    def _begin(self) -> None:
        self._limit = self.loop.call_later(self.timeout_keep_alive, self._transport.close)

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


class Handshake(asyncio.Protocol):
    """The TLS handshake, which counts as a connection; it is closed after `timeout_keep_alive` seconds."""

    def __init__(self, connection: Connection, context: ssl.SSLContext) -> None:
        self._connection, self._context = connection, context
        self._early = b""  # data received with the end of the handshake

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the handshake, unless there are too many already for connections that will be refused."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, whole = transport, self._connection
        whole.is_counted = len(whole.connections) < whole.most
        if not whole.is_counted and len(whole.refused) >= whole.most_refused:
            transport.abort()
            return
        (whole.connections if whole.is_counted else whole.refused).add(self)  # type: ignore[arg-type]
        self._task = whole.loop.create_task(self._finish())

    def data_received(self, data: bytes) -> None:
        """Stores data that arrives before the handover to the connection."""
        self._early += data

    async def _finish(self) -> None:
        whole, secure = self._connection, None
        try:
            secure = await whole.loop.start_tls(
                self._transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=min(whole.timeout_keep_alive, math.inf if whole.is_counted else PARTING_SECONDS),
            )
        except OSError:  # including TLS errors; the transport is closed
            return
        finally:
            whole.connections.discard(self)  # type: ignore[arg-type]
            whole.refused.discard(self)
        if secure is None or secure.is_closing():  # closed in the meantime
            return
        secure.set_protocol(whole)
        whole.connection_made(secure)
        if self._early:
            whole.data_received(self._early)

    def shutdown(self) -> None:
        """Closes the connection when the server stops."""
        self._transport.abort()


class HttpServer(uvicorn.Server):
    """uvicorn's server, which accepts few connections at a time but queues many."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to accept connections."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)


def settings(
    server: Server, *, most_connections: int = 512, most_refused: int = 64, tls: ssl.SSLContext | None = None
) -> uvicorn.Config:
    """The uvicorn.Config of a Server; `receive_seconds` limits the time for a header, and idle time.

    Args:
        server: the Server.
        most_connections: maximum number of connections; more are refused.
        most_refused: maximum number of simultaneous connections that get a 503; more are reset.
        tls: the context with the certificate, for HTTPS. It is not passed to uvicorn, because asyncio neither counts
            handshakes nor limits their time.
    """
    limits = {"most": most_connections, "most_refused": most_refused, "refused": set()}
    kind = type("Connection", (Connection,), limits)

    def secured(**arguments: Any) -> asyncio.Protocol:
        assert tls is not None
        return Handshake(kind(**arguments), tls)

    return uvicorn.Config(
        server.app(),
        http=secured if tls else kind,  # type: ignore[arg-type]
        backlog=AT_ONCE,
        ws="none",
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[NO_SNIFF],
        timeout_graceful_shutdown=max(1, int(server.seconds)),
        timeout_keep_alive=server.receive_seconds,  # type: ignore[arg-type]  # asyncio takes fractions
    )
