"""Routes for clients of other servers.

Embeddings as in OpenAI's API, embeddings and reranking as in text-embeddings-inference (Hugging Face), reranking as in
Jina's and Cohere's APIs. B texts per request, E dimensions.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bert_tf.export.reranking import positive
from bert_tf.heads.vectors import Vectors
from bert_tf.heads.vectors.sentence_choice import SEARCH_PROMPTS
from bert_tf.serving import values
from bert_tf.serving.served import Arrays, Served, Signature

SMALLEST = 1e-12  # minimum length to divide a vector by
MAX_MESSAGE = 1000  # characters of an error message
UNIT = 1e-3  # tolerance for vectors of length 1
EMBED, RERANK, OPENAI = ("/", "/embed"), ("/rerank", "/v1/rerank"), "/v1/embeddings"
Body = Mapping[str, Any]


class Computing(Protocol):
    """The server's interface for these routes."""

    models: dict[str, Any]
    most_instances: int

    async def body(self, request: Request) -> Any:
        """The body of a request, from JSON."""

    async def compute(self, request: Request, model: Any, signature: Signature, arrays: Arrays) -> Arrays:
        """The outputs of a signature, batched with other requests."""

    async def timed(self, model: Any, answer: Awaitable[Response]) -> Response:
        """The response, counted in the metrics of a model."""


def routes(server: Computing) -> list[Route]:
    """The routes for embedding models and cross-encoders; requests for any other model are refused."""
    of_clients = ClientRoutes(server)
    found = [Route(OPENAI, of_clients.openai_embeddings, methods=["POST"])]
    found += [Route(path, of_clients.embed, methods=["POST"]) for path in EMBED]
    return [*found, *(Route(path, of_clients.rerank, methods=["POST"]) for path in RERANK)]


