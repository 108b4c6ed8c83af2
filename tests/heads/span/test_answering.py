"""Answering questions: batches of windows, learning, answers of a split on one and two replicas, the export."""

import dataclasses
import sys

import c_loader
import device_graphs
import numpy as np
import pytest
import tensorflow as tf
import tiny
from mask_filling_cases import WORDS

from bert_tf.config.train_config import TrainConfig
from bert_tf.data.examples import Example
from bert_tf.data.questions import Prediction, Question
from bert_tf.export import opening
from bert_tf.export.saved_model import export
from bert_tf.heads.span import answer_serving, original_alignment
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.answering import Answering
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training import confidence, distribute
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.train_step import TrainStep

TOKENIZER = Tokenizer([*tiny.SPECIAL, *WORDS])
WINDOWS = QuestionWindows(max_seq_length=12, doc_stride=3, max_query_length=2)
CONFIG = TrainConfig(
    train_batch_size=4, eval_batch_size=4, learning_rate=0.01, num_train_steps=60, num_warmup_steps=0, max_eval_steps=99
)
LONG = "it is a fox . he sat on a mat , and she ran to the old red dog !"


def question(name, text, context, answer=None):
    answers = () if not answer else ((answer, context.index(answer)),)
    known = None if answer is None else bool(answer)
    return Question(name, text, context, answers, known)


QUESTIONS = [
    question("fox", "fox ?", LONG, "a fox"),
    question("dog", "dog ?", LONG, "the old red dog"),
    question("cat", "cat", LONG, ""),
    question("short", "mat", "a big mat", "big"),
    question("nothing", "red", "", ""),
]


def task_of(questions=QUESTIONS, *, word_alignment=False, **options):
    splits = {"train": lambda: questions, "dev": lambda: questions}
    search = Search(**{"n_best_size": 4, "max_answer_length": 6, "has_null": True, **options})
    return FineTuningTask(
        "tiny", splits, Answering(WINDOWS, search, word_alignment=word_alignment), TOKENIZER, test_splits=("dev",)
    )


def model_of(task, strategy=None):
    with (strategy or distribute.create_strategy("one_device")).scope():
        model = tiny.randomized(task.create_model(tiny.CONFIG))
    return model


def test_windows_are_consecutive_and_contexts_stored_once():
    split = task_of().split("dev")
    assert split.owners.tolist() == [0] * 6 + [1] * 6 + [2] * 5 + [3, 4]
    assert split.numbers.tolist() == [*range(6), *range(6), *range(5), 0, 0]
    assert split.contexts.tolist() == [LONG, "a big mat", ""]
    assert split.answer_tokens().tolist() == [[2, 15, 0, 1, 0], [3, 18, -1, 1, -1]]
    assert split.tokens["contexts"].row_lengths().numpy().tolist() == [20, 3, 0]


def test_batches_have_the_answer_position_in_each_window():
    positions = {}
    for batch in task_of().eval_batches(4, "dev"):
        assert all(x.shape.is_fully_defined() for x in batch.values())
        for row, number in enumerate(batch["row_numbers"].numpy()):
            first, last = batch["start_positions"][row], batch["end_positions"][row]
            assert batch["row_weights"][row] == float(number > 0)
            if number and first:
                words = TOKENIZER.detokenize(batch["token_ids"][row : row + 1, first : last + 1])[0]
                positions[int(number)] = words
    assert positions == {1: "a fox", 11: "the old red dog", 12: "the old red dog", 18: "big"}


def test_unanswerable_windows_are_left_out_of_training_only():
    lost = dataclasses.replace(QUESTIONS[3], answers=(("small", 0),))
    unknown = question("unknown", "mat", "a big mat")
    split = task_of([*QUESTIONS[:1], lost, unknown]).split("train")
    assert [q.id for q in split.lost] == ["short"]
    assert (len(split.owners), split.count) == (8, 6)
    rows = [set(b["row_numbers"].numpy()) for b in split.batches(6, seed=1).take(1)]
    assert rows == [set(range(1, 7))]


def test_loss_does_not_depend_on_row_length():
    task = task_of(QUESTIONS[3:])
    batch = next(iter(task.eval_batches(4, "dev")))
    assert int(tf.reduce_max(batch["lengths"])) <= 8
    model = model_of(task)
    whole = task.metrics(model(batch), batch)
    short = {**batch, **{name: batch[name][:, :8] for name in ("token_ids", "segment_ids")}}
    cut = task.metrics(model(short), short)
    np.testing.assert_allclose(whole["span_loss"][0], cut["span_loss"][0], rtol=1e-5)


