"""The routes of the server: TensorFlow Serving's REST interface, health, metrics, the page."""

import asyncio
import contextlib
import contextvars
import functools
import importlib.resources
import threading
import time
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

import prometheus_client
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from bert_tf.errors import UserError, reason_of
from bert_tf.serving import access, client_routes, openapi, values, versions
from bert_tf.serving.batcher import Batcher, Busy
from bert_tf.serving.body import closed, read_json, wait_for_disconnect
from bert_tf.serving.served import Arrays, Searchable, Served, Signature

PAGE = {
    "page.css": "text/css",
    **dict.fromkeys(
        ("page.js", "attention.js", "attribution.js", "elements.js", "requests.js", "docs.js"), "text/javascript"
    ),
}
HTML = {"": "index.html", "docs": "docs.html"}
MAX_LARGE_INSTANCES = 8  # per request to a signature with large outputs, such as attention, or a slow one
MAX_INLINE_VALUES = 20_000  # larger responses are serialized in a thread, not in the event loop
BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)  # seconds
SECURITY = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}


class Server:
    """The served models and their metrics."""

    def __init__(
        self,
        models: Iterable[Served | Searchable],
        *,
        most_bytes: int = 4 << 20,
        seconds: float = 60.0,
        receive_seconds: float = 30.0,
        most_waiting: int = 256,
        most_instances: int = 1024,
        most_tokens: int = 1 << 17,
        allowed_hosts: Collection[str] = (access.ANY,),
        allowed_origins: Collection[str] = (),
        token: str = "",
        log_format: str = "",
        watches: Mapping[str, versions.Watch[Served | Searchable]] = types.MappingProxyType({}),
    ) -> None:
        """Loads nothing and starts nothing.

        Args:
            models: the models.
            most_bytes: maximum size of a body.
            seconds: timeout of a prediction.
            receive_seconds: timeout for receiving a body.
            most_waiting: maximum number of queued requests per model.
            most_instances: maximum number of instances per request.
            most_tokens: maximum number of tokens per request, see `values.has_more_tokens`.
            allowed_hosts: allowed names in the Host header; "*" for any.
            allowed_origins: origins whose scripts may read responses (CORS), such as "https://example.org"; "*": any.
            token: required in requests, see `access.Gate`; "" for none.
            log_format: format of the access log on standard output, "text" or "json"; "" for none.
            watches: {model name: its Watch}; newer versions replace the model.
        """
        self.models = {model.name: model for model in models}
        self.most_bytes, self.seconds, self.most_instances = most_bytes, seconds, most_instances
        self.receive_seconds, self.most_tokens = receive_seconds, most_tokens
        self.allowed_hosts, self.allowed_origins = allowed_hosts, allowed_origins
        self.token, self.log_format, self._watches = token, log_format, watches
        self.registry = prometheus_client.CollectorRegistry()
        self._requests = self._counter("requests", "Requests by response code.", "model", "code")
        self._batches = self._counter("batches", "Computed batches.", "model")
        self._rows = self._counter("batch_rows", "Instances in all batches.", "model")
        self._seconds = prometheus_client.Histogram(
            "bert_tf_request_seconds", "Time of a request.", ["model"], buckets=BUCKETS, registry=self.registry
        )
        self.batchers = {name: self._batcher(name, most_waiting) for name in self.models}
        waiting = prometheus_client.Gauge("bert_tf_waiting", "Queued requests.", ["model"], registry=self.registry)
        for name, batcher in self.batchers.items():
            waiting.labels(name).set_function(functools.partial(getattr, batcher, "waiting"))
        self.is_ready = True

    def _counter(self, name: str, text: str, *labels: str) -> prometheus_client.Counter:
        return prometheus_client.Counter(f"bert_tf_{name}", text, labels, registry=self.registry)

    def _batcher(self, name: str, most_waiting: int) -> Batcher:
        def count(requests: int, rows: int) -> None:
            self._batches.labels(name).inc()
            self._rows.labels(name).inc(rows)

        return Batcher(most_waiting=most_waiting, on_batch=count)

    def app(self) -> ASGIApp:
        """The application, for uvicorn or another ASGI server."""
        files = [*HTML, *PAGE]
        routes = client_routes.routes(self)
        routes += [Route(f"/{name}", functools.partial(self.page, name=name)) for name in files]
        routes += [
            Route("/v1/models", self.list_models),
            Route("/openapi.json", self.openapi),
            Route("/healthz", self.live),
            Route("/readyz", self.ready),
            Route("/metrics", self.metrics),
            Route("/monitoring/prometheus/metrics", self.metrics),  # TensorFlow Serving's path
        ]
        for path in ("/v1/models/{name}", "/v1/models/{name}/versions/{version}"):
            routes += [
                Route(f"{path}:predict", functools.partial(self._counted, self._predict), methods=["POST"]),
                Route(f"{path}:search", functools.partial(self._counted, self._search), methods=["POST"]),
                Route(f"{path}/metadata", self.metadata),
                Route(path, self.status),
            ]
        handlers: dict[Any, Any] = {HTTPException: _client_error, Exception: _server_error}
        routed = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        routed.router.redirect_slashes = False  # a path with an extra slash is unknown
        app: ASGIApp = access.Gate(routed, self.allowed_hosts, self.token, [f"/{name}" for name in files])
        if self.allowed_origins:  # outside the gate: browser preflight requests have no token
            app = CORSMiddleware(app, self.allowed_origins, ("GET", "POST"), ("authorization", "content-type"))
        return access.Log(app, self.log_format) if self.log_format else app

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        stop = threading.Event()
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._watch, stop), daemon=True).start()
        yield
        stop.set()
        self.is_ready = False
        for batcher in self.batchers.values():
            await batcher.close()

    @property
    def is_loading(self) -> bool:
        """Returns whether a newer version of a model is being loaded, which cannot be interrupted."""
        return any(watch.is_loading for watch in self._watches.values())

    def _watch(self, stop: threading.Event) -> None:
        """Replaces models with their newer versions; in-flight requests finish on the old one."""
        while self._watches and not stop.wait(versions.SECONDS):
            for name, watch in self._watches.items():
                try:
                    model = watch.look()
                except versions.NotComplete as error:
                    print(f"{name}: {error}", flush=True)
                except UserError as error:
                    print(f"{name}: version {self.models[name].version} is still served. {error}", flush=True)
                else:
                    if model is not None and not stop.is_set():
                        self.models[name] = model
                        print(f"{name}: version {model.version} is now served.", flush=True)

    def model(self, request: Request) -> Served | Searchable:
        """The model in the path; raises 404 for an unknown model or version."""
        name, version = request.path_params["name"], request.path_params.get("version")
        verb = request.url.path.rpartition(":")[2]
        if verb in ("predict", "search") and request.method != "POST":
            raise HTTPException(405, f"{verb} requires POST.", {"allow": "POST"})
        if name not in self.models:
            raise HTTPException(404, f"Servable not found: {values.cite(name)}. Known: {', '.join(self.models)}.")
        model = self.models[name]
        if version not in (None, model.version):
            known = f"{name} version {values.cite(version)}. Known: version {model.version}"
            raise HTTPException(404, f"Servable not found: {known}.")
        return model

    async def page(self, _: Request, name: str) -> Response:
        """A file of the web page."""
        file = importlib.resources.files("bert_tf.serving") / "page" / HTML.get(name, name)
        kind = PAGE.get(name, "text/html")
        return Response(file.read_text(encoding="utf-8"), media_type=kind, headers=SECURITY)

    async def list_models(self, _: Request) -> JSONResponse:
        """Every model with its kind, labels and results, for the page, plus the list that OpenAI clients read."""
        named = [{"id": name, "object": "model", "created": 0, "owned_by": "bert_tf"} for name in self.models]
        return JSONResponse(
            {
                "object": "list",
                "data": named,
                "models": [
                    {
                        "name": m.name,
                        "version": m.version,
                        "kind": m.kind,
                        "form": m.form,
                        "inputs": m.input_names,
                        "labels": m.labels,
                        "task": m.task,
                        "signatures": list(m.signatures),
                        **m.results,
                    }
                    for m in self.models.values()
                ],
            }
        )

    async def openapi(self, _: Request) -> JSONResponse:
        """The OpenAPI description of this server."""
        return JSONResponse(openapi.describe(self.models.values(), has_token=bool(self.token)))

    async def live(self, _: Request) -> JSONResponse:
        """Liveness."""
        return JSONResponse({"status": "alive"})

    async def ready(self, _: Request) -> JSONResponse:
        """Readiness: 503 once the server is stopping."""
        return JSONResponse({"status": "ready" if self.is_ready else "stopping"}, 200 if self.is_ready else 503)

    async def metrics(self, _: Request) -> Response:
        """Prometheus metrics."""
        text = prometheus_client.generate_latest(self.registry)
        return Response(text, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    async def status(self, request: Request) -> JSONResponse:
        """TensorFlow Serving's GetModelStatusResponse."""
        model, good = self.model(request), {"error_code": "OK", "error_message": ""}
        return JSONResponse(
            {"model_version_status": [{"version": model.version, "state": "AVAILABLE", "status": good}]}
        )

    async def metadata(self, request: Request) -> JSONResponse:
        """TensorFlow Serving's GetModelMetadataResponse."""
        return JSONResponse(self.model(request).metadata())

    async def _counted(self, answer: Callable[[Request, Any], Awaitable[Response]], request: Request) -> Response:
        model = self.model(request)
        return await self.timed(model, answer(request, model))

    async def timed(self, model: Served | Searchable, answer: Awaitable[Response]) -> Response:
        """The response, counted in the metrics of a model."""
        start, code = time.monotonic(), 500
        try:
            response = await answer
            code = response.status_code
        except HTTPException as error:
            code = error.status_code
            raise
        finally:
            self._requests.labels(model.name, str(code)).inc()
            self._seconds.labels(model.name).observe(time.monotonic() - start)
        return response

    async def body(self, request: Request) -> Any:
        """The body of a request, from JSON."""
        return await read_json(request, self.most_bytes, self.receive_seconds)

    async def _predict(self, request: Request, model: Served | Searchable) -> Response:
        verbose = request.query_params.get("verbose", "0") or "1"  # bare ?verbose
        body = await self.body(request)
        name = body.get("signature_name", "serving_default") if isinstance(body, dict) else "serving_default"
        if not isinstance(name, str):
            raise HTTPException(400, "The signature_name is not a string.")
        if name not in model.signatures:
            known, name = ", ".join(model.signatures), values.cite(name)
            raise HTTPException(400, f"Serving signature name {name!r} not found in signature def. Known: {known}.")
        if verbose not in ("0", "1") or (verbose == "1" and name != "serving_default"):
            raise HTTPException(400, "verbose is 1 or 0, and 1 is for the signature serving_default only.")
        signature = model.signatures[name]
        count, most = values.count(body), MAX_LARGE_INSTANCES if signature.has_large_outputs else self.most_instances
        if count > most:
            raise HTTPException(413, f"There are {count:,} instances: send at most {most:,} of {name} at once.")
        try:
            arrays, by_row = values.read(body, signature.inputs)
        except values.BadRequest as error:
            raise HTTPException(400, str(error)) from None
        except RecursionError:
            raise HTTPException(400, "The request is nested too deeply.") from None
        outputs = await self.compute(request, model, signature, arrays)
        rows = len(next(iter(arrays.values())))
        for name, array in outputs.items():
            if by_row and array.shape[:1] != (rows,):
                raise HTTPException(400, f"The output {name} does not have one row per instance: send inputs.")

        def response() -> JSONResponse:
            if verbose == "1" and isinstance(model, Served):
                return JSONResponse({"predictions": values.plain(model.answers(outputs))})
            return JSONResponse(values.to_json(outputs, by_row))

        is_small = sum(array.size for array in outputs.values()) < MAX_INLINE_VALUES
        return response() if is_small else await asyncio.to_thread(response)

    async def _search(self, request: Request, model: Served | Searchable) -> Response:
        body = await self.body(request)
        if isinstance(model, Served):
            raise HTTPException(400, f"{model.name} is a model, which predicts; search needs an index.")
        return await model.answer(self, request, body)

    async def compute(
        self, request: Request, model: Served | Searchable, signature: Signature, arrays: Arrays
    ) -> Arrays:
        """The outputs of the model; stops on timeout, or if the client disconnects."""
        if await asyncio.to_thread(values.has_more_tokens, arrays, self.most_tokens):
            raise HTTPException(413, f"The texts have more than {self.most_tokens:,} tokens: send them in parts.")
        answer = asyncio.ensure_future(self.batchers[model.name].answer(signature, arrays, self.seconds))
        gone = asyncio.ensure_future(wait_for_disconnect(request))
        try:
            await asyncio.wait((answer, gone), timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if gone.done():
                raise closed()
            raise HTTPException(504, f"The model took longer than {self.seconds:g} seconds.")
        except Busy as error:
            raise HTTPException(503, f"{error}: try again later.", {"retry-after": "1"}) from None
        except (asyncio.CancelledError, HTTPException):
            raise
        except Exception as error:
            raise HTTPException(400, f"The model cannot compute this: {reason_of(error)}.") from None
        finally:
            answer.cancel()
            gone.cancel()


async def _client_error(_: Request, error: HTTPException) -> JSONResponse:
    return JSONResponse({"error": error.detail[: client_routes.MAX_MESSAGE]}, error.status_code, headers=error.headers)


async def _server_error(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": f"The server failed: {reason_of(error)}."}, 500)