class ClientRoutes:
    """The handlers of the routes."""

    def __init__(self, server: Computing) -> None:
        self._server = server

    async def openai_embeddings(self, request: Request) -> Response:
        """{"input": text or texts, "model", "dimensions", "encoding_format"} -> OpenAI's list of embeddings.

        Errors are in OpenAI's format too.
        """
        try:
            body = await self._body(request)
            model = self._chosen(body.get("model"), "vectors")
            texts = self._texts(body, "input")
            encoding = body.get("encoding_format") or "float"
            if encoding not in ("float", "base64"):
                raise HTTPException(400, "The encoding_format is neither float nor base64.")
            return await self._server.timed(model, self._openai(request, model, body, texts, encoding))
        except HTTPException as error:
            kind = "invalid_request_error" if error.status_code < 500 else "server_error"
            details = {"message": error.detail[:MAX_MESSAGE], "type": kind, "param": None, "code": None}
            return JSONResponse({"error": details}, error.status_code, headers=error.headers)

    async def _openai(
        self, request: Request, model: Served, body: Body, texts: list[str], encoding: str
    ) -> JSONResponse:
        vectors = await self._vectors(request, model, body, texts, normalize=None)
        tokens = await asyncio.to_thread(lambda: sum(len(values.TOKEN.findall(text)) for text in texts))

        def answer() -> JSONResponse:
            shown = vectors.tolist()
            if encoding == "base64":
                shown = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in vectors]
            data = [{"object": "embedding", "index": number, "embedding": each} for number, each in enumerate(shown)]
            usage = {"prompt_tokens": tokens, "total_tokens": tokens}
            return JSONResponse({"object": "list", "data": data, "model": model.name, "usage": usage})

        return await asyncio.to_thread(answer)

    async def embed(self, request: Request) -> Response:
        """{"inputs": text or texts, "normalize", "prompt_name", "dimensions", "truncate"} -> the embeddings."""
        body = await self._body(request)
        model = self._chosen(body.get("model"), "vectors")
        texts = self._texts(body, "inputs")
        normalize = body.get("normalize", True)
        if not isinstance(normalize, bool):
            raise HTTPException(400, "normalize is neither true nor false.")

        async def answer() -> Response:
            await self._check_whole(model, body, [[text] for text in texts], _prompt_of(model, body))
            vectors = await self._vectors(request, model, body, texts, normalize=normalize)
            return await asyncio.to_thread(lambda: JSONResponse(vectors.tolist()))

        return await self._server.timed(model, answer())

    async def rerank(self, request: Request) -> Response:
        """{"query", "texts", "raw_scores", "return_text", "truncate"} -> [{"index", "score", "text"}], best first.

        With "documents" instead of "texts", "top_n" and "return_documents", it responds like Jina and Cohere.
        """
        body = await self._body(request)
        model = self._chosen(body.get("model"), "pairs")
        query, is_of_texts = body.get("query"), "texts" in body
        if not isinstance(query, str):
            raise HTTPException(400, "The query is not a text." if "query" in body else "The request has no query.")
        texts = self._texts(body, "texts" if is_of_texts else "documents", takes_one=False)
        most = body.get("top_n")
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise HTTPException(400, "top_n is not a whole number from 1.")
        flags = {name: body.get(name) or False for name in ("raw_scores", "return_text", "return_documents")}

        async def answer() -> Response:
            await self._check_whole(model, body, [[query, text] for text in texts])
            arrays = {"text_a": _encoded([query] * len(texts)), "text_b": _encoded(texts)}
            outputs = await self._server.compute(request, model, model.signatures["serving_default"], arrays)
            scores = _scores(model, outputs, is_raw=bool(flags["raw_scores"]))
            order = np.argsort(-scores, kind="stable").tolist()[:most]
            if is_of_texts:
                more = {number: {"text": texts[number]} if flags["return_text"] else {} for number in order}
                return JSONResponse([{"index": i, "score": float(scores[i]), **more[i]} for i in order])
            documents = {i: {"document": {"text": texts[i]}} if flags["return_documents"] else {} for i in order}
            results = [{"index": i, "relevance_score": float(scores[i]), **documents[i]} for i in order]
            return JSONResponse({"model": model.name, "results": results})

        return await self._server.timed(model, answer())

    async def _body(self, request: Request) -> Body:
        body = await self._server.body(request)
        if not isinstance(body, dict):
            raise HTTPException(400, "The request is not a JSON object.")
        return body

    def _chosen(self, name: Any, what: str) -> Served:
        """The named model, or the only one that returns embeddings or takes pairs."""
        fits, lacks = {
            "vectors": (is_of_vectors, "makes no embeddings"),
            "pairs": (is_of_pairs, "takes no pairs"),
        }[what]
        known = {name: model for name, model in self._server.models.items() if fits(model)}
        if not known:
            raise HTTPException(404, f"No model of {what} is served.")
        if name is None and len(known) == 1:
            return next(iter(known.values()))
        if isinstance(name, str) and name in known:
            return known[name]
        rest = f"send one of {', '.join(known)} as model."
        if name is None:
            raise HTTPException(404, f"No model is named: {rest}")
        if isinstance(name, str) and name in self._server.models:
            raise HTTPException(400, f"{name} {lacks}: {rest}")
        raise HTTPException(404, f"There is no model {values.cite(str(name))}: {rest}")

    def _texts(self, body: Body, name: str, *, takes_one: bool = True) -> list[str]:
        """The texts in a field. takes_one: whether it may be a single text instead of a list."""
        expected = "a text or a list of texts" if takes_one else "a list of texts"
        if name not in body:
            raise HTTPException(400, f"The request has no {name}; expected {expected}.")
        given = body[name]
        texts = [given] if takes_one and isinstance(given, str) else given
        if not isinstance(texts, list) or not texts:
            raise HTTPException(400, f"{name} is {values.kind_of(given)}; expected {expected}.")
        if not takes_one:
            texts = [each.get("text") if isinstance(each, dict) else each for each in texts]
        others = [text for text in texts if not isinstance(text, str)][:1]
        if others:
            message = f"{name} has {values.kind_of(others[0])}; expected {expected}"
            raise HTTPException(400, f"{message}: token ids are not supported because models differ.")
        if len(texts) > self._server.most_instances:
            most = self._server.most_instances
            raise HTTPException(413, f"There are {len(texts):,} texts: send at most {most:,} at once.")
        return texts

    async def _check_whole(
        self, model: Served, body: Body, examples: list[list[str]], prompt: str | None = None
    ) -> None:
        """Raises HTTPException if the client forbids truncation and the model would truncate a text."""
        truncate, side = body.get("truncate"), body.get("truncation_direction")
        if truncate is not None and not isinstance(truncate, bool):
            raise HTTPException(400, "truncate is neither true nor false.")
        if side is not None and (not isinstance(side, str) or side.lower() not in ("left", "right")):
            raise HTTPException(400, "truncation_direction is neither Left nor Right.")
        if truncate is not False and (side or "Right").lower() == "right":
            return
        cuts = await asyncio.to_thread(model.cuts, prompt)
        if cuts is None:
            message = f"The maximum length of {model.name} is unknown: remove truncate and truncation_direction."
            raise HTTPException(400, message)
        long = await asyncio.to_thread(lambda: [number for number, each in enumerate(examples) if cuts(each)][:1])
        if long and truncate is False:
            raise HTTPException(413, f"Text {long[0]} has more tokens than {model.name} reads: send it in parts.")
        if long:
            message = f"{model.name} reads the first tokens of text {long[0]}, not the last: send it in parts."
            raise HTTPException(400, message)

    async def _vectors(
        self, request: Request, model: Served, body: Body, texts: list[str], *, normalize: bool | None
    ) -> np.ndarray:
        """Float32 [B, E]. normalize: to length 1; None: only if they have it before truncation to `dimensions`."""
        signature = model.signatures[_prompt_of(model, body) or "serving_default"]
        outputs = await self._server.compute(request, model, signature, {"text": _encoded(texts)})
        vectors = outputs["vectors"].reshape(len(texts), -1).astype(np.float32)
        lengths = np.linalg.norm(vectors, axis=1)
        normalize = bool((np.abs(lengths - 1) < UNIT).all()) if normalize is None else normalize
        count = body.get("dimensions")
        if count is not None:
            if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= vectors.shape[1]:
                raise HTTPException(400, f"The dimensions are not a whole number from 1 to {vectors.shape[1]}.")
            vectors = vectors[:, :count]
        if normalize:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), SMALLEST)
        return vectors


