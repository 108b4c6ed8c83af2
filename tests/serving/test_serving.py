"""The server: TensorFlow Serving's routes, one batch for many, limits, and clients that do what they must not."""

import asyncio
import json
import re
import signal
import socket
import types

import httpx
import pytest
import tensorflow as tf
import warm
from google.protobuf import json_format
from starlette.testclient import TestClient
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from bert_tf.cli.commands import serve
from bert_tf.cli.main import main
from bert_tf.serving.app import PAGE, Server
from bert_tf.serving.served import Signature


@pytest.fixture(scope="module")
def models(served):
    return [served[name] for name in ("single", "pair", "choice", "number", "mask", "other")]


@pytest.fixture
def client(models):
    with TestClient(Server(models, most_bytes=2000, most_instances=32).app(), raise_server_exceptions=False) as client:
        yield client


def predict(client, name="single", **body):
    return client.post(f"/v1/models/{name}:predict", json=body)


def parsed(message, response):
    """JSON read as a message of tensorflow-serving-api, which knows every field of it, and written again."""
    read = json_format.ParseDict(response, message)
    options = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
    return read, json_format.MessageToDict(read, **options)


@pytest.mark.parametrize("path", ["/v1/models/single", "/v1/models/single/versions/1"])
def test_status_matches_tensorflow_serving(client, path):
    response = client.get(path).json()
    status = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert response == {"model_version_status": [status]}
    message, written = parsed(get_model_status_pb2.GetModelStatusResponse(), response)
    assert written == response
    assert message.model_version_status[0].state == get_model_status_pb2.ModelVersionStatus.AVAILABLE


def test_metadata_matches_tensorflow_serving_and_the_export(client, exports):
    response = client.get("/v1/models/choice/metadata").json()
    kind = {"@type": "type.googleapis.com/tensorflow.serving.SignatureDefMap"}  # the JSON of REST leaves it out
    full = {**response, "metadata": {"signature_def": kind | response["metadata"]["signature_def"]}}
    message, written = parsed(get_model_metadata_pb2.GetModelMetadataResponse(), full)
    assert written == full and message.model_spec.name == "choice" and message.model_spec.version.value == 1
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert message.metadata["signature_def"].Unpack(signatures)
    saved = saved_model_pb2.SavedModel.FromString((exports["choice"] / "saved_model.pb").read_bytes())
    assert dict(signatures.signature_def) == dict(saved.meta_graphs[0].signature_def)
    signature = signatures.signature_def["serving_default"]
    assert signature.method_name == "tensorflow/serving/predict"
    assert [size.size for size in signature.inputs["choices"].tensor_shape.dim] == [-1, 2]


def test_prediction_matches_predict_response(client, exports):
    texts = ["a text that is long", "é"]
    answer = predict(client, instances=texts, signature_name="serving_default").json()["predictions"]
    outputs = tf.saved_model.load(str(exports["single"])).signatures["serving_default"](tf.constant(texts))
    message = predict_pb2.PredictResponse()
    for name, tensor in outputs.items():
        message.outputs[name].CopyFrom(tf.make_tensor_proto(tensor))
    for row, response in enumerate(answer):
        assert set(response) == set(message.outputs)
        assert response["label"].encode() == message.outputs["label"].string_val[row]
        for name in ("logits", "probabilities"):
            assert response[name] == tf.make_ndarray(message.outputs[name])[row].tolist()


def test_row_and_column_requests_work_on_either_path(client):
    body = {"instances": ["a text that is long", "a"]}
    answer = predict(client, **body)
    assert answer.status_code == 200
    assert [row["label"] for row in answer.json()["predictions"]] == ["long", "short"]
    assert client.post("/v1/models/single/versions/1:predict", json=body).json() == answer.json()
    columns = predict(client, inputs=["a text that is long"], signature_name="serving_default").json()["outputs"]
    assert columns["label"] == ["long"] and columns["logits"] == [[4.0, 19.0]]
    assert predict(client, "number", instances=["abc"]).json() == {"predictions": [1.0]}


