"""Clients that are slow or silent, over real sockets: they lose their connection, a patient one keeps it."""

import contextlib
import itertools
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
import types

import pytest
import uvicorn

from bert_tf.cli.commands import serve
from bert_tf.serving import connection
from bert_tf.serving.app import Server

LIMIT = 0.4  # seconds for a header, a body, and silence
HEADER = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n"


@contextlib.contextmanager
def serving(receive_seconds, most_connections=512, tls=None, **limits):
    """The address of a server without TensorFlow, which takes twice the limit to say what it is told."""

    class Slow:
        inputs, has_large_outputs, has_rows = {"text": ("string", (None,))}, False, True

        def __call__(self, arrays):
            time.sleep(2 * LIMIT)
            return {"said": arrays["text"]}

    model = types.SimpleNamespace(name="m", version="1", signatures={"serving_default": Slow()})
    listener = serve.listen("127.0.0.1", 0)
    server = Server([model], receive_seconds=receive_seconds, **limits)
    server = uvicorn.Server(connection.settings(server, most_connections=most_connections, tls=tls))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield listener.getsockname()
    server.should_exit = True
    thread.join(5)
    assert not thread.is_alive(), "it does not stop"


@pytest.fixture(scope="module")
def address():
    with serving(LIMIT) as where:
        yield where


def talk(address, parts, pause=0.0):
    """What the server sends until it closes the connection, and after how many seconds it does."""
    start, data = time.monotonic(), b""
    with socket.create_connection(address, timeout=10) as client:
        parts = iter(parts)
        client.settimeout(pause or 10)
        with contextlib.suppress(ConnectionError):
            while True:
                with contextlib.suppress(StopIteration, ConnectionError):  # an answer may be there nevertheless
                    client.sendall(next(parts))
                try:
                    received = client.recv(4096)
                except TimeoutError:
                    assert time.monotonic() - start < 10, "the server keeps the connection"
                    continue
                data += received
                if not received:
                    break
    return data, time.monotonic() - start


def forever(text):
    yield text
    while True:
        yield b"x"


@pytest.mark.parametrize(
    ("parts", "answer"),
    [
        ([], b""),
        (forever(b"GET / HTTP/1.1\r\nX: "), b""),
        (forever(HEADER % 10_000), b"HTTP/1.1 408"),
        ([HEADER % 10_000], b"HTTP/1.1 408"),
        (forever(HEADER % 10_000_000), b"HTTP/1.1 413"),  # what is refused already may not go on for ever either
    ],
    ids=["silence", "slow header", "slow body", "half a body", "slow rest"],
)
def test_slow_request_is_disconnected(address, parts, answer):
    received, seconds = talk(address, parts, pause=0.05)
    assert received.startswith(answer) and bool(received) == bool(answer)
    assert LIMIT * 0.9 < seconds < 4
    if answer == b"HTTP/1.1 408":
        assert b'{"error":"The request was not complete within 0.4 seconds."}' in received


@pytest.fixture(scope="module")
def patient():
    with serving(30, most_waiting=4) as where:
        yield where


CHUNKED = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "more", "answer"),
    [
        (b"GET / HTTP/1.1\r\n", b"X: a\r\n", b"HTTP/1.1 431"),
        (b"GET / HTTP/1.1\r\nX: ", b"a", b"HTTP/1.1 431"),
        (b"GET /", b"a", b"HTTP/1.1 431"),
        (b"", b"\r\n", b"HTTP/1.1 431"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 80_000 + b"\r\n\r\n", b"", b"HTTP/1.1 431"),
        (CHUNKED + b"1\r\n{\r\n0\r\n", b"X: a\r\n", b""),
        (CHUNKED + b"1;", b"a", b""),
    ],
    ids=["headers", "header", "path", "empty lines", "in one piece", "trailers", "chunk extension"],
)
def test_endless_header_is_cut_off(patient, begin, more, answer):
    pieces = itertools.chain([begin], itertools.repeat(more * 2000) if more else ())
    received, _ = talk(patient, pieces, pause=0.001)
    assert received.startswith(answer) and bool(received) == bool(answer)


