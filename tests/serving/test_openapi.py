"""The OpenAPI description, which is true of what the server takes and answers, and the results of runs."""

import json

import pytest
from starlette.testclient import TestClient

from bert_tf.serving import run_results
from bert_tf.serving.app import Server
from bert_tf.serving.served import Served

EXAMPLES = {"export": [{"inputs": {"text_a": "an example"}}, {"inputs": {"text_b": "of others"}}, 5]}
REQUESTS = {"single": {"text_a": "x"}, "choice": {"text_a": "x", "choices": ["a", "b"]}, "other": {"ids": 1}}


@pytest.fixture(scope="module")
def client(served, exports, tmp_path_factory):
    """A server of three exports; the first is that of a run."""
    run = tmp_path_factory.mktemp("run")
    (run / "export").symlink_to(exports["single"])
    contents = {
        "run.json": {"criterion": "accuracy", "finished": "2026-11-24T21:11:53+00:00"},
        "eval_results.json": {"accuracy": 0.9},
        "examples.json": EXAMPLES,
    }
    for name, content in contents.items():
        (run / name).write_text(json.dumps(content))
    server = Server([Served("single", str(run)), served["choice"], served["other"]], token="x")
    with TestClient(server.app(), headers={"authorization": "Bearer x"}) as client:
        yield client


TYPES = {"string": str, "integer": int, "number": float, "null": type(None), "array": list, "object": dict}


def conforms(value, schema):
    """Returns whether a value conforms to a schema with the keywords that the description uses."""
    kinds = schema.get("type", [*TYPES])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    checks = [any(isinstance(value, TYPES[kind]) for kind in kinds)]
    if isinstance(value, list):
        checks += [schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))]
        checks += [conforms(each, schema.get("items", {})) for each in value]
    if isinstance(value, dict):
        checks += [name in value for name in schema.get("required", ())]
        checks += [conforms(value[name], each) for name, each in schema.get("properties", {}).items() if name in value]
    checks += [value == schema["const"]] if "const" in schema else []
    checks += [sum(conforms(value, each) for each in schema["oneOf"]) == 1] if "oneOf" in schema else []
    return all(checks)


def test_description_has_its_parts_and_names_every_model(client):
    description = client.get("/openapi.json").json()
    assert description["openapi"] == "3.1.0" and set(description["info"]) == {"title", "version"}
    for operations in description["paths"].values():
        assert all(operation["summary"] and operation["responses"] for operation in operations.values())
    assert {f"/v1/models/{name}:predict" for name in REQUESTS} < set(description["paths"])
    assert description["security"] == [{"token": []}] and description["paths"]["/healthz"]["get"]["security"] == []
    body = description["paths"]["/v1/models/single:predict"]["post"]["requestBody"]
    assert body["content"]["application/json"]["example"] == {"instances": ["an example"]}


@pytest.mark.parametrize("name", REQUESTS)
def test_description_is_true_of_requests_and_answers(client, name):
    post = client.get("/openapi.json").json()["paths"][f"/v1/models/{name}:predict"]["post"]
    request, answer = (
        each["content"]["application/json"]["schema"] for each in (post["requestBody"], post["responses"]["200"])
    )
    row = REQUESTS[name]
    single = len(row) == 1
    instance = next(iter(row.values())) if single else row
    columns = [instance] if single else {key: [value] for key, value in row.items()}
    for body in ({"instances": [instance]}, {"inputs": columns, "signature_name": "serving_default"}):
        assert conforms(body, request)
        response = client.post(f"/v1/models/{name}:predict", json=body)
        assert response.status_code == 200
        assert conforms(response.json(), answer)
    nothing = [] if single else {key: [] for key in row}
    both, empty = {"instances": [instance], "inputs": columns}, ({"instances": []}, {"inputs": nothing})
    for wrong in ({}, both, {"instances": [[[]]]}, {"instances": instance}, *empty):
        assert client.post(f"/v1/models/{name}:predict", json=wrong).status_code == 400
        assert not conforms(wrong, request)


def test_models_have_score_date_and_examples_of_their_run(client):
    single, other = (client.get("/v1/models").json()["models"][number] for number in (0, 2))
    assert (single["score"], single["date"]) == ({"name": "accuracy", "value": 0.9}, "2026-11-24")
    assert single["examples"] == [{"text_a": "an example"}], "others do not fit"
    assert (other["score"], other["date"], other["examples"]) == (None, None, []), "it has no run"


@pytest.mark.parametrize(
    ("files", "inputs", "expected"),
    [
        ({"run.json": {}}, {"text": None}, (None, None, [])),
        ({"run.json": [], "examples.json": "{"}, {"text": None}, (None, None, [])),
        (
            {
                "run.json": {"finished": None, "name": "pretraining"},
                "eval_results.json": {"masked_lm_accuracy": 0.25},
                "examples.json": {"fill_mask": [{"text": "a [MASK]", "answers": []}, {"text": 1}]},
            },
            {"text": None},
            ({"name": "masked_lm_accuracy", "value": 0.25}, None, [{"text": "a [MASK]"}]),
        ),
        (
            {
                "run.json": {"name": "x"},
                "sweep.json": {"criterion": "f1"},
                "eval_results.json": {"f1": 1, "accuracy": None},
                "examples.json": {
                    "export": [{"inputs": {"a": "x", "b": ["1", "2"]}}, {"inputs": {"a": "x", "b": ["1"]}}]
                },
            },
            {"a": None, "b": 2},
            ({"name": "f1", "value": 1}, None, [{"a": "x", "b": ["1", "2"]}]),
        ),
    ],
    ids=["no flags", "damaged", "pre-training", "sweep"],
)
def test_results_of_runs_of_all_kinds_are_read(tmp_path, files, inputs, expected):
    for name, content in files.items():
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    results = run_results.read(str(tmp_path / "export"), inputs)
    assert (results["score"], results["date"], results["examples"]) == expected
