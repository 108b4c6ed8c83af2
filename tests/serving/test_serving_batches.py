"""Requests of many clients in one batch: who shares it, who is refused, and that nobody notices the others."""

import asyncio
import functools
import threading
import types

import numpy as np
import pytest
import tensorflow as tf
from starlette.testclient import TestClient

from bert_tf.serving.app import Server
from bert_tf.serving.batcher import Batcher, Busy
from bert_tf.serving.large_requests import LargeRequests, Late
from bert_tf.serving.served import Signature

pytestmark = pytest.mark.anyio
one_at_once = functools.partial(Batcher, at_once=1)


class Slow:
    """A signature that waits for an event, and says which rows it was given together."""

    inputs = outputs = {"x": ("string", (None,))}
    has_rows, has_large_outputs = True, False

    def __init__(self):
        self.batches, self.go = [], threading.Event()

    def __call__(self, arrays):
        self.batches.append(arrays["x"].tolist())
        assert self.go.wait(10)
        if b"bad" in arrays["x"].tolist():
            raise ValueError("this one cannot be")
        return {"x": arrays["x"]}

    trim_padding = staticmethod(lambda outputs, given: outputs)


def rows(*texts):
    return {"x": np.array([text.encode() for text in texts], object)}


async def test_waiting_requests_are_computed_together():
    slow, batcher = Slow(), one_at_once(most_rows=4)
    first = asyncio.create_task(batcher.answer(slow, rows("a")))
    await asyncio.sleep(0.05)
    others = [asyncio.create_task(batcher.answer(slow, rows(*texts))) for texts in ("bc", "d", "efg")]
    await asyncio.sleep(0.05)
    slow.go.set()
    answers = [answer["x"].tolist() for answer in await asyncio.gather(first, *others)]
    await batcher.close()
    assert slow.batches == [[b"a"], [b"b", b"c", b"d"], [b"e", b"f", b"g"]]
    assert answers == [[b"a"], [b"b", b"c"], [b"d"], [b"e", b"f", b"g"]]


async def test_batches_run_in_parallel_and_share_the_queue():
    slow, batcher = Slow(), Batcher(at_once=2)
    requests = [asyncio.create_task(batcher.answer(slow, rows(text))) for text in "abcdefgh"]
    await asyncio.sleep(0.05)
    begun = [list(batch) for batch in slow.batches]
    late = [asyncio.create_task(batcher.answer(slow, rows(text))) for text in "ij"]
    await asyncio.sleep(0.05)
    waiting = batcher.waiting
    slow.go.set()
    answers = await asyncio.gather(*requests, *late)
    await batcher.close()
    assert sorted(begun) == [[b"a", b"b", b"c", b"d"], [b"e", b"f", b"g", b"h"]]
    assert waiting == 2 and [answer["x"].tolist()[0].decode() for answer in answers] == list("abcdefghij")


async def test_bad_request_does_not_affect_others_in_its_batch():
    slow, batcher = Slow(), one_at_once()
    requests = [asyncio.create_task(batcher.answer(slow, rows(text))) for text in ("first", "good", "bad", "fine")]
    await asyncio.sleep(0.05)
    slow.go.set()
    results = await asyncio.gather(*requests, return_exceptions=True)
    await batcher.close()
    found = [str(each) if isinstance(each, Exception) else each["x"].tolist()[0] for each in results]
    assert found == [b"first", b"good", "this one cannot be", b"fine"]


async def test_full_queue_refuses_and_abandoned_requests_are_dropped():
    slow, batcher = Slow(), one_at_once(most_waiting=2)
    first = asyncio.create_task(batcher.answer(slow, rows("a")))
    await asyncio.sleep(0.05)
    given_up, pending = (asyncio.create_task(batcher.answer(slow, rows(text))) for text in "bc")
    await asyncio.sleep(0.05)
    with pytest.raises(Busy):
        await batcher.answer(slow, rows("d"))
    given_up.cancel()
    await asyncio.sleep(0.01)
    late = asyncio.create_task(batcher.answer(slow, rows("e")))
    await asyncio.sleep(0.01)
    slow.go.set()
    await asyncio.gather(first, pending, late)
    await batcher.close()
    assert slow.batches == [[b"a"], [b"c", b"e"]]


