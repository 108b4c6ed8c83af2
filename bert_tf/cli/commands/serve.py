"""Serves exports over HTTP with TensorFlow Serving's REST interface, and a page to try them in a browser.

  bert-tf serve runs/sst2 --name=sst2
  bert-tf serve runs/sst2 squad=runs/squad/export --port=8501
  curl -d '{"instances": ["A gripping film."]}' localhost:8501/v1/models/sst2:predict

EXPORT is the folder of an export, of a run with one, of an index, or a checkpoint with a head; or NAME=FOLDER. Of a
folder with versions, models/sst2/1, models/sst2/2, the highest is served. --reload takes up newer ones.
Concurrent requests are batched together. On Ctrl-C or SIGTERM the server answers the requests it has received and
stops. If --token_file or the environment variable BERT_TF_TOKEN gives a token, requests need it. See docs/serving.md.

An export is a program: serve only what you trust. Those that read or write files are refused.
"""

import argparse
import functools
import importlib.util
import ipaddress
import math
import os
import re
import socket
import ssl
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import prometheus_client

from bert_tf.cli import shared_flags
from bert_tf.config.flag_parsers import comma_separated
from bert_tf.errors import UserError, leave_out, reason_of
from bert_tf.export import engine_network, loaded_model, opening
from bert_tf.export.predictor import Predictor
from bert_tf.runtime import access_token, files, process
from bert_tf.runtime.lazy import module
from bert_tf.serving import access, connection, versions, zero_shot_signature
from bert_tf.serving.app import Server
from bert_tf.serving.served import Served

index_files = module("bert_tf.extras.search.index_files")
served_index = module("bert_tf.extras.search.served_index")

SPARE_THREADS = 8  # beyond one per core: a long request occupies TensorFlow threads for seconds
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@]+")
LEAST_REFUSED, MAX_REFUSED = 32, 512  # simultaneous connections beyond --max_connections that get a response
OWN_FILES = 128  # files for several models, connections not counted yet, and LEAST_REFUSED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "exports", nargs="+", metavar="EXPORT", help="folder of an export, run or index, or NAME=FOLDER"
    )
    parser.add_argument("--name", help="name of the model, if there is only one (its folder's)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1: this machine only)")
    parser.add_argument("--port", type=int, default=8501, help="port (8501, TensorFlow Serving's)")
    parser.add_argument("--max_request_bytes", type=int, default=4 << 20, help="maximum size of a request (4194304)")
    parser.add_argument("--max_instances", type=int, default=1024, help="maximum instances per request (1024)")
    parser.add_argument("--max_tokens", type=int, default=1 << 17, help="maximum tokens per request, about (131072)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds until a request is abandoned (60)")
    parser.add_argument("--receive_timeout", type=float, default=30.0, help="seconds to receive a request (30)")
    parser.add_argument("--max_waiting", type=int, default=256, help="queued requests; more get status 503 (256)")
    parser.add_argument("--max_connections", type=int, default=512, help="connections; more get status 503 (512)")
    parser.add_argument(
        "--allowed_hosts",
        help="comma-separated names allowed in the Host header, * for any (names of this machine with a loopback "
        "--host, else *)",
    )
    parser.add_argument(
        "--allowed_origins",
        default="",
        help="CORS: comma-separated origins whose pages may read answers, such as https://example.org; * for any",
    )
    parser.add_argument(
        "--reload", action="store_true", help="load a new version, or a replaced export, without a pause"
    )
    parser.add_argument("--token_file", help="file whose first line is the token that requests must have")
    parser.add_argument("--ssl_certfile", help="PEM file of a certificate chain; serves HTTPS")
    parser.add_argument("--ssl_keyfile", help="PEM file of its private key (in --ssl_certfile)")
    parser.add_argument("--reranker", default="", metavar="MODEL", help="for indexes: export or run of a cross-encoder")
    parser.add_argument("--reranker_label", default="", metavar="LABEL", help="the class that means a match")
    shared_flags.add_num_texts(parser)
    shared_flags.add_segments(parser)
    shared_flags.add_inference(parser)
    parser.add_argument("--access_log", action="store_true", help="print a line per request")
    parser.add_argument("--log_format", choices=("text", "json"), default="text", help="format of that line (text)")