def test_verbose_answers_name_the_labels(client, models):
    for body in ({"instances": ["a text that is long"]}, {"inputs": ["a text that is long"]}):
        (answer,) = client.post("/v1/models/single:predict?verbose=1", json=body).json()["predictions"]
        assert answer == {"label": "long", "probabilities": pytest.approx({"short": 4 / 23, "long": 19 / 23})}
    masks = client.post("/v1/models/mask:predict?verbose", json={"instances": ["a [MASK]"]}).json()["predictions"]
    assert masks[0]["answers"] == [[{"piece": "a", "score": 0.75}, {"piece": "b", "score": 0.25}]]
    assert client.post("/v1/models/other:predict?verbose=1", json={"instances": [3]}).json()["predictions"] == [
        {"ids": 3}
    ]
    wrong = {"instances": ["a"], "signature_name": "attention"}
    for path, content in (("single:predict?verbose=yes", {"instances": ["a"]}), ("number:predict?verbose=1", wrong)):
        response = client.post(f"/v1/models/{path}", json=content)
        assert response.status_code == 400 and "verbose is 1 or 0" in response.json()["error"]
    assert client.post("/v1/models/single:predict?verbose=0", json={"instances": ["a"]}).json() == (
        predict(client, instances=["a"]).json()
    )


@pytest.mark.parametrize(
    ("path", "content", "code", "words"),
    [
        ("nothing:predict", "{}", 404, "Servable not found: nothing. Known: single, pair"),
        ("single/versions/2:predict", "{}", 404, "single version 2"),
        ("single:predict", "{", 400, "is not valid JSON"),
        ("single:predict", b"\xff\xfe", 400, "is not UTF-8|not valid JSON"),
        ("single:predict", "[" * 1500, 400, "nested too deeply|not valid JSON"),
        ("single:predict", '{"instances": [1]}', 400, "text_a has a number"),
        ("single:predict", r'{"instances": [{"\ud800": "x"}]}', 400, "contains half a surrogate pair"),
        (
            "single:predict",
            '{"instances": ["x"], "signature_name": "other"}',
            400,
            "'other' not found .*serving_default",
        ),
        ("single:predict", '{"instances": ' + "[" * 50 + "]" * 50 + "}", 400, "shape .* expected"),
        (
            "single:predict",
            json.dumps({"instances": ["x"], "signature_name": [[]]}),
            400,
            "signature_name is not a string",
        ),
        ("x" * 5000 + ":predict", "{}", 404, r"^Servable not found: x{60}\.\.\.\. Known"),
        ("single:predict", json.dumps({"instances": ["x" * 3000]}), 413, "larger than 2,000 bytes"),
        ("single:predict", json.dumps({"instances": ["x"] * 33}), 413, "33 instances: send at most 32 of serving_def"),
    ],
)
def test_garbage_gets_an_error_and_the_next_request_an_answer(client, path, content, code, words):
    answer = client.post(f"/v1/models/{path}", content=content)
    assert answer.status_code == code
    assert re.search(words, answer.json()["error"]), answer.json()
    assert predict(client, instances=["abc"]).json()["predictions"][0]["label"] == "short"


def test_attention_is_returned_for_a_few_texts(client):
    request = {"name": "number", "signature_name": "attention"}
    alone = predict(client, **request, instances=["abc"]).json()["predictions"]
    assert alone[0]["tokens"] == ["a", "b", "c"] and alone[0]["lengths"] == 3
    assert alone[0]["attention"][1][0] == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert len(predict(client, **request, instances=["abcdef"] * 8).json()["predictions"]) == 8
    response = predict(client, **request, instances=["abc"] * 9)
    assert response.status_code == 413 and "send at most 8 of attention at once" in response.json()["error"]


def test_body_without_length_is_cut_off_at_the_limit(client):
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
        "single": "classes",
        "pair": "classes",
        "choice": "choice",
        "number": "regression",
        "mask": "masked_lm",
        "other": "other",
    }
    for path in ("/", "/docs", *(f"/{name}" for name in PAGE)):
        page = client.get(path)
        assert page.status_code == 200 and "default-src 'none'" in page.headers["content-security-policy"]
        assert "http://" not in page.text and "https://" not in page.text, "nothing comes from elsewhere"
    assert client.put("/v1/models/single").status_code == 405
    response = client.get("/v1/models/single/versions/1:predict")
    assert (response.status_code, response.json()) == (405, {"error": "predict requires POST."})


