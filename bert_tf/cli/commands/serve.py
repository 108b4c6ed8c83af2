"""Serves exports over HTTP, as TensorFlow Serving's REST interface does, with a page to try them in a browser.

  bert-tf serve runs/sst2 --name=sst2
  bert-tf serve runs/sst2 squad=runs/squad/export --port=8501
  curl -d '{"instances": ["A gripping film."]}' localhost:8501/v1/models/sst2:predict

EXPORT is the folder of an export or of a run that has one, or NAME=FOLDER. Requests of many clients share a batch.
Stops at Ctrl-C or SIGTERM once what it has taken is answered. See docs/serving.md.
"""

import math
import os
import socket

from bert_tf.errors import UserError
from bert_tf.export import loaded_model
from bert_tf.runtime import process


def add_arguments(parser):
    parser.add_argument("exports", nargs="+", metavar="EXPORT", help="folder of an export or a run, or NAME=FOLDER")
    parser.add_argument("--name", help="name of the model, where there is one (its folder's)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1: this machine alone)")
    parser.add_argument("--port", type=int, default=8501, help="port (8501, TensorFlow Serving's)")
    parser.add_argument("--max_request_bytes", type=int, default=4 << 20, help="largest request (4194304)")
    parser.add_argument("--max_instances", type=int, default=1024, help="most instances in a request (1024)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds until an answer is given up (60)")
    parser.add_argument("--receive_timeout", type=float, default=30.0, help="seconds a request may take to come (30)")
    parser.add_argument("--max_waiting", type=int, default=256, help="requests that may wait; then 503 (256)")


def run(arguments):
    process.assume_frozen_weights()
    wanted = named(arguments.exports, arguments.name)
    for path in wanted.values():
        loaded_model.find(path)
    for flag in ("max_request_bytes", "max_instances", "timeout", "receive_timeout", "max_waiting"):
        if not 0 < getattr(arguments, flag) < math.inf:
            raise UserError(f"--{flag} is {getattr(arguments, flag)}; expected a number above 0.")
    try:
        import uvicorn

        from bert_tf.serving import connection
        from bert_tf.serving.app import Server
    except ImportError as error:
        raise UserError(f'{error.name} is missing: pip install "bert-tf[serve]".') from None
    taken = listening(arguments.host, arguments.port)
    from bert_tf.serving.served import Served

    server = Server(
        [Served(name, path) for name, path in wanted.items()],
        most_bytes=arguments.max_request_bytes,
        seconds=arguments.timeout,
        receive_seconds=arguments.receive_timeout,
        most_waiting=arguments.max_waiting,
        most_instances=arguments.max_instances,
    )
    address = "{}:{}".format(*taken.getsockname()[:2])
    for model in server.models.values():
        print(f"{model.name} ({model.kind}): http://{address}/v1/models/{model.name}:predict", flush=True)
    print(f"Try it at http://{address}/ ; Ctrl-C stops it.", flush=True)
    try:
        uvicorn.Server(connection.settings(server)).run(sockets=[taken])
    except KeyboardInterrupt:  # uvicorn has stopped by then, and hands the signal on
        print("Stopped.", flush=True)


def named(exports, name):
    """{name: folder} of what the command line names; UserError for two of one name."""
    found = {}
    for text in exports:
        given, equals, path = text.partition("=")
        if not equals or os.path.exists(text):
            given, path = default_name(text), text
        if name and len(exports) == 1:
            given = name
        if not given or "/" in given or ":" in given:
            raise UserError(f"A model cannot be called {given!r}: give --name, or NAME={path}.")
        if given in found:
            raise UserError(f"Two models would be called {given}: write them as NAME=FOLDER.")
        found[given] = path
    if name and len(exports) > 1:
        raise UserError("--name goes with one export: write several as NAME=FOLDER.")
    return found


def default_name(path):
    """The name of the run that an export is of."""
    parts = os.path.abspath(path).split(os.sep)
    return parts[-2] if parts[-1] == "export" and len(parts) > 2 else parts[-1]


def listening(host, port):
    """A socket that listens there; UserError where that is not possible."""
    if not 0 <= port < 65536:
        raise UserError(f"--port is {port}; expected 0 (any that is free) to 65535.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family, kind, protocol)  # without the protocol asyncio lets answers wait 40 ms (Nagle)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen(1024)
    except OSError as error:
        raise UserError(
            f"{host}:{port} cannot be listened on ({error.strerror or error}): give another --port."
        ) from None
    return taken
