"""Routes that clients of OpenAI, text-embeddings-inference, Jina and Cohere use, over plain HTTP.

The packages of these clients were tried by hand: openai 3.57, langchain-openai 1.7, huggingface_hub.
"""

import base64
import copy

import numpy as np
import pytest
from starlette.testclient import TestClient

from bert_tf.serving.app import Server

TEXTS = ["abc", "a longer text"]
VECTORS = np.array([[3, 10, 3, 10], [13, 10, 13, 10]], np.float32)  # of `quick_exports.vectors`
UNITS = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def client(served):
    pairs = copy.copy(served["pair"])
    pairs.labels = ["0", "1"]
    with TestClient(Server([served["vectors"], pairs, served["single"]], most_instances=3).app()) as client:
        yield client


@pytest.fixture(scope="module")
def other(served):
    with TestClient(Server([served["single"]]).app()) as client:
        yield client


def post(client, path, **body):
    response = client.post(path, json=body)
    return response.status_code, response.json()


def test_openai_embeddings(client):
    code, answer = post(client, "/v1/embeddings", model="vectors", input=TEXTS)
    assert (code, answer["object"], answer["model"]) == (200, "list", "vectors")
    assert [each["index"] for each in answer["data"]] == [0, 1]
    np.testing.assert_array_equal([each["embedding"] for each in answer["data"]], VECTORS)
    assert answer["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    _, answer = post(client, "/v1/embeddings", input=TEXTS[0], encoding_format="base64", dimensions=2)
    vector = np.frombuffer(base64.b64decode(answer["data"][0]["embedding"]), "<f4")
    np.testing.assert_array_equal(vector, VECTORS[0, :2])  # not of length 1, as the model's are not
    assert {each["id"] for each in client.get("/v1/models").json()["data"]} == {"vectors", "pair", "single"}


def test_embeddings_of_text_embeddings_inference(client):
    for path in ("/", "/embed"):
        code, answer = post(client, path, inputs=TEXTS)
        assert code == 200
        np.testing.assert_allclose(answer, UNITS, rtol=1e-6)
    _, answer = post(client, "/embed", inputs=TEXTS[1], normalize=False, dimensions=1)
    assert answer == [[13.0]]
    _, answer = post(client, "/embed", inputs=TEXTS, dimensions=2)  # of length 1 again
    np.testing.assert_allclose(np.linalg.norm(answer, axis=1), 1, rtol=1e-6)
    assert client.get("/").headers["content-type"].startswith("text/html"), "the page"


def test_texts_are_ranked(client):
    texts = ["x", "xyz", "xy"]
    code, found = post(client, "/rerank", query="abc", texts=texts, return_text=True)
    assert (code, [each["index"] for each in found]) == (200, [0, 2, 1])
    assert found[0] == {"index": 0, "score": pytest.approx(4 / 6), "text": "x"}
    _, found = post(client, "/rerank", query="abc", texts=texts, raw_scores=True)
    assert found[1] == {"index": 1, "score": 4.0}
    asked = {"query": "abc", "documents": ["x", {"text": "xyz"}], "top_n": 1, "return_documents": True}
    _, answer = post(client, "/v1/rerank", **asked)
    expected = {"index": 0, "relevance_score": pytest.approx(4 / 6), "document": {"text": "x"}}
    assert answer == {"model": "pair", "results": [expected]}


def test_client_may_forbid_to_cut_its_texts(served):
    models = [copy.copy(served[name]) for name in ("vectors", "pair")]
    models[1].labels = ["0", "1"]
    for model in models:
        model.cuts = lambda prompt: lambda texts: len("".join(texts)) > 5
    long, cases = "a longer text", []
    with TestClient(Server(models).app()) as client:
        for path, body in (("/embed", {"inputs": ["abc", "x"]}), ("/rerank", {"query": "a", "texts": ["abc", "x"]})):
            name = "inputs" if "inputs" in body else "texts"
            for more in ({"truncate": False}, {"truncation_direction": "Left"}, {"truncate": True}, {"truncate": None}):
                assert post(client, path, **body, **more) == post(client, path, **body)
                cases.append(post(client, path, **{**body, name: ["x", long]}, **more))
    for cut, left, *rest in (cases[:4], cases[4:]):
        assert cut[0] == 413 and "Text 1 has more tokens than" in cut[1]["error"]
        assert left[0] == 400 and "reads the first tokens of text 1, not the last" in left[1]["error"]
        assert [code for code, _ in rest] == [200, 200]


@pytest.mark.parametrize(
    ("path", "body", "code", "message"),
    [
        ("/v1/embeddings", {"input": [[1, 2]]}, 400, "token ids are not supported"),
        ("/v1/embeddings", {"input": [], "model": "vectors"}, 400, "input is an empty list; expected a text or a list"),
        ("/v1/embeddings", {"model": "vectors"}, 400, "The request has no input"),
        ("/v1/embeddings", {"input": None}, 400, "input is null"),
        ("/v1/embeddings", {"input": "a", "model": "single"}, 400, "single makes no embeddings: send one of vectors"),
        ("/v1/embeddings", {"input": "a", "model": "other"}, 404, "no model other: send one of vectors"),
        ("/v1/embeddings", {"input": "a", "encoding_format": "int8"}, 400, "neither float nor base64"),
        ("/v1/embeddings", {"input": "a", "dimensions": 5}, 400, "whole number from 1 to 4"),
        ("/embed", {"inputs": ["a"] * 4}, 413, "There are 4 texts: send at most 3"),
        ("/embed", {"inputs": "a", "prompt_name": "query"}, 400, "no prompt_name query. Known: none"),
        ("/embed", {"inputs": "a", "normalize": 1}, 400, "neither true nor false"),
        ("/embed", {"inputs": "a", "prompt_name": "serving_default"}, 400, "no prompt_name serving_default"),
        ("/embed", {"inputs": "a", "truncate": 1}, 400, "truncate is neither true nor false"),
        ("/embed", {"inputs": "a", "truncation_direction": "up"}, 400, "neither Left nor Right"),
        (
            "/embed",
            {"inputs": "a", "truncate": False},
            400,
            "The maximum length of vectors is unknown",
        ),
        ("/rerank", {"texts": ["a"]}, 400, "The request has no query"),
        ("/rerank", {"texts": ["a"], "query": 1}, 400, "The query is not a text"),
        ("/rerank", {"query": "a", "texts": []}, 400, "texts is an empty list"),
        ("/rerank", {"query": "a"}, 400, "The request has no documents"),
        ("/rerank", {"query": "a", "documents": "a"}, 400, "documents is a string; expected a list of texts."),
        ("/rerank", {"query": "a", "documents": [{"txt": "a"}]}, 400, "documents has null"),
        (
            "/rerank",
            {"query": "a", "texts": ["a"], "model": "vectors"},
            400,
            "vectors takes no pairs: send one",
        ),
        ("/rerank", {"query": "a", "documents": ["a"], "top_n": 0}, 400, "top_n is not a whole number"),
    ],
)
def test_what_is_refused(client, path, body, code, message):
    answered, answer = post(client, path, **body)
    error = answer["error"]["message"] if path.startswith("/v1/e") else answer["error"]
    assert answered == code and message in error


@pytest.mark.parametrize(
    "content",
    [
        rb'{"input": "a \ud800", "inputs": "a", "query": "a", "texts": ["a"], "instances": ["a"]}',
        rb'{"input": "a", "inputs": ["a \uDFff"], "query": "a", "texts": ["a \ud83d"], "instances": ["\ud800"]}',
        rb'{"model": "\ud800", "input": "a", "inputs": "a", "query": "a", "texts": ["a"], "instances": ["a"]}',
        rb'{"prompt_name": "\ud800", "input": "a", "inputs": "a", "query": "a", "texts": ["a"], "instances": ["a"]}',
        rb'{"\ud800": 1, "input": "a", "inputs": "a", "query": "a", "texts": ["a"], "instances": ["a"]}',
    ],
    ids=["text", "texts", "model", "prompt_name", "name of a field"],
)
def test_half_a_surrogate_pair_is_refused_on_every_route(client, content):
    for path in ("/", "/embed", "/v1/embeddings", "/rerank", "/v1/rerank", "/v1/models/pair:predict"):
        response = client.post(path, content=content)
        assert response.status_code == 400 and "half a surrogate pair" in response.text, path
    whole = rb'{"inputs": "\ud83d\ude00 \\ud800"}'
    assert client.post("/embed", content=whole).json() == post(client, "/embed", inputs="\U0001f600 \\ud800")[1]
    bare = b'{"inputs": "\xed\xa0\x80", "input": "a"}'
    assert (
        client.post("/v1/embeddings", content=bare).json()["error"]["message"] == "The request is not UTF-8 (byte 13)."
    )


def test_models_of_other_kinds_have_no_such_routes(client, other):
    assert post(other, "/embed", inputs="a") == (404, {"error": "No model of vectors is served."})
    assert not {"/embed", "/rerank"} & set(other.get("/openapi.json").json()["paths"])
    assert {"/v1/embeddings", "/embed", "/rerank"} <= set(client.get("/openapi.json").json()["paths"])
    assert client.get("/rerank").status_code == 405
    assert 'bert_tf_requests_total{code="200",model="vectors"}' in client.get("/metrics").text