def test_concurrent_clients_get_the_same_answers(models):
    texts = ["[MASK]" * (number % 3) + "x" * number for number in range(40)]
    with TestClient(Server(models).app()) as client:
        alone = [predict(client, "mask", instances=[text]).json() for text in texts]

    async def together():
        server = Server(models)
        transport = httpx.ASGITransport(server.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            answers = await asyncio.gather(
                *(client.post("/v1/models/mask:predict", json={"instances": [text]}) for text in texts)
            )
        text = (await server.metrics(None)).body.decode()
        batches = float(next(x for x in text.splitlines() if x.startswith("bert_tf_batches_total{")).split()[1])
        return [answer.json() for answer in answers], batches

    answers, batches = asyncio.run(together())
    assert answers == alone and batches < len(texts) / 2


def test_server_runs_until_stopped_and_survives_vanishing_clients(exports):
    process = warm.start("-m", "bert_tf", "serve", exports["single"], f"two={exports['pair']}", "--port=0")
    try:
        stdout_lines = [process.stdout.readline() for _ in range(3)]
        port = int(
            re.search(r"single \(classes\): http://127.0.0.1:(\d+)/v1/models/single:predict", stdout_lines[0])[1]
        )
        half = b"POST /v1/models/single:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
        for sent in (half, b"\0\1\2\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port)) as rude:
                rude.sendall(sent)
        url = f"http://127.0.0.1:{port}/v1/models/two:predict"
        good = httpx.post(url, json={"instances": [{"text_a": "xyz", "text_b": "x"}]})
        assert good.json()["predictions"][0]["label"] == "long"
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.finish()[:2] == (0, "Stopped.\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "no folder nowhere"),
        (["{single}", "--port=70000"], "--port is 70000"),
        (["{single}", "--timeout=0"], "--timeout is 0"),
        (["{single}", "--receive_timeout=inf"], "--receive_timeout is inf; expected a positive number"),
        (["{single}", "--max_connections=10000000"], "--max_connections is 10000000, and this process may open"),
        (["{tmp}"], "is neither an export (it has no saved_model.pb)"),
        (["{single}", "--port={taken}"], "(Address already in use): pass another --port"),
        (["{single}", "{single}"], "Two models would have the name single"),
        (["{single}", "{pair}", "--name=x"], "--name requires a single export"),
        (["a/b={single}"], "'a/b' is not a valid model name"),
    ],
)
def test_user_error_is_one_line(exports, capsys, tmp_path, arguments, words):
    with socket.create_server(("127.0.0.1", 0)) as other:
        there = {**exports, "tmp": tmp_path, "taken": other.getsockname()[1]}
        assert main(["serve", *(text.format(**there) for text in arguments)]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_model_above_free_memory_is_refused(exports, with_memory, capsys):
    with_memory(1000, 10)
    assert main(["serve", str(exports["single"]), "--port=0"]) == 2
    error = capsys.readouterr().err
    assert "GiB are free: use a machine with more memory" in error and error.count("\n") == 1


def test_run_gives_its_name_to_its_export():
    assert serve.default_name("runs/sst2/export") == serve.default_name("runs/sst2") == "sst2"


@pytest.mark.parametrize("names", [("text_a", "text_b"), ("text_b", "text_a")])
def test_inputs_are_in_the_order_of_an_example_whatever_that_of_the_file(names):
    texts = tf.TensorSpec([None], tf.string)
    numbers = {name: tf.TensorSpec([None, 2]) for name in ("probabilities", "logits")}
    function = types.SimpleNamespace(
        structured_input_signature=((), dict.fromkeys(names, texts)), structured_outputs=numbers
    )
    signature = Signature.of(function, [])
    assert (list(signature.inputs), list(signature.outputs)) == (["text_a", "text_b"], ["logits", "probabilities"])
    assert list(Signature.of(function, ["text_b", "text_a"]).inputs) == ["text_b", "text_a"], "as the export says"
