"""The export of a question answering model: questions and contexts of any length to answers, all in the graph.

Q questions, n answers of a question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bert_tf.heads.base.string_signature import string_signature
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.heads.span.spans import CANDIDATES, GraphSearch
from bert_tf.model.packing import PackingSpec
from bert_tf.runtime.lazy import keras, tf
from bert_tf.text.tokenizer import Tokenizer

WINDOWS_AT_ONCE = 16  # so that memory does not depend on the length of a context


def signature(model: keras.Model, tokenizer: Tokenizer, windows: QuestionWindows, search: Search) -> Any:
    """f(question string [Q], context string [Q]) -> the answer, its offsets, and the n best.

    "answer" string [Q], "start" and "end" int32 [Q] in characters of the context: the answer is exactly that
    slice; "score" float32 [Q], its probability among the n best; "null_score" float32 [Q], the sum of the scores
    of [CLS]. "answers", "starts", "ends", "probabilities" [Q, n] (n + 1 with "no answer"), best first.
    """
    graph = GraphSearch.of(search)

    def read(question: tf.Tensor, context: tf.Tensor) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        rows = windows.all_rows(tokenizer, question, context)
        return rows, {"owners": rows.pop("owners"), "contexts": context}

    def compute(rows: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        outputs = model(rows, packing=PackingSpec())
        return graph.candidates(outputs["start_logits"], outputs["end_logits"], rows, windows)

    def answer(candidates: dict[str, tf.Tensor], rest: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        answers = graph.answers(candidates, rest["owners"], rest["contexts"])
        fields = {"answer": "texts", "start": "starts", "end": "ends", "score": "probabilities"}
        best = {name: tf.gather(answers[field], answers["chosen"], batch_dims=1) for name, field in fields.items()}
        n_best = {name: answers[name] for name in ("starts", "ends", "probabilities")}
        return {**best, "answers": answers["texts"], **n_best, "null_score": answers["null_scores"]}

    specs = [tf.TensorSpec([None], tf.string, name) for name in ("question", "context")]
    return string_signature(read, compute, answer, specs, in_blocks=_in_blocks)


def _in_blocks(
    compute: Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]], rows: Mapping[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    """Applies a function to WINDOWS_AT_ONCE rows at a time; the results are concatenated."""
    count = tf.size(rows["lengths"])
    blocks = -(-count // WINDOWS_AT_ONCE)
    dtypes = dict.fromkeys(CANDIDATES, tf.float32) | {"starts": tf.int32, "ends": tf.int32}
    arrays = {name: tf.TensorArray(dtypes[name], blocks, infer_shape=False) for name in CANDIDATES}

    def step(number: tf.Tensor, arrays: dict[str, tf.TensorArray]) -> tuple[tf.Tensor, dict[str, tf.TensorArray]]:
        first = number * WINDOWS_AT_ONCE
        candidates = compute({name: x[first : first + WINDOWS_AT_ONCE] for name, x in rows.items()})
        return number + 1, {name: array.write(number, candidates[name]) for name, array in arrays.items()}

    _, arrays = tf.while_loop(lambda number, _: number < blocks, step, (0, arrays), parallel_iterations=1)
    return {name: array.concat() for name, array in arrays.items()}