def is_of_vectors(model: Any) -> bool:
    """Returns whether a served model produces text embeddings."""
    return isinstance(model, Served) and model.kind == Vectors.kind and model.input_names == ["text"]


def is_of_pairs(model: Any) -> bool:
    """Returns whether a served model scores how well a text answers a query, by a number or by a class for matches."""
    if not isinstance(model, Served) or set(model.input_names) != {"text_a", "text_b"}:
        return False
    return positive(model.labels) is not None or "values" in model.signatures["serving_default"].outputs


def _prompt_of(model: Served, body: Body) -> str | None:
    """The prompt named by the client, which is a signature of the model."""
    prompt, known = body.get("prompt_name"), [name for name in SEARCH_PROMPTS if name in model.signatures]
    if prompt is None or prompt in known:
        return prompt
    names = ", ".join(known) or "none"
    raise HTTPException(400, f"There is no prompt_name {values.cite(str(prompt))}. Known: {names}.")


def _scores(model: Served, outputs: Arrays, *, is_raw: bool) -> np.ndarray:
    """A score for each pair, float64 [B]: a probability, or with is_raw its logit."""
    number = positive(model.labels)
    if number is not None:
        return outputs["logits" if is_raw else "probabilities"][:, number].astype(np.float64)
    logits = outputs.get("logits", outputs["values"]).astype(np.float64)
    return logits if is_raw else 1 / (1 + np.exp(np.clip(-logits, -700, 700)))


def _encoded(texts: list[str]) -> np.ndarray:
    return np.array([text.encode() for text in texts], object)


def describe(models: list[Any], post: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The OpenAPI paths of these routes; {} if no model supports them.

    post: see `openapi`.
    """
    text: dict[str, Any] = {"type": "string"}
    texts = {"anyOf": [text, {"type": "array", "items": text, "minItems": 1}]}
    whole, flag = {"type": "integer", "minimum": 1}, {"type": "boolean"}
    vector = {"type": "array", "items": {"type": "number"}}
    cutting = {"truncate": flag, "truncation_direction": {"type": "string", "enum": ["Left", "Right"]}}
    paths: dict[str, Any] = {}

    def add(path: str, summary: str, properties: dict[str, Any], required: list[str], answer: dict[str, Any]) -> None:
        body = {"type": "object", "properties": {"model": text, **properties}, "required": required}
        paths[path] = {"post": post("Clients", summary, {"schema": body}, "The answer.", {"schema": answer})}

    if any(map(is_of_vectors, models)):
        more = {"dimensions": whole, "prompt_name": text}
        data = {"type": "array", "items": {"type": "object", "properties": {"index": {"type": "integer"}}}}
        openai = {"input": texts, "encoding_format": {"type": "string", "enum": ["float", "base64"]}, **more}
        answer = {"type": "object", "properties": {"data": data}, "required": ["data"]}
        add(OPENAI, "Embeddings, in OpenAI's format.", openai, ["input"], answer)
        inputs = {"inputs": texts, "normalize": flag, **cutting, **more}
        add(
            EMBED[1],
            "Embeddings, in the format of text-embeddings-inference.",
            inputs,
            ["inputs"],
            {"type": "array", "items": vector},
        )
    if any(map(is_of_pairs, models)):
        several = {"type": "array", "items": text, "minItems": 1}
        pair = {"query": text, "texts": several, "raw_scores": flag, "return_text": flag, **cutting}
        found = {"type": "object", "properties": {"index": {"type": "integer"}, "score": {"type": "number"}}}
        summary = "Texts ranked by relevance to a query, in the format of text-embeddings-inference."
        add(RERANK[0], summary, pair, ["query", "texts"], {"type": "array", "items": found})
    return paths
