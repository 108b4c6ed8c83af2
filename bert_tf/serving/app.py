"""The routes of the server: TensorFlow Serving's REST interface, health, metrics, the page."""

import asyncio
import contextlib
import functools
import importlib.resources
import json
import time

import prometheus_client
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bert_tf.errors import reason_of
from bert_tf.serving import values
from bert_tf.serving.batcher import Batcher, Busy
from bert_tf.serving.served import VERSION

PAGE = {"page.css": "text/css", **dict.fromkeys(("page.js", "attention.js", "elements.js"), "text/javascript")}
MOST_TABLES = 8  # instances of a signature that answers tables, as that of attention does: megabytes each
MANY = 20_000  # values of an answer from which it is written beside the loop that serves the others
DEEP = "The request is nested too deeply."
GONE = 499  # what servers write down for a client that did not wait; nobody is told
BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)  # seconds
SECURITY = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class Server:
    """The models that are served, and what is counted of them."""

    def __init__(
        self, models, *, most_bytes=4 << 20, seconds=60.0, receive_seconds=30.0, most_waiting=256, most_instances=1024
    ):
        """models: list of Served. A body of more bytes is refused and one of more instances, which would let others
        wait; an answer that takes longer is given up, and so is a body that takes `receive_seconds` to come.
        """
        self.models = {model.name: model for model in models}
        self.most_bytes, self.seconds, self.most_instances = most_bytes, seconds, most_instances
        self.receive_seconds = receive_seconds
        self.registry = prometheus_client.CollectorRegistry()
        self._requests = self._counter("requests", "Requests that were answered, by code.", "model", "code")
        self._batches = self._counter("batches", "Batches that were computed.", "model")
        self._rows = self._counter("batch_rows", "Instances in all batches.", "model")
        self._seconds = prometheus_client.Histogram(
            "bert_tf_request_seconds", "Time of a request.", ["model"], buckets=BUCKETS, registry=self.registry
        )
        self.batchers = {name: self._batcher(name, most_waiting) for name in self.models}
        waiting = prometheus_client.Gauge("bert_tf_waiting", "Requests that wait.", ["model"], registry=self.registry)
        for name, batcher in self.batchers.items():
            waiting.labels(name).set_function(lambda batcher=batcher: batcher.waiting)
        self.is_ready = True

    def _counter(self, name, text, *labels):
        return prometheus_client.Counter(f"bert_tf_{name}", text, labels, registry=self.registry)

    def _batcher(self, name, most_waiting):
        def count(requests, rows):
            self._batches.labels(name).inc()
            self._rows.labels(name).inc(rows)

        return Batcher(most_waiting=most_waiting, on_batch=count)

    def app(self):
        """The application, for uvicorn or another ASGI server."""
        versions = "/v1/models/{name}/versions/{version}"
        routes = [Route(f"/{name}", functools.partial(self.page, name=name)) for name in ("", *PAGE)]
        routes += [
            Route("/v1/models", self.listed),
            Route("/healthz", self.live),
            Route("/readyz", self.ready),
            Route("/metrics", self.metrics),
            Route("/monitoring/prometheus/metrics", self.metrics),  # where TensorFlow Serving has them
        ]
        for path in ("/v1/models/{name}", versions):
            routes += [
                Route(f"{path}:predict", self.predict, methods=["POST"]),
                Route(f"{path}/metadata", self.metadata),
                Route(path, self.status),
            ]
        handlers = {HTTPException: _told, Exception: _broken}
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _):
        yield
        self.is_ready = False
        for batcher in self.batchers.values():
            await batcher.close()

    def model(self, request):
        """The model that the path names; 404 for another one, or another version than 1."""
        name, version = request.path_params["name"], request.path_params.get("version", VERSION)
        if request.url.path.endswith(":predict") and request.method != "POST":
            raise HTTPException(405, "predict is asked with POST.", {"allow": "POST"})
        if name not in self.models or version != VERSION:
            asked = f"{name} version {version}" if name in self.models else name
            raise HTTPException(
                404, f"Servable not found: {asked}. Known: {', '.join(self.models)}, version {VERSION}."
            )
        return self.models[name]

    async def page(self, _, name):
        """A file of the page."""
        file = importlib.resources.files("bert_tf.serving") / "page" / (name or "index.html")
        kind = PAGE.get(name, "text/html")
        return Response(file.read_text(encoding="utf-8"), media_type=kind, headers=SECURITY)

    async def listed(self, _):
        """Every model with its kind and labels, for the page."""
        return JSONResponse(
            {
                "models": [
                    {
                        "name": m.name,
                        "kind": m.kind,
                        "labels": m.labels,
                        "task": m.task,
                        "signatures": list(m.signatures),
                    }
                    for m in self.models.values()
                ]
            }
        )

    async def live(self, _):
        return JSONResponse({"status": "alive"})

    async def ready(self, _):
        return JSONResponse({"status": "ready" if self.is_ready else "stopping"}, 200 if self.is_ready else 503)

    async def metrics(self, _):
        text = prometheus_client.generate_latest(self.registry)
        return Response(text, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    async def status(self, request):
        self.model(request)
        good = {"error_code": "OK", "error_message": ""}
        return JSONResponse({"model_version_status": [{"version": VERSION, "state": "AVAILABLE", "status": good}]})

    async def metadata(self, request):
        return JSONResponse(self.model(request).metadata())

    async def predict(self, request):
        model, start = self.model(request), time.monotonic()
        code = 500
        try:
            response = await self._predicted(request, model)
            code = response.status_code
        except HTTPException as error:
            code = error.status_code
            raise
        finally:
            self._requests.labels(model.name, str(code)).inc()
            self._seconds.labels(model.name).observe(time.monotonic() - start)
        return response

    async def _predicted(self, request, model):
        body = _json(await self._body_in_time(request))
        asked = body.get("signature_name", "serving_default") if isinstance(body, dict) else "serving_default"
        if not isinstance(asked, str) or asked not in model.signatures:
            known = ", ".join(model.signatures)
            raise HTTPException(400, f"Serving signature name {asked!r} not found in signature def. Known: {known}.")
        signature = model.signatures[asked]
        count, most = values.count(body), MOST_TABLES if signature.has_tables else self.most_instances
        if count > most:
            raise HTTPException(413, f"There are {count:,} instances: send at most {most:,} of {asked} at once.")
        try:
            arrays, by_row = values.read(body, signature.inputs)
        except values.BadRequest as error:
            raise HTTPException(400, str(error)) from None
        except RecursionError:
            raise HTTPException(400, DEEP) from None
        return await self._answered(self.batchers[model.name], signature, arrays, by_row)

    async def _answered(self, batcher, signature, arrays, by_row):
        """The response with what the model says."""
        try:
            outputs = await asyncio.wait_for(batcher.answer(signature, arrays), self.seconds)
        except Busy as error:
            raise HTTPException(503, f"{error}: try again later.", {"retry-after": "1"}) from None
        except TimeoutError:
            raise HTTPException(504, f"There was no answer within {self.seconds:g} seconds.") from None
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise HTTPException(400, f"The model cannot answer this: {reason_of(error)}.") from None
        rows = len(next(iter(arrays.values())))
        for name, array in outputs.items():
            if by_row and array.shape[:1] != (rows,):
                raise HTTPException(400, f"The output {name} has not a row for each instance: send inputs.")
        if sum(array.size for array in outputs.values()) < MANY:
            return JSONResponse(values.written(outputs, by_row))
        return await asyncio.to_thread(lambda: JSONResponse(values.written(outputs, by_row)))

    async def _body_in_time(self, request):
        try:
            return await asyncio.wait_for(self._body(request), self.receive_seconds)
        except TimeoutError:
            told = f"The request did not come whole within {self.receive_seconds:g} seconds."
            raise HTTPException(408, told, {"connection": "close"}) from None

    async def _body(self, request):
        """The body; 413 as soon as it is known to be too large, and nothing is kept of it then."""
        too_large = HTTPException(413, f"The request is larger than {self.most_bytes:,} bytes: send it in parts.")
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > self.most_bytes:
            raise too_large
        parts, size = [], 0
        try:
            async for part in request.stream():
                size += len(part)
                if size > self.most_bytes:
                    raise too_large
                parts.append(part)
        except ClientDisconnect:
            raise HTTPException(GONE, "The client went away.") from None
        return b"".join(parts)


def _json(body):
    try:
        return json.loads(body)
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"The request is not UTF-8 (byte {error.start + 1}).") from None
    except ValueError as error:
        raise HTTPException(400, f"The request is no JSON: {error}.") from None
    except RecursionError:
        raise HTTPException(400, DEEP) from None


async def _told(_, error):
    said = error.detail.encode(errors="backslashreplace").decode()  # it may cite half a surrogate pair
    return JSONResponse({"error": said}, error.status_code, headers=error.headers)


async def _broken(_, error):
    return JSONResponse({"error": f"The server failed: {reason_of(error)}."}, 500)
