"""The route :search, on an index whose vectors are letters."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from bert_tf.extras.search.index import Hit
from bert_tf.extras.search.served_index import ServedIndex
from bert_tf.serving.app import Server

TEXTS = ["a", "b", "ab"]


class Letters:
    """An index that finds the texts with a letter of the query first."""

    about = {"count": len(TEXTS)}

    def __len__(self):
        return len(TEXTS)

    def search_all(self, queries, count):
        rows = []
        for query in queries:
            scores = np.array([len(set(query) & set(text)) for text in TEXTS], np.float32)
            order = np.argsort(-scores, kind="stable")[:count]
            rows.append(self.hits(order, scores[order]))
        return rows

    def search(self, query):
        return self.search_all([query], 1)[0]

    def hits(self, numbers, scores):
        pairs = zip(numbers.tolist(), scores.tolist(), strict=True)
        return [Hit(number, str(number), TEXTS[number], score) for number, score in pairs if number >= 0]


@pytest.fixture(scope="module")
def client():
    with TestClient(Server([ServedIndex("letters", Letters())]).app()) as client:
        yield client


def test_queries_are_answered_with_texts(client):
    response = client.post("/v1/models/letters:search", json={"query": "ab", "count": 2})
    assert response.json() == {
        "results": [[{"id": "2", "score": 2.0, "text": "ab"}, {"id": "0", "score": 1.0, "text": "a"}]]
    }
    found = client.post("/v1/models/letters:search", json={"queries": ["b", "a"]}).json()["results"]
    assert [hits[0]["text"] for hits in found] == ["b", "a"]


@pytest.mark.parametrize(("count", "found"), [(1, 1), (100, 3)])
def test_smallest_and_largest_count_are_answered(client, count, found):
    (hits,) = client.post("/v1/models/letters:search", json={"query": "ab", "count": count}).json()["results"]
    assert len(hits) == found


def test_description_allows_no_blank_and_no_missing_query(client):
    post = client.get("/openapi.json").json()["paths"]["/v1/models/letters:search"]["post"]
    one, several = post["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
    assert one["properties"]["query"] == {"type": "string", "pattern": r"\S"}
    assert several["properties"]["queries"] == {"type": "array", "items": one["properties"]["query"], "minItems": 1}


@pytest.mark.parametrize(
    "body",
    [{}, [], {"query": " "}, {"query": 3}, {"queries": []}, {"query": "a", "queries": ["a"]}]
    + [{"query": "a", "count": count} for count in (0, 101, "3", True, 1.5)],
)
def test_bad_requests_are_refused_in_a_sentence(client, body):
    response = client.post("/v1/models/letters:search", json=body)
    assert response.status_code == 400
    assert response.json()["error"].endswith(".")


def test_index_is_described(client):
    (model,) = client.get("/v1/models").json()["models"]
    assert (model["kind"], model["texts"]) == ("search", 3)
    assert list(client.get("/openapi.json").json()["paths"]).count("/v1/models/letters:search") == 1
    assert client.get("/v1/models/letters/metadata").json()["metadata"]["index"] == {"count": 3}
    assert client.get("/v1/models/letters:search").status_code == 405
    assert client.post("/v1/models/letters:predict", json={"instances": ["a"]}).status_code == 400