def run(arguments: argparse.Namespace) -> None:
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", str(SPARE_THREADS + (os.cpu_count() or 1)))
    shared_flags.set_up(arguments)
    folders = name_exports(arguments.exports, arguments.name)
    indexes = _check_folders(folders, arguments.reranker)
    _check_limits(arguments)

    tls = check_tls(arguments.ssl_certfile, arguments.ssl_keyfile)
    token = access_token.read(arguments.token_file, os.environ.get(access_token.VARIABLE))
    listener = listen(arguments.host, arguments.port)
    watches = {
        name: versions.Watch(path, functools.partial(_load, arguments, name, is_index=name in indexes))
        for name, path in folders.items()
    }
    prometheus_client.disable_created_metrics()  # an extra line per metric, with its creation time
    server = Server(
        [watch.first() for watch in watches.values()],
        most_bytes=arguments.max_request_bytes,
        seconds=arguments.timeout,
        receive_seconds=arguments.receive_timeout,
        most_waiting=arguments.max_waiting,
        most_instances=arguments.max_instances,
        most_tokens=arguments.max_tokens,
        allowed_hosts=allowed_hosts(arguments.allowed_hosts, listener.getsockname()[0]),
        allowed_origins=check_origins(arguments.allowed_origins),
        token=token,
        watches=watches if arguments.reload else {},
        log_format=arguments.log_format if arguments.access_log else "",
    )
    if not token and not ipaddress.ip_address(listener.getsockname()[0]).is_loopback:
        print(
            f"With --host={arguments.host} and no token, anybody who can reach this machine can use its models: pass "
            f"--token_file, or set {access_token.VARIABLE}.",
            file=sys.stderr,
        )
    address = f"http{'s' if tls else ''}://{reachable(listener, server.allowed_hosts)}"
    for model in server.models.values():
        verb = "search" if model.kind == "search" else "predict"
        print(f"{model.name} ({model.kind}): {address}/v1/models/{model.name}:{verb}", flush=True)
    print(f"Try it at {address}/; press Ctrl-C to stop.", flush=True)
    try:
        most = arguments.max_connections
        spare = min(MAX_REFUSED, process.most_open_files() - OWN_FILES + LEAST_REFUSED - most)
        settings = connection.settings(server, most_connections=most, most_refused=int(spare), tls=tls)
        connection.HttpServer(settings).run(sockets=[listener])
    except KeyboardInterrupt:  # raised again by uvicorn after it has stopped
        print("Stopped.", flush=True)
    if server.is_loading:  # a thread is inside TensorFlow, so the interpreter must not tear it down
        os._exit(0)


def _load(arguments: argparse.Namespace, name: str, path: str, version: str, *, is_index: bool) -> Any:
    if not is_index:
        loaded_model.forget_checkpoints()
        predictor = _engine(arguments, loaded_model.find(path))
        texts = arguments.num_texts
        model = Served(name, path, version=version, jit_compile=arguments.jit_compile, texts=texts, predictor=predictor)
        model.signatures |= zero_shot_signature.added(model)
        return model
    options = {"reranker": arguments.reranker, "reranker_label": arguments.reranker_label, "engine": arguments.engine}
    return served_index.ServedIndex.load(name, path, version, **options)


def _engine(arguments: argparse.Namespace, folder: str) -> Predictor | None:
    """The export on the engine from the flags; None for TensorFlow, which "auto" uses if there are more signatures."""
    is_auto, has_settings = arguments.engine == opening.AUTO, bool(engine_network.available(folder))
    others = is_auto and has_settings and engine_network.settings_of(folder).get("other_signatures")
    if others and importlib.util.find_spec("tensorflow") is not None:
        return None
    return opening.load(folder, shared_flags.chosen_engine(arguments, folder))


def _check_folders(folders: Mapping[str, str], reranker: str) -> set[str]:
    """The names of the indexes among the folders; raises UserError for a folder that cannot be served."""
    newest = {name: versions.newest(path)[0] for name, path in folders.items()}
    indexes = {name for name, path in newest.items() if index_files.is_index(path)}
    for name, path in newest.items():
        if name in indexes:
            index_files.IndexFiles(path)
        else:
            loaded_model.find(path)
    if reranker:
        if not indexes:
            raise leave_out("--reranker requires an index, and none is served")
        loaded_model.find(reranker)
    return indexes