def test_long_body_in_small_chunks_is_no_header(patient):
    body = b'{"instances": ["' + b" " * 40_000 + b'"]}'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    with socket.create_connection(patient, timeout=10) as client:
        client.sendall(CHUNKED + chunks)
        assert client.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "request_bytes",
    [b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"\0\r\n\r\n", b"GET /" + b"a" * 70_000, b"GET /no HTTP/1.1\r\n\r\n"],
    ids=["200", "400", "431", "404"],
)
def test_every_response_forbids_sniffing_and_names_no_software(patient, request_bytes):
    with socket.create_connection(patient, timeout=10) as client:
        client.sendall(request_bytes)
        head = client.recv(4096).lower()
    assert head.count(b"\r\nx-content-type-options: nosniff\r\n") == 1 and b"\r\nserver:" not in head


def test_clients_that_reset_leave_the_queue(patient):
    body = b'{"instances": ["yes"]}'
    for _ in range(6):
        with socket.create_connection(patient) as rude:
            rude.sendall(HEADER % len(body) + body)
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets
            time.sleep(0.02)
    with socket.create_connection(patient, timeout=10) as client:
        client.sendall(HEADER % len(body) + body)
        assert answer_of(client).startswith(b"HTTP/1.1 200")


def answer_on(connection, request):
    """The answer to a request for /healthz, which may come in pieces."""
    connection.sendall(request)
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(4096)
    return answer


def test_connections_beyond_the_limit_are_refused_at_once():
    with serving(30, most_connections=2) as address, contextlib.ExitStack() as stack:
        silent, used = (stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(2))
        get = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        assert answer_on(used, get).startswith(b"HTTP/1.1 200")
        for parts in ([], [get], [HEADER % 300_000 + b"x" * 300_000]):  # those that are refused do not count
            answer, seconds = talk(address, parts)
            assert answer.startswith(b"HTTP/1.1 503") and b"\r\nretry-after: 1\r\n" in answer and seconds < 5
            assert answer.endswith(b'{"error": "There are too many connections: try again later."}')
        assert answer_on(used, get).startswith(b"HTTP/1.1 200")
        silent.close()
        deadline = time.monotonic() + 5
        while not talk(address, [get.replace(b"x", b"x\r\nConnection: close")])[0].startswith(b"HTTP/1.1 200"):
            assert time.monotonic() < deadline


@contextlib.contextmanager
def awaiting(size):
    """A client with small buffers that has asked for a response of that size, and its server."""
    body = b'{"instances": ["' + b"x" * size + b'"]}'
    with serving(LIMIT, most_bytes=2 * size, most_tokens=size) as address, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(10)
        client.connect(address)
        client.sendall(HEADER % len(body) + body)
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        yield client


def read(client, limit=1 << 30):
    """Reads so many bytes, or until the end or a reset; returns their number."""
    count = 0
    with contextlib.suppress(ConnectionError):
        while count < limit and (received := len(client.recv(min(limit - count, 1 << 20)))):
            count += received
    return count


def test_client_that_does_not_read_is_disconnected():
    with awaiting(8 << 20) as client:
        time.sleep(3 * LIMIT)
        assert read(client) < 4 << 20


def test_client_that_reads_slowly_gets_everything():
    with awaiting(8 << 20) as client:
        for _ in range(6):
            time.sleep(LIMIT / 4)
            assert read(client, 1 << 19) == 1 << 19
        assert read(client, 2 << 20) == 2 << 20


def test_slow_answer_keeps_the_connection_alive(address):
    body = b'{"instances": ["yes"]}'
    with socket.create_connection(address, timeout=10) as client:
        for _ in range(2):
            for part in (HEADER[:9], HEADER[9:] % len(body), body):
                client.sendall(part)
                time.sleep(0.1)
            assert answer_of(client).startswith(b"HTTP/1.1 200")


