"""The OpenAPI 3.1 description of a server: its routes and the inputs and outputs of its models."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import bert_tf
from bert_tf.serving import client_routes
from bert_tf.serving.served import Searchable, Served, Signature, Spec

Schema = dict[str, Any]

ERRORS = {
    "400": "The request is invalid, or its Host header is not allowed.",
    "401": "The token is missing or wrong.",
    "408": "The body took too long.",
    "413": "The body is too large, or has too many instances or tokens.",
    "503": "Too many requests are waiting.",
    "504": "The model took too long.",
}
VERBOSE = {
    "name": "verbose",
    "in": "query",
    "description": "With 1, predictions as written by bert-tf predict: a probability for each label name.",
    "schema": {"type": "integer", "enum": [0, 1], "default": 0},
}
VERBOSE_ANSWER = {
    "type": "object",
    "properties": {"predictions": {"type": "array", "items": {"type": "object"}}},
    "required": ["predictions"],
}
OPEN = {
    "/healthz": "Whether the server is alive.",
    "/readyz": "Whether the server accepts requests; 503 during shutdown.",
}
PROTECTED = {"/v1/models": "Names, kinds, labels and results of the models.", "/metrics": "Metrics for Prometheus."}


def describe(models: Iterable[Served | Searchable], *, has_token: bool) -> dict[str, Any]:
    """The description as plain data; has_token: whether requests need a token."""
    paths: dict[str, Any] = {path: _get(text, "Server", needs_token=False) for path, text in OPEN.items()}
    paths |= {path: _get(text, "Server") for path, text in PROTECTED.items()}
    models = list(models)
    paths |= client_routes.describe(models, _post)
    for model in models:
        path = f"/v1/models/{model.name}"
        paths[path] = _get("TensorFlow Serving's GetModelStatusResponse.", model.name)
        paths[f"{path}/metadata"] = _get("TensorFlow Serving's GetModelMetadataResponse.", model.name)
        if isinstance(model, Served):
            paths[f"{path}:predict"] = {"post": _predict(model)}
        else:
            paths[f"{path}:search"] = {"post": model.describe(_post)}
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    components: Schema = {"schemas": {"Error": error}}
    security: Schema = {}
    if has_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        security = {"security": [{"token": []}]}
    info = {"title": "bert_tf", "version": bert_tf.__version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components, **security}


def _get(text: str, tag: str, *, needs_token: bool = True) -> Schema:
    operation = {"summary": text, "tags": [tag], "responses": {"200": {"description": text}}}
    return {"get": operation if needs_token else {**operation, "security": []}}


def _predict(model: Served) -> Schema:
    bodies = [_body(name, signature) for name, signature in model.signatures.items()]
    body: Schema = {"schema": bodies[0] if len(bodies) == 1 else {"anyOf": bodies}}
    if example := next(iter(model.results["examples"]), _invented(model.signatures["serving_default"].inputs)):
        body["example"] = {"instances": [example if len(example) > 1 else next(iter(example.values()))]}
    answer = {"schema": {"anyOf": [*map(_answer, model.signatures.values()), VERBOSE_ANSWER]}}
    summary = f"Predicts with {model.name} ({model.kind})."
    return _post(model.name, summary, body, "The outputs of the model.", answer) | {"parameters": [VERBOSE]}


def _invented(inputs: Mapping[str, Spec]) -> Mapping[str, Any]:
    """Sample texts for a model without examples; {} if its inputs are not texts."""
    if any(kind != "string" or not shape or len(shape) > 2 for kind, shape in inputs.values()):
        return {}
    sizes = {name: shape[1:] for name, (_, shape) in inputs.items() if shape}
    return {name: ["A text."] * (size[0] or 1) if size else "A text." for name, size in sizes.items()}


def _post(name: str, summary: str, body: Schema, answered: str, answer: Schema) -> Schema:
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "summary": summary,
        "tags": [name],
        "requestBody": {"required": True, "content": {"application/json": body}},
        "responses": {
            "200": {"description": answered, "content": {"application/json": answer}},
            **{code: {"description": text, "content": refusal} for code, text in ERRORS.items()},
        },
    }


def _body(name: str, signature: Signature) -> Schema:
    """The schema of a request to a signature: by row in `instances`, or by column in `inputs`."""
    forms = []
    by_row, by_column = _rows_and_columns(signature.inputs)
    columns = by_column["properties"].values() if "properties" in by_column else [by_column]
    for schema in (by_row, *columns):
        if schema.get("type") == "array":
            schema.setdefault("minItems", 1)
    for key, schema in (("instances", by_row), ("inputs", by_column)):
        forms.append({"type": "object", "properties": {key: schema}, "required": [key]})
    is_default = name == "serving_default"
    return {
        "type": "object",
        "properties": {"signature_name": {"const": name, **({"default": name} if is_default else {})}},
        "required": [] if is_default else ["signature_name"],
        "oneOf": forms,
    }


def _answer(signature: Signature) -> Schema:
    by_row, by_column = _rows_and_columns(signature.outputs)
    return {"type": "object", "properties": {"predictions": by_row, "outputs": by_column}}


def _rows_and_columns(specs: Mapping[str, Spec]) -> tuple[Schema, Schema]:
    """The schemas of tensors by row, and by column; the name of a single tensor is omitted."""
    columns = {name: _tensor(spec) for name, spec in specs.items()}
    rows = {name: column.get("items", {}) for name, column in columns.items()}
    if len(specs) == 1:
        return {"type": "array", "items": next(iter(rows.values()))}, next(iter(columns.values()))
    of_rows = {"type": "object", "properties": rows, "required": list(rows)}
    of_columns = {"type": "object", "properties": columns, "required": list(columns)}
    return {"type": "array", "items": of_rows}, of_columns


def _tensor(spec: Spec) -> Schema:
    """The schema of a tensor as nested arrays; {} (anything) if its rank is unknown."""
    kind, shape = spec
    if shape is None:
        return {}
    schema: Schema = {"type": _type(kind)}
    for size in reversed(shape):
        fixed = {} if size is None else {"minItems": size, "maxItems": size}
        schema = {"type": "array", "items": schema, **fixed}
    return schema


def _type(kind: Any) -> str | list[str]:
    if kind == "string":
        return "string"
    return {"b": "boolean", "i": "integer", "u": "integer"}.get(np.dtype(kind).kind, ["number", "null"])  # null: NaN
