"""Access control and the access log: ASGI applications that wrap the one in `app`."""

import datetime
import hmac
import json
import re
import sys
import time
from collections.abc import Collection
from typing import Any, TextIO

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ANY = "*"
PUBLIC = {"/healthz", "/readyz"}  # for probes, which know neither the token nor the server's name
READING = {"GET", "HEAD"}  # methods allowed on open paths
HOST = re.compile(rb"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d+)?")
MAX_LOGGED = 200  # characters of a path in the log


class Gate:
    """Refuses requests with a wrong or repeated Host header (400) and requests without the token (401).

    A web page can make a browser resolve the page's own name to 127.0.0.1, and so reach a server that listens only on
    the local machine (DNS rebinding); the Host header then contains the page's name.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], token: str, open_paths: Collection[str]) -> None:
        """hosts: allowed Host names, "*" for any. token: "" for none. open_paths: readable without the token."""
        self.app, self.token = app, token
        self.hosts = {host.lower().strip("[]") for host in hosts}
        self.open_paths = PUBLIC | set(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or refuses it."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers, path = dict(scope["headers"]), scope["path"]
        names = [name for name, _ in scope["headers"]]
        if names.count(b"host") > 1:
            return JSONResponse({"error": "The request has several Host headers; expected one."}, 400)
        if path not in PUBLIC and ANY not in self.hosts and host_name(headers.get(b"host", b"")) not in self.hosts:
            return JSONResponse({"error": "The Host header is not one of --allowed_hosts."}, 400)
        if not self.token or (path in self.open_paths and scope["method"] in READING):
            return None
        if names.count(b"authorization") > 1:
            return JSONResponse({"error": "The request has several Authorization headers; expected one."}, 400)
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(b" "), self.token.encode()):
            return None
        error = {"error": "The request needs the header authorization: Bearer TOKEN, with the token of this server."}
        return JSONResponse(error, 401, {"www-authenticate": "Bearer"})


def host_name(header: bytes) -> str:
    """The name or address in a Host header, without port and brackets; "" for an invalid one."""
    parts = HOST.fullmatch(header)
    return (parts[1] or parts[2]).decode().lower() if parts else ""


class Log:
    """Writes a line per request, in the Common Log Format with the seconds at the end, or as JSON."""

    def __init__(self, app: ASGIApp, form: str, stream: TextIO | None = None) -> None:
        """form: "text" or "json"."""
        self.app, self.form, self.stream = app, form, stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Logs the application's response; 499 if the client disconnected before one was sent."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        entry: dict[str, Any] = {"status": 499, "bytes": 0}
        start = time.monotonic()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                entry["status"] = message["status"]
            entry["bytes"] += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, counted)
        finally:
            self._write(scope, entry, time.monotonic() - start)

    def _write(self, scope: Scope, entry: dict[str, Any], seconds: float) -> None:
        now = datetime.datetime.now(datetime.UTC)
        client = (scope.get("client") or ("-",))[0]
        path = scope.get("raw_path", b"").decode("ascii", "backslashreplace")[:MAX_LOGGED]  # still percent-encoded
        request = {"client": client, "method": scope["method"], "path": path}
        if self.form == "json":
            line = json.dumps(
                {"time": now.isoformat("T", "milliseconds"), **request, **entry, "seconds": round(seconds, 4)}
            )
        else:
            when = now.strftime("%d/%b/%Y:%H:%M:%S %z")
            quoted = path.replace('"', "%22")
            first = f"{scope['method']} {quoted} HTTP/{scope['http_version']}"
            line = f'{client} - - [{when}] "{first}" {entry["status"]} {entry["bytes"]} {seconds:.4f}'
        print(line, file=self.stream or sys.stdout, flush=True)
