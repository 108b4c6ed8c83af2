"""Reads the body of a request: within the time and size limits, as JSON."""

import asyncio
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from bert_tf.runtime import json_files

CLIENT_CLOSED_REQUEST = 499  # nginx's code, for metrics and the log only


async def read_json(request: Request, most_bytes: int, seconds: float) -> Any:
    """Returns the body; raises HTTPException 408 after `seconds`, 413 for more than `most_bytes`, or 400."""
    try:
        body = await asyncio.wait_for(_read(request, most_bytes), seconds)
    except TimeoutError:
        message = f"The request was not complete within {seconds:g} seconds."
        raise HTTPException(408, message, {"connection": "close"}) from None
    return _json(body)


async def wait_for_disconnect(request: Request) -> None:
    """Returns once the client has closed the connection; only after the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def closed() -> HTTPException:
    """The exception for a connection that the client has closed."""
    return HTTPException(CLIENT_CLOSED_REQUEST, "The client closed the connection.")


async def _read(request: Request, most_bytes: int) -> bytes:
    too_large = HTTPException(413, f"The request is larger than {most_bytes:,} bytes: send it in parts.")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most_bytes:
        raise too_large
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > most_bytes:
                raise too_large
            parts.append(part)
    except ClientDisconnect:
        raise closed() from None
    return b"".join(parts)


def _json(body: bytes) -> Any:
    """The value of a body; all texts are valid Unicode, so routes need not check for lone surrogates."""
    try:
        return json_files.parse(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"The request is not UTF-8 (byte {error.start + 1}).") from None
    except ValueError as error:
        raise HTTPException(400, f"The request is not valid JSON: {error}.") from None