async def test_large_request_yields_to_others_between_its_parts():
    slow, batcher = Slow(), one_at_once(most_waiting=2, most_rows=2)
    large = asyncio.create_task(batcher.answer(slow, rows(*"abcdefgh")))
    await asyncio.sleep(0.05)
    others = [asyncio.create_task(batcher.answer(slow, rows(*texts))) for texts in ("xy", "z")]
    await asyncio.sleep(0.05)
    waiting = batcher.waiting
    slow.go.set()
    answers = [answer["x"].tolist() for answer in await asyncio.gather(large, *others)]
    await batcher.close()
    assert waiting == 2
    assert slow.batches == [[b"a", b"b"], [b"x", b"y"], [b"z"], [b"c", b"d"], [b"e", b"f"], [b"g", b"h"]]
    assert answers == [[bytes([97 + i]) for i in range(8)], [b"x", b"y"], [b"z"]]


async def test_large_requests_are_computed_in_order():
    slow, batcher = Slow(), one_at_once(most_rows=1)
    slow.go.set()
    texts = ["aaa", "bbb", "ccc", "ddd"]
    tasks = [asyncio.create_task(batcher.answer(slow, rows(*text))) for text in texts]
    await asyncio.sleep(0)
    waiting = batcher.waiting
    tasks[1].cancel()
    await asyncio.wait(tasks)
    left = batcher.waiting
    await batcher.close()
    assert (waiting, left, b"".join(row for batch in slow.batches for row in batch)) == (4, 0, b"aaacccddd")


async def test_large_request_that_would_be_late_is_refused_early():
    large = LargeRequests()

    async def compute(work, seconds, part_seconds):
        async with large.turn(work, seconds) as turn:
            for _ in range(work):
                await asyncio.sleep(0)
                large.advance(turn, 1, part_seconds)

    computations = [compute(2, 10, 1.0), compute(9, 10, 1.0), compute(5, 10, 1.0), compute(2, 10, 1.0)]
    together = await asyncio.gather(*computations, return_exceptions=True)
    alone = await compute(50, 10, 1.0)
    assert [type(result) for result in together] == [type(None), Late, type(None), type(None)]
    assert alone is None and large.waiting == 0, "without others it is tried: its texts may be shorter"


async def test_late_request_is_told_that_the_server_is_busy():
    slow, batcher = Slow(), one_at_once(most_rows=1)
    slow.go.set()
    batcher._large._seconds = 1.0
    first = asyncio.create_task(batcher.answer(slow, rows("a", "b"), seconds=10))
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="delay this one by more than 10 seconds"):
        await batcher.answer(slow, rows("c", "d"), seconds=10)
    await first
    await batcher.close()


class Endless(Slow):
    """A signature whose function of TensorFlow ends when it is stopped."""

    def __init__(self):
        super().__init__()
        self.ended = threading.Event()
        step = functools.partial(tf.while_loop, lambda x: x < 2**62, lambda x: (x + 1,))
        self.function = tf.function(lambda x: step((x,)), autograph=False).get_concrete_function(
            tf.constant(0, tf.int64)
        )

    def __call__(self, arrays):
        self.batches.append(arrays["x"].tolist())
        try:
            self.function(tf.constant(0, tf.int64))
        finally:
            self.ended.set()


async def test_batch_that_nobody_waits_for_is_stopped():
    endless, batcher = Endless(), one_at_once()
    requests = [asyncio.create_task(batcher.answer(endless, rows(text))) for text in "ab"]
    await asyncio.sleep(0.1)
    requests[0].cancel()
    assert not await asyncio.to_thread(endless.ended.wait, 0.2), "another request waits for it"
    requests[1].cancel()
    assert await asyncio.to_thread(endless.ended.wait, 10)
    slow = Slow()
    slow.go.set()
    after = await asyncio.wait_for(batcher.answer(slow, rows("c")), 10)
    await batcher.close()
    assert (endless.batches, after["x"].tolist()) == ([[b"a", b"b"]], [b"c"])


def test_client_that_is_told_504_lets_the_computation_end():
    endless = Endless()
    model = types.SimpleNamespace(name="m", version="1", signatures={"serving_default": endless})
    with TestClient(Server([model], seconds=0.2).app()) as client:
        assert client.post("/v1/models/m:predict", json={"instances": ["a"]}).status_code == 504
        assert endless.ended.wait(10)


