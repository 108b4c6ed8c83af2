"""The server: TensorFlow Serving's routes, one batch for many, limits, and clients that do what they must not."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import numpy as np
import pytest
import quick_exports
from starlette.testclient import TestClient

from bert_tf.commands import main, serve
from bert_tf.errors import UserError
from bert_tf.serving.app import Server
from bert_tf.serving.batcher import Batcher, Busy
from bert_tf.serving.served import Served, Signature

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    return quick_exports.make(tmp_path_factory.mktemp("exports"))


@pytest.fixture(scope="module")
def models(exports):
    return [Served(name, str(exports[name])) for name in ("single", "pair", "choice", "number", "mask", "other")]


@pytest.fixture
def client(models):
    with TestClient(Server(models, most_bytes=2000).app(), raise_server_exceptions=False) as client:
        yield client


def predict(client, name="single", **body):
    return client.post(f"/v1/models/{name}:predict", json=body)


def test_the_routes_and_messages_are_those_of_tensorflow_serving(client):
    status = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    for path in ("/v1/models/single", "/v1/models/single/versions/1"):
        assert client.get(path).json() == {"model_version_status": [status]}
    told = client.get("/v1/models/choice/metadata").json()
    assert told["model_spec"] == {"name": "choice", "signature_name": "", "version": "1"}
    signature = told["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["method_name"] == "tensorflow/serving/predict"
    choices = signature["inputs"]["choices"]
    assert choices["dtype"] == "DT_STRING"
    sizes = [size["size"] for size in choices["tensor_shape"]["dim"]]
    assert sizes == ["-1", "2"] and choices["tensor_shape"]["unknown_rank"] is False
    assert signature["outputs"]["probabilities"]["dtype"] == "DT_FLOAT"


def test_rows_and_columns_are_answered_under_either_path(client):
    body = {"instances": ["a text that is long", "a"]}
    answer = predict(client, **body)
    assert answer.status_code == 200
    assert [row["label"] for row in answer.json()["predictions"]] == ["long", "short"]
    assert client.post("/v1/models/single/versions/1:predict", json=body).json() == answer.json()
    columns = predict(client, inputs=["a text that is long"], signature_name="serving_default").json()["outputs"]
    assert columns["label"] == ["long"] and columns["logits"] == [[4.0, 19.0]]
    assert predict(client, "number", instances=["abc"]).json() == {"predictions": [1.0]}


@pytest.mark.parametrize(
    ("path", "content", "code", "words"),
    [
        ("nothing:predict", "{}", 404, "Servable not found: nothing. Known: single, pair"),
        ("single/versions/2:predict", "{}", 404, "single version 2"),
        ("single:predict", "{", 400, "is no JSON"),
        ("single:predict", b"\xff\xfe", 400, "is not UTF-8|no JSON"),
        ("single:predict", "[" * 1500, 400, "nested too deeply|no JSON"),
        ("single:predict", '{"instances": [1]}', 400, "text_a has a number"),
        (
            "single:predict",
            '{"instances": ["x"], "signature_name": "other"}',
            400,
            "'other' not found .*serving_default",
        ),
        ("single:predict", json.dumps({"instances": ["x" * 3000]}), 413, "larger than 2,000 bytes"),
    ],
)
def test_garbage_gets_a_sentence_and_the_next_request_its_answer(client, path, content, code, words):
    answer = client.post(f"/v1/models/{path}", content=content)
    assert answer.status_code == code
    assert re.search(words, answer.json()["error"]), answer.json()
    assert predict(client, instances=["abc"]).json()["predictions"][0]["label"] == "short"


def test_a_body_without_a_length_is_cut_off_where_it_is_too_large(client):
    answer = client.post("/v1/models/single:predict", content=(b"x" * 500 for _ in range(100)))
    assert answer.status_code == 413


def test_health_metrics_list_and_page(client):
    predict(client, instances=["abc"])
    predict(client, instances=[1])
    assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
    text = client.get("/monitoring/prometheus/metrics").text
    assert text == client.get("/metrics").text
    assert 'bert_tf_requests_total{code="200",model="single"} 1.0' in text
    assert 'bert_tf_requests_total{code="400",model="single"} 1.0' in text
    assert 'bert_tf_batch_rows_total{model="single"} 1.0' in text
    kinds = {model["name"]: model["kind"] for model in client.get("/v1/models").json()["models"]}
    assert kinds == {
        "single": "classify",
        "pair": "compare",
        "choice": "choose",
        "number": "number",
        "mask": "fill_mask",
        "other": "other",
    }
    page = client.get("/")
    assert page.status_code == 200 and "default-src 'none'" in page.headers["content-security-policy"]
    assert "http://" not in page.text and "https://" not in page.text, "nothing comes from elsewhere"
    assert client.put("/v1/models/single").status_code == 405


class Slow:
    """A signature that waits for an event, and says which rows it was given together."""

    inputs = outputs = {"x": ("string", (None,))}

    def __init__(self):
        self.batches, self.go = [], threading.Event()

    def __call__(self, arrays):
        self.batches.append(arrays["x"].tolist())
        assert self.go.wait(10)
        if b"bad" in arrays["x"].tolist():
            raise ValueError("this one cannot be")
        return {"x": arrays["x"]}

    only_own = staticmethod(lambda outputs: outputs)


def rows(*texts):
    return {"x": np.array([text.encode() for text in texts], object)}


def test_what_comes_while_a_batch_is_computed_is_computed_together():
    async def scenario():
        slow, batcher = Slow(), Batcher(most_rows=4)
        first = asyncio.create_task(batcher.answer(slow, rows("a")))
        await asyncio.sleep(0.05)
        others = [asyncio.create_task(batcher.answer(slow, rows(*texts))) for texts in ("bc", "d", "efg")]
        await asyncio.sleep(0.05)
        slow.go.set()
        answers = [answer["x"].tolist() for answer in await asyncio.gather(first, *others)]
        await batcher.close()
        return slow.batches, answers

    batches, answers = asyncio.run(scenario())
    assert batches == [[b"a"], [b"b", b"c", b"d"], [b"e", b"f", b"g"]]
    assert answers == [[b"a"], [b"b", b"c"], [b"d"], [b"e", b"f", b"g"]]


def test_one_bad_request_in_a_batch_does_not_spoil_the_others():
    async def scenario():
        slow, batcher = Slow(), Batcher()
        asked = [asyncio.create_task(batcher.answer(slow, rows(text))) for text in ("first", "good", "bad", "fine")]
        await asyncio.sleep(0.05)
        slow.go.set()
        found = await asyncio.gather(*asked, return_exceptions=True)
        await batcher.close()
        return [str(each) if isinstance(each, Exception) else each["x"].tolist()[0] for each in found]

    assert asyncio.run(scenario()) == [b"first", b"good", "this one cannot be", b"fine"]


def test_a_full_queue_refuses_and_what_was_given_up_is_not_computed():
    async def scenario():
        slow, batcher = Slow(), Batcher(most_waiting=2)
        first = asyncio.create_task(batcher.answer(slow, rows("a")))
        await asyncio.sleep(0.05)
        given_up, kept = (asyncio.create_task(batcher.answer(slow, rows(text))) for text in "bc")
        await asyncio.sleep(0.05)
        with pytest.raises(Busy):
            await batcher.answer(slow, rows("d"))
        given_up.cancel()
        await asyncio.sleep(0.01)
        slow.go.set()
        await asyncio.gather(first, kept)
        await batcher.close()
        return slow.batches

    assert asyncio.run(scenario()) == [[b"a"], [b"c"]]


def test_an_answer_that_cannot_be_handed_out_fails_alone():
    async def scenario():
        slow, batcher = Slow(), Batcher()
        slow.go.set()
        slow.only_own = lambda outputs: outputs["not there"]
        with pytest.raises(KeyError):
            await asyncio.wait_for(batcher.answer(slow, rows("a")), 10)
        del slow.only_own
        answer = await asyncio.wait_for(batcher.answer(slow, rows("b")), 10)
        await batcher.close()
        return answer["x"].tolist()

    assert asyncio.run(scenario()) == [b"b"]


def test_a_large_request_is_computed_in_parts_and_put_together_again():
    async def scenario():
        slow, batcher = Slow(), Batcher(most_rows=3)
        slow.go.set()
        answer = await batcher.answer(slow, rows(*"abcdefgh"))
        await batcher.close()
        return slow.batches, answer["x"].tolist()

    batches, answer = asyncio.run(scenario())
    assert [len(batch) for batch in batches] == [3, 3, 2] and answer == [bytes([97 + i]) for i in range(8)]


def test_nobody_sees_the_padding_that_others_made():
    shape = {"pieces": ("string", (None, None, 2)), "scores": (np.float32, (None, None, 2))}
    own = Signature(None, {}, shape).only_own(
        {
            "pieces": np.array([[[b"a", b"b"], [b"", b""], [b"", b""]]], object),
            "scores": np.array([[[0.5, 0], [0, 0], [0, 0]]], np.float32),
        }
    )
    assert own["pieces"].tolist() == [[[b"a", b"b"]]] and own["scores"].tolist() == [[[0.5, 0.0]]]


def test_many_clients_get_what_one_gets(models):
    asked = ["[MASK]" * (number % 3) + "x" * number for number in range(40)]
    with TestClient(Server(models).app()) as client:
        alone = [predict(client, "mask", instances=[text]).json() for text in asked]

    async def together():
        server = Server(models)
        transport = httpx.ASGITransport(server.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            answers = await asyncio.gather(
                *(client.post("/v1/models/mask:predict", json={"instances": [text]}) for text in asked)
            )
        text = (await server.metrics(None)).body.decode()
        batches = float(next(x for x in text.splitlines() if x.startswith("bert_tf_batches_total{")).split()[1])
        return [answer.json() for answer in answers], batches

    answers, batches = asyncio.run(together())
    assert answers == alone and batches < len(asked) / 2


def test_the_command_serves_until_it_is_told_to_stop_and_clients_that_vanish_disturb_nobody(exports):
    command = [sys.executable, "-m", "bert_tf.commands", "serve", str(exports["single"]), f"two={exports['pair']}"]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.Popen([*command, "--port=0"], stdout=subprocess.PIPE, env=environment, cwd=ROOT, text=True)
    try:
        told = [process.stdout.readline() for _ in range(3)]
        port = int(re.search(r"single \(classify\): http://127.0.0.1:(\d+)/v1/models/single:predict", told[0])[1])
        half = b"POST /v1/models/single:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
        for sent in (half, b"\0\1\2\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port)) as rude:
                rude.sendall(sent)
        url = f"http://127.0.0.1:{port}/v1/models/two:predict"
        good = httpx.post(url, json={"instances": [{"text_a": "xyz", "text_b": "x"}]})
        assert good.json()["predictions"][0]["label"] == "long"
        with pytest.raises(UserError, match=f"127.0.0.1:{port} cannot be listened on .Address already in use.: give"):
            serve.listening("127.0.0.1", port)
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0 and process.stdout.read() == "Stopped.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "no folder nowhere"),
        (["{single}", "--port=70000"], "--port is 70000"),
        (["{single}", "--timeout=0"], "--timeout is 0"),
        (["{single}", "{single}"], "Two models would be called single"),
        (["{single}", "{pair}", "--name=x"], "--name goes with one export"),
        (["a/b={single}"], "cannot be called 'a/b'"),
    ],
)
def test_a_mistake_is_one_line(exports, capsys, arguments, words):
    given = [text.format(**exports) for text in arguments]
    assert main(["serve", *given]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_a_model_above_the_memory_that_is_free_is_refused(exports, monkeypatch):
    import psutil

    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": 10})())
    with pytest.raises(UserError, match="GiB are free: serve it on a machine with more"):
        Served("single", str(exports["single"]))


def test_a_run_gives_its_name_to_its_export():
    assert serve.default_name("runs/sst2/export") == serve.default_name("runs/sst2") == "sst2"
