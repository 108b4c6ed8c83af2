"""The scores that heads compute from the answers of an export are those of training, for every kind."""

import numpy as np
import pytest
import tagging_cases
import tiny

from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.config.train_config import TrainConfig
from bert_tf.data.examples import Example
from bert_tf.data.questions import Question
from bert_tf.export.text_function import Signatures
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.heads.regression import Regression
from bert_tf.heads.relevance import Relevance
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.answering import Answering
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.heads.vectors.goals import Positives, Similarities
from bert_tf.model import weights
from bert_tf.recipes.finetuning import scored_export
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training import distribute
from bert_tf.training.evaluator import Evaluator

WORDS = "the fox dog ran sat on a mat and cat red big".split()
TOKENIZER = Tokenizer([*tiny.SPECIAL, *WORDS])
CONFIG = TrainConfig(train_batch_size=4, eval_batch_size=4, num_train_steps=1, num_warmup_steps=0, max_eval_steps=99)
MEAN = SentenceVectors("mean", True)
TEXT_HEADS = {  # head, texts of an example, labels
    "classes": (Classes(["cat", "dog"]), 1, ["cat", "dog"]),
    "multi_label": (MultiLabel(["fox", "mat"]), 2, ["fox", "fox,mat", ""]),
    "regression": (Regression(), 2, ["1", "5", "2.5"]),
    "relevance": (Relevance(), 2, ["0", "1", "0.5"]),
    "choice": (MultipleChoice(2), 3, ["0", "1"]),
    "pairs": (Positives(MEAN, 2), 2, [None]),
    "similarities": (Similarities(MEAN), 2, ["0", "0.5", "1"]),
}


def text_task(kind):
    head, count, labels = TEXT_HEADS[kind]
    rng = np.random.default_rng(1)
    texts = [tuple(" ".join(rng.choice(WORDS, rng.integers(1, 6))) for _ in range(count)) for _ in range(11)]
    rows = [Example(str(i), each, labels[i % len(labels)], f"row {i}") for i, each in enumerate(texts)]
    return FineTuningTask(kind, {"dev": lambda: rows}, head.configured(max_seq_length=12, texts=count), TOKENIZER)


def question_task():
    context = "the fox sat on a red mat and the big dog ran on the mat"
    answers = [("red mat", 17), ("dog", 36), None, ("fox", 4)]
    questions = [
        Question(str(i), WORDS[i], context, (each,) if each else (), bool(each)) for i, each in enumerate(answers)
    ]
    head = Answering(QuestionWindows(12, 3, 2), Search(n_best_size=4, max_answer_length=4, has_null=True))
    return FineTuningTask("questions", {"dev": lambda: questions}, head, TOKENIZER)


def tag_task(tmp_path, **options):
    (tmp_path / "some.txt").write_text(tagging_cases.FILE)
    return tagging_cases.task_of(str(tmp_path / "some.txt"), **options)


CASES = {
    **{kind: lambda tmp_path, kind=kind: text_task(kind) for kind in TEXT_HEADS},
    "tags": tag_task,
    "tags with a CRF": lambda tmp_path: tag_task(tmp_path, crf=True),
    "span": lambda tmp_path: question_task(),
}


QUICK = ("regression", "tags")


@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in CASES]
)
def test_scores_are_those_of_training(kind, tmp_path):
    task, strategy = CASES[kind](tmp_path), distribute.create_strategy("one_device")
    with strategy.scope():
        model = task.create_model(tiny.CONFIG)
        weights.assign(model, tiny.random_weights(model, seed=3))
    expected = task.scores(Evaluator(task, model, CONFIG, strategy).evaluate_split("dev")[1], "dev")
    signatures = task.signatures(model, task.tokenizer)
    export = Signatures("the model", signatures, {})
    items = task.split("dev").items
    count, scores, _ = scored_export._evaluate(task.head, export, items, 3, iter)
    assert count == len(items) and scores
    thresholds = {"best_exact_thresh", "best_f1_thresh"}  # of logits there, of probabilities here
    names = scores.keys() - thresholds
    assert names == expected.keys() - thresholds - ({"accuracy"} if kind == "tags with a CRF" else set())
    assert {name: scores[name] for name in names} == pytest.approx({name: expected[name] for name in names}, rel=1e-5)