def test_logits_of_padding_change_nothing():
    task = task_of(QUESTIONS[3:])
    batch = next(iter(task.eval_batches(4, "dev")))
    lengths = batch["lengths"].numpy()[:, None]
    assert ((lengths > 0) & (lengths < 12)).any(), "rows with padding"
    random = np.random.default_rng(0)
    logits = {f"{side}_logits": random.normal(size=[4, 12]).astype(np.float32) for side in ("start", "end")}
    found = [
        task.metrics({name: np.where(np.arange(12) < lengths, x, large) for name, x in logits.items()}, batch)
        for large in (np.float32(0), np.float32(1e3))
    ]
    for name, (values, _) in found[0].items():
        np.testing.assert_array_equal(values, found[1][name][0])


@pytest.mark.slow
def test_training_learns_answers():
    task = task_of([q for q in QUESTIONS if q.answers], has_null=False)
    config = dataclasses.replace(CONFIG, learning_rate=0.003, num_train_steps=130)
    strategy = distribute.create_strategy("one_device")
    with strategy.scope():
        model = model_of(task, strategy)
        learner = TrainStep(task, model, config, strategy)
    evaluate = Evaluator(task, model, config, strategy)
    before = evaluate()
    for batch in task.train_batches(4, 2).take(130):
        learner.step(batch)
    after = evaluate()
    assert after["loss"] < 0.1 * before["loss"] and before["f1"] < 50
    assert (after["window_accuracy"], after["exact_match"], after["f1"]) == (1.0, 100.0, 100.0)


@pytest.mark.slow
def test_two_replicas_answer_like_one(strategies):
    answers = []
    for strategy in strategies:
        task = task_of()
        evaluator = Evaluator(task, model_of(task, strategy), CONFIG, strategy)
        evaluator()
        answers.append(task.head.best_answers(evaluator.predictions["dev"], task.split("dev")))
    for one, two in zip(*answers, strict=True):
        assert [answer["text"] for answer in one.answers] == [answer["text"] for answer in two.answers]
        assert one.null_odds == pytest.approx(two.null_odds, abs=1e-4)


@pytest.mark.parametrize(
    "has_null", [pytest.param(False, marks=pytest.mark.eager), pytest.param(True, marks=pytest.mark.slow)]
)
def test_export_answers_strings_like_evaluation(has_null, tmp_path):
    task = task_of(has_null=has_null, threshold=0.3)
    model, strategy = model_of(task), distribute.create_strategy("one_device")
    texts = {"question": [q.question for q in QUESTIONS], "context": [q.context for q in QUESTIONS]}
    serve = task.signatures(model, TOKENIZER)["serving_default"]
    if has_null:  # once through a file
        export(task, model, TOKENIZER, str(tmp_path / "export"), examples={"serving_default": texts})
        serve = tf.saved_model.load(str(tmp_path / "export")).signatures["serving_default"]
        device_graphs.assert_runs_anywhere(tmp_path / "export")
        in_static_shapes = opening.open_model(str(tmp_path / "export"), "tensorflow", jit_compile="true")
        actual = in_static_shapes.predict([Example("0", pair) for pair in zip(*texts.values(), strict=True)])
        expected = serve(**{n: tf.constant(v) for n, v in texts.items()})
        assert actual["answer"].tolist() == [text.decode() for text in expected["answer"].numpy()]
        np.testing.assert_allclose(actual["score"], expected["score"], atol=1e-5)
    served = {name: x.numpy() for name, x in serve(**{n: tf.constant(v) for n, v in texts.items()}).items()}
    evaluator = Evaluator(task, model, CONFIG, strategy)
    evaluator()
    predictions = task.head.best_answers(evaluator.predictions["dev"], task.split("dev"))
    for row, (prediction, question) in enumerate(zip(predictions, QUESTIONS, strict=True)):
        assert served["answer"][row].decode() == prediction.answer["text"]
        assert question.context[served["start"][row] : served["end"][row]] == prediction.answer["text"]
        assert served["score"][row] == pytest.approx(prediction.answer["probability"], abs=1e-5)
        is_answer = served["probabilities"][row] > 0
        assert [t.decode() for t in served["answers"][row][is_answer]] == [
            answer["text"] for answer in prediction.answers
        ]
    if has_null and sys.platform == "linux":  # the C library answers the same
        actual = c_loader.run_in_c(tmp_path / "export", texts, ["answer", "start", "end", "score"])
        assert actual["answer"] == [text.decode() for text in served["answer"]]
        assert (actual["start"], actual["end"]) == (served["start"].tolist(), served["end"].tolist())
        np.testing.assert_allclose(np.array(actual["score"], float), served["score"], atol=1e-5)