def test_stopping_server_finishes_started_requests():
    body = b'{"instances": ["yes"]}'
    with contextlib.ExitStack() as stack:
        with serving(30) as address:
            half, whole = (stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(2))
            half.sendall(HEADER % 500)
            whole.sendall(HEADER % len(body) + body)
            time.sleep(LIMIT)
        assert answer_of(whole).startswith(b"HTTP/1.1 200") and half.recv(4096) == b""


def answer_of(client):
    data = b""
    while not data.endswith(b'{"predictions":["yes"]}'):
        received = client.recv(4096)
        assert received, data
        data += received
    return data


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


@pytest.mark.parametrize("step", [1, 7, 1000], ids=["bytes", "small parts", "whole"])
@pytest.mark.parametrize("header", [HEADER % 22, CHUNKED], ids=["length", "chunks"])
def test_request_for_another_protocol_is_answered_as_if_it_asked_for_none(patient, header, step):
    body = b'{"instances": ["yes"]}'
    body = body if b"Length" in header else b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    request = header.replace(b"\r\n\r\n", b"\r\n" + UPGRADE + b"\r\n", 1) + body
    get = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    with socket.create_connection(patient, timeout=10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for first in range(0, len(request), step):
            client.sendall(request[first : first + step])
        answer = answer_of(client)
        assert answer.startswith(b"HTTP/1.1 200") and b"upgrade" not in answer.lower()
        for more in (UPGRADE, b""):  # the connection speaks HTTP/1.1 still
            assert answer_on(client, get + more + b"\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("more", [b"Connection: close\r\n", b""], ids=["closed", "kept"])
def test_refusal_of_a_large_body_is_received(patient, more):
    body = b"x" * (6 << 20)
    request = (HEADER % len(body)).replace(b"\r\n\r\n", b"\r\n" + more + b"\r\n") + body
    with socket.create_connection(patient, timeout=10) as client:
        client.sendall(request)  # a client that reads nothing before it has sent everything
        answer = client.recv(4096)
    assert answer.startswith(b"HTTP/1.1 413") and b"The request is larger than 4,194,304 bytes" in answer


def test_rest_of_a_refused_request_is_not_read_for_ever(patient, monkeypatch):
    monkeypatch.setattr(connection, "PARTING_BYTES", 1 << 20)
    close = (HEADER % (1 << 40)).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    received, seconds = talk(patient, itertools.chain([close], itertools.repeat(b"x" * (1 << 18))), pause=0.001)
    assert received.startswith(b"HTTP/1.1 413") and seconds < 4


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("tls") / "both.pem")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost".split()
    subprocess.run([*command, "-addext", "subjectAltName=DNS:localhost", "-out", path, "-keyout", path], check=True)
    return path


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate with openssl")
def test_silent_handshakes_are_counted_and_closed(certificate):
    trusted = ssl.create_default_context(cafile=certificate)
    get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    def ask(address):
        plain = socket.create_connection(address, timeout=10)
        with trusted.wrap_socket(plain, server_hostname="localhost") as client:
            client.sendall(get)
            return client.recv(4096) + client.recv(4096)

    with serving(2.5 * LIMIT, most_connections=2, tls=serve.check_tls(certificate, None)) as address:
        assert ask(address).endswith(b'{"status":"alive"}')
        start = time.monotonic()
        silent = [socket.create_connection(address, timeout=10) for _ in range(2)]
        assert ask(address).startswith(b"HTTP/1.1 503"), "they are counted"
        for each in silent:
            with each:
                assert each.recv(10) == b""
        assert 2 * LIMIT < time.monotonic() - start < 10
        assert ask(address).startswith(b"HTTP/1.1 200")
        silent = socket.create_connection(address, timeout=10)
    with silent:  # closed when the server stops
        assert silent.recv(10) == b""