async def test_long_texts_are_computed_one_at_a_time_next_to_small_requests():
    slow, batcher = Slow(), Batcher(at_once=2, most_bytes=3)
    requests = [asyncio.create_task(batcher.answer(slow, rows(text))) for text in ("long1", "long2", "a")]
    await asyncio.sleep(0.1)
    begun = sorted(slow.batches)
    slow.go.set()
    answers = [answer["x"].tolist()[0].decode() for answer in await asyncio.gather(*requests)]
    await batcher.close()
    assert (begun, answers) == ([[b"a"], [b"long1"]], ["long1", "long2", "a"])


@pytest.mark.parametrize("text", ["a b c d e f", "a,b,c.", "abcdefg " * 3, "我爱你们的书", "a" * 37])
def test_request_of_more_tokens_is_refused_before_it_is_computed(text):
    slow = Slow()
    slow.go.set()
    model = types.SimpleNamespace(name="m", version="1", signatures={"serving_default": slow})
    with TestClient(Server([model], most_tokens=5).app()) as client:
        refused, whole = (client.post("/v1/models/m:predict", json={"instances": [x]}) for x in (text, "abcdef " * 5))
    assert refused.status_code == 413 and refused.json()["error"] == (
        "The texts have more than 5 tokens: send them in parts."
    )
    assert whole.status_code == 200 and len(slow.batches) == 1


class Ragged(Slow):
    """A signature with an output of the letters of all texts."""

    def __call__(self, arrays):
        return {**super().__call__(arrays), "letters": np.frombuffer(b"".join(arrays["x"]), np.uint8)}


class Constant(Ragged):
    """One that says what it does."""

    has_rows = False


@pytest.mark.parametrize(
    ("kind", "batches"),
    [(Ragged, [[b"ab", b"cd", b"e"], [b"ab"], [b"cd"], [b"e"]]), (Constant, [[b"ab"], [b"cd"], [b"e"]])],
)
async def test_output_without_rows_is_computed_alone(kind, batches):
    slow, batcher = kind(), one_at_once()
    requests = [asyncio.create_task(batcher.answer(slow, rows(text))) for text in ("ab", "cd", "e")]
    await asyncio.sleep(0.05)
    slow.go.set()
    answers = await asyncio.wait_for(asyncio.gather(*requests), 10)
    await batcher.close()
    assert (slow.batches, [bytes(answer["letters"]) for answer in answers]) == (batches, [b"ab", b"cd", b"e"])


async def test_split_request_without_row_outputs_is_refused():
    slow, batcher = Ragged(), one_at_once(most_rows=1)
    slow.go.set()
    with pytest.raises(ValueError, match="its output letters does not have one row per instance: send fewer"):
        await batcher.answer(slow, rows("ab", "c"))
    await batcher.close()


async def test_large_request_is_split_and_reassembled():
    slow, batcher = Slow(), one_at_once(most_rows=3)
    slow.go.set()
    answer = await batcher.answer(slow, rows(*"abcdefgh"))
    await batcher.close()
    assert [len(batch) for batch in slow.batches] == [3, 3, 2] and answer["x"].tolist() == [
        bytes([97 + i]) for i in range(8)
    ]


async def test_batch_size_is_limited_by_text_length():
    slow, batcher = Slow(), one_at_once(most_bytes=5)
    first = asyncio.create_task(batcher.answer(slow, rows("long text", "a", "bb", "ccc")))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(batcher.answer(slow, rows("dd")))
    await asyncio.sleep(0.05)
    slow.go.set()
    answers = [answer["x"].tolist() for answer in await asyncio.gather(first, second)]
    await batcher.close()
    assert slow.batches == [[b"long text"], [b"dd", b"a", b"bb"], [b"ccc"]]
    assert answers == [[b"long text", b"a", b"bb", b"ccc"], [b"dd"]]


class Letters(Slow):
    """One that answers letters and where they stand, filled up to the longest text with "" and -1."""

    def __call__(self, arrays):
        token_ids = super().__call__(arrays)["x"].tolist()
        width = max(map(len, token_ids))
        letters = [[text[i : i + 1] for i in range(width)] for text in token_ids]
        positions = [
            [-1] + [i if i < len(text) else -1 for i in range(1, width)] for text in token_ids
        ]  # the first has none
        parts = [[0 if i < len(text) else -1 for i in range(width)] for text in token_ids]
        counts = np.array([len(text) for text in token_ids], np.int32)
        numbers = {"places": np.array(positions, np.int32), "parts": np.array(parts, np.int32), "counts": counts}
        return {"letters": np.array(letters, object), **numbers}