def _check_limits(arguments: argparse.Namespace) -> None:
    """Raises UserError for limits that are not positive, or more connections than open files allowed."""
    limits = "max_request_bytes max_instances max_tokens timeout receive_timeout max_waiting max_connections"
    for flag in limits.split():
        if not 0 < getattr(arguments, flag) < math.inf:
            raise UserError(f"--{flag} is {getattr(arguments, flag)}; expected a positive number.")
    most = process.most_open_files() - OWN_FILES
    if arguments.max_connections > most:
        raise UserError(
            f"--max_connections is {arguments.max_connections}, and this process may open {most + OWN_FILES} files: "
            f"pass at most {most}, or raise the limit with `ulimit -n`."
        )


def allowed_hosts(given: str | None, address: str) -> list[str]:
    """The names in --allowed_hosts; by default this machine's names if the server listens on a loopback address.

    Raises UserError if it contains no name.
    """
    if given is not None:
        names = comma_separated(given)
        if not names:
            raise UserError(
                "--allowed_hosts contains no name: pass some, separated by commas, or * for any, or remove it."
            )
        return names
    return ["localhost", "127.0.0.1", "::1", address] if ipaddress.ip_address(address).is_loopback else ["*"]


def check_origins(given: str) -> list[str]:
    """The origins in --allowed_origins; raises UserError for any that no browser would send."""
    origins = [origin.strip().rstrip("/") for origin in given.split(",") if origin.strip()]
    for origin in origins:
        if origin != "*" and not ORIGIN.fullmatch(origin):
            raise UserError(
                f"--allowed_origins has {origin!r}; expected a scheme and a host, such as https://example.org or "
                "http://localhost:3000, or *."
            )
    return origins


def check_tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """The TLS context for HTTPS; None without a certificate. UserError if the files lack a certificate and its key."""
    if certificate is None:
        if key is not None:
            raise UserError("--ssl_keyfile needs --ssl_certfile, the certificate of the key.")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise UserError(
            f"{certificate} and {key or 'no --ssl_keyfile'} are not a certificate and its private key without password "
            f"({reason_of(error)})."
        ) from None
    return context


def name_exports(exports: Iterable[str], name: str | None) -> dict[str, str]:
    """{name: folder} of the exports on the command line; raises UserError for duplicate or invalid names."""
    exports = list(exports)
    if name and len(exports) > 1:
        raise UserError("--name requires a single export: write several as NAME=FOLDER.")
    folders: dict[str, str] = {}
    for text in exports:
        model, equals, path = text.partition("=")
        if not equals or files.exists(text):
            model, path = default_name(text), text
        model = name or model
        if not model or "/" in model or ":" in model or not files.is_unicode(model):
            raise UserError(f"{model!r} is not a valid model name: pass --name, or NAME={path}.")
        if model in folders:
            raise UserError(f"Two models would have the name {model}: write them as NAME=FOLDER.")
        folders[model] = path
    return folders


def default_name(path: str) -> str:
    """The name of the folder, or of the run that it was exported from."""
    parts = files.absolute(path).split(os.sep)
    return parts[-2] if parts[-1] == "export" and len(parts) > 2 else parts[-1]


def reachable(listener: socket.socket, hosts: Collection[str]) -> str:
    """HOST:PORT at which local clients reach the server; hosts: the allowed Host headers, "*" for any."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:  # such as 0.0.0.0, which clients cannot connect to
        host = "::1" if ":" in host else "127.0.0.1"
    if not {host, access.ANY} & set(hosts):
        host = next(iter(hosts)).strip("[]")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket; raises UserError if the address is not available."""
    if not 0 <= port < 65536:
        raise UserError(f"--port is {port}; expected 0 (any free port) to 65535.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)  # without it, asyncio leaves Nagle's algorithm on
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(connection.BACKLOG)
    except OSError as error:
        raise UserError(f"Cannot listen on {host}:{port} ({error.strerror or error}): pass another --port.") from None
    return listener
