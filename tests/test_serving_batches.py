"""Requests of many clients in one batch: who shares it, who is refused, and that nobody notices the others."""

import asyncio
import threading

import numpy as np
import pytest

from bert_tf.serving.batcher import Batcher, Busy
from bert_tf.serving.served import Signature


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


def test_a_batch_ends_where_its_texts_become_long():
    async def scenario():
        slow, batcher = Slow(), Batcher(most_bytes=5)
        first = asyncio.create_task(batcher.answer(slow, rows("long text", "a", "bb", "ccc")))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(batcher.answer(slow, rows("dd")))
        await asyncio.sleep(0.05)
        slow.go.set()
        answers = [answer["x"].tolist() for answer in await asyncio.gather(first, second)]
        await batcher.close()
        return slow.batches, answers

    batches, answers = asyncio.run(scenario())
    assert batches == [[b"long text"], [b"a", b"bb", b"dd"], [b"ccc"]]
    assert answers == [[b"long text", b"a", b"bb", b"ccc"], [b"dd"]]


def test_nobody_sees_the_padding_that_others_made():
    shape = {"pieces": ("string", (None, None, 2)), "scores": (np.float32, (None, None, 2))}
    own = Signature(None, {}, shape).only_own(
        {
            "pieces": np.array([[[b"a", b"b"], [b"", b""], [b"", b""]]], object),
            "scores": np.array([[[0.5, 0], [0, 0], [0, 0]]], np.float32),
        }
    )
    assert own["pieces"].tolist() == [[[b"a", b"b"]]] and own["scores"].tolist() == [[[0.5, 0.0]]]