async def test_parts_of_different_widths_are_padded_as_the_model_pads():
    found = []
    for rows_at_once in (1, 2):
        slow, batcher = Letters(), one_at_once(most_rows=rows_at_once)
        slow.go.set()
        answer = await batcher.answer(slow, rows("abc", "d"))
        await batcher.close()
        found.append({name: array.tolist() for name, array in answer.items()})
    assert found[0] == found[1]
    assert found[0]["letters"] == [[b"a", b"b", b"c"], [b"d", b"", b""]]
    assert found[0]["parts"] == [[0, 0, 0], [0, -1, -1]]


def tensors(outputs):
    """{name: nested lists} as a signature gives them."""
    arrays = {name: np.array(values) for name, values in outputs.items()}
    return {name: np.char.encode(x).astype(object) if x.dtype.kind == "U" else x for name, x in arrays.items()}


@pytest.mark.parametrize(
    ("shapes", "given", "outputs", "expected"),
    [
        (
            {"pieces": (None, None, 2), "scores": (None, None, 2)},
            ["text"],
            {"pieces": [[["a", "b"], ["", ""], ["", ""]]], "scores": [[[0.5, 0.0], [0.0, 0.0], [0.0, 0.0]]]},
            {"pieces": [[["a", "b"]]], "scores": [[[0.5, 0.0]]]},
        ),
        (
            {"texts": (None, None), "starts": (None, None), "ends": (None, None), "counts": (None,)},
            ["text"],
            {"texts": [["Rome", ""]], "starts": [[0, 0]], "ends": [[4, 0]], "counts": [1]},
            {"texts": [["Rome"]], "starts": [[0]], "ends": [[4]], "counts": [1]},
        ),
        (
            {"tokens": (None, None), "starts": (None, None), "segments": (None, None)},
            ["text"],
            {"tokens": [["[CLS]", "[SEP]", ""]], "starts": [[-1, -1, -1]], "segments": [[0, 0, -1]]},
            {"tokens": [["[CLS]", "[SEP]"]], "starts": [[-1, -1]], "segments": [[0, 0]]},
        ),
        (
            {"tokens": (None, None), "attention": (None, 1, None, None)},
            ["text"],
            {"tokens": [["a", "b", ""]], "attention": [[[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]]},
            {"tokens": [["a", "b"]], "attention": [[[[1.0, 0.0], [1.0, 0.0]]]]},
        ),
        ({"tags": (None, None)}, [["a", ""]], {"tags": [["O", ""]]}, {"tags": [["O", ""]]}),
        ({"ids": (None, None)}, ["text"], {"ids": [[1, 0]]}, {"ids": [[1, 0]]}),
        ({"fixed": (None, 2)}, ["text"], {"fixed": [["a", ""]]}, {"fixed": [["a", ""]]}),
        (
            {"answers": (None, None), "shares": (None, None)},
            ["text"],
            {"answers": [["a", ""]], "shares": [[0.75, 0.25]]},
            {"answers": [["a", ""]], "shares": [[0.75, 0.25]]},
        ),
    ],
    ids=["masks", "a name at the start", "tokens", "attention", "given words", "numbers alone", "fixed", "no filler"],
)
def test_padding_from_other_requests_is_removed(shapes, given, outputs, expected):
    signature = Signature(None, {}, {name: ("any", shape) for name, shape in shapes.items()})
    own = signature.trim_padding(tensors(outputs), tensors({"given": given}))
    assert {name: x.tolist() for name, x in own.items()} == {n: x.tolist() for n, x in tensors(expected).items()}


def test_output_without_rows_is_returned_by_column_and_refused_by_row():
    slow = Constant()
    slow.go.set()
    model = types.SimpleNamespace(name="m", version="1", signatures={"serving_default": slow})
    with TestClient(Server([model]).app()) as client:
        by_column, by_row = (client.post("/v1/models/m:predict", json={key: ["ab"]}) for key in ("inputs", "instances"))
    assert by_column.json() == {"outputs": {"x": ["ab"], "letters": [97, 98]}}
    assert (
        by_row.status_code == 400 and "The output letters does not have one row per instance" in by_row.json()["error"]
    )


@pytest.mark.parametrize(("shape", "expected"), [((None, 2), True), (None, True), ((2,), False), ((), False)])
def test_signature_tells_whether_outputs_have_rows(shape, expected):
    assert Signature(None, {}, {"x": ("string", (None,)), "y": (np.float32, shape)}).has_rows is expected