@pytest.mark.eager
def test_long_context_is_answered_in_windows(monkeypatch):
    task = task_of()
    model = model_of(task)
    inputs = {"question": tf.constant(["fox ?", "mat"]), "context": tf.constant([LONG * 9, "a big mat"])}
    expected = task.signatures(model, TOKENIZER)["serving_default"](**inputs)
    monkeypatch.setattr(answer_serving, "WINDOWS_AT_ONCE", 1000)
    at_once = task.signatures(model, TOKENIZER)["serving_default"](**inputs)
    for name, x in expected.items():
        if x.dtype != tf.string:
            np.testing.assert_allclose(at_once[name], x, rtol=1e-4, atol=1e-5)
    assert expected["answer"].numpy().tolist() == at_once["answer"].numpy().tolist()


def test_word_alignment_aligns_words_and_deduplicates_answers():
    task = task_of([question("x", "x", "a mat, the fox")], word_alignment=True)
    n_best = [
        {"text": text, "start": start, "end": start + len(text), "probability": probability}
        for text, start, probability in (("mat", 2, 0.5), ("mat,", 2, 0.3), ("", 0, 0.2))
    ]
    questions = task.split("dev").questions
    (aligned,) = original_alignment.align_predictions([Prediction(n_best[1], n_best)], questions, TOKENIZER)
    assert [answer["text"] for answer in aligned.answers] == ["mat", "mat,", ""]
    assert (aligned.answer["text"], aligned.answer["end"]) == ("mat,", 6)
    twice = Prediction(n_best[1], [n_best[0], dict(n_best[0], probability=0.1)])
    (aligned,) = original_alignment.align_predictions([twice], questions, TOKENIZER)
    assert len(aligned.answers) == 1


def test_temperature_is_fitted_on_questions_with_known_answers():
    texts = {"fox": ("a fox", "fox"), "dog": ("old red", "dog !"), "cat": ("", "ran"), "short": ("a Big", "mat")}
    logits = {"fox": (4.0, 1.0), "dog": (3.0, 2.5), "cat": (2.0, 1.5), "short": (1.0, 0.5)}

    def answer(text, logit):
        return {"text": text, "start": 0, "end": 1, "probability": 0.5, "start_logit": logit, "end_logit": logit}

    n_best = [[answer(*each) for each in zip(texts[name], logits[name], strict=True)] for name in texts]
    task, predictions = task_of(QUESTIONS[:4]), {"dev": {"row_numbers": np.arange(19)}}
    head = task.head
    head._last = predictions["dev"], [Prediction(answers[0], answers) for answers in n_best]
    labels = [np.array(x, int) for x in ([0, 1], [], [0], [0])]  # articles and case do not count
    totals = [2 * np.array(logits[name]) for name in texts]
    assert head.confidence_of(predictions["dev"], task.split("dev")) == confidence.report(totals, labels)
    assert head.with_calibration({"temperature": 3.0}) is head, "it was not asked for"
    head.fits_temperature, head.is_threshold_fixed = True, True
    fitted, _ = task.calibrated(predictions)
    assert fitted.head.search.temperature == confidence.fit_temperature(totals, labels) != 1
    assert head.with_calibration(fitted.head.calibration).search == fitted.head.search
    assert "temperature" in task.head.training.details(predictions["dev"], task.split("dev"))["confidence"]


def test_quick_model_answers_with_the_sentence_that_shares_most_words():
    rows = task_of([question("dog", "the old dog ran ?", "a fox sat . the dog ran . it is red !", "the dog")]).split(
        "dev"
    )
    for has_null, name in ((False, "exact_match"), (True, "exact")):
        (scores,) = task_of(has_null=has_null).head.quick_scores(rows, rows).values()
        assert scores["f1"] == pytest.approx(100 * 2 / 3) and scores[name] == 0
    assert task_of().head.quick_scores(rows, rows).popitem()[1]["best_f1"] == scores["f1"]
