"""SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), files in their format, and questions from Python's manual."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bert_tf.data import questions
from bert_tf.data.questions import Question
from bert_tf.errors import UserError, leave_out
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.answering import Answering
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.tasks import demo_questions
from bert_tf.tasks.task import FineTuningTask
from bert_tf.tasks.task_options import QuestionOptions
from bert_tf.text import tokenizer_kinds, vocabulary
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training import confidence

TokenizerFor = Callable[[Callable[[], Iterable[str]]], Tokenizer]
Splits = Mapping[str, Callable[[], Sequence[Question]]]


def task(options: QuestionOptions, tokenizer_for: TokenizerFor, *, has_null: bool) -> FineTuningTask:
    """Answers the questions of `train_file` and `predict_file`; see bert_tf.tasks.catalog for the arguments.

    Args:
        options: max_seq_length, doc_stride, max_query_length, n_best_size, max_answer_length,
            null_score_diff_threshold, is_threshold_fixed, word_alignment, temperature.
        tokenizer_for: returns the tokenizer; takes texts to learn a vocabulary from.
        has_null: whether "no answer" is an answer (SQuAD 2.0).
    """
    files = {"train": ("train_file", options.train_file), "dev": ("predict_file", options.predict_file)}
    splits = {split: functools.partial(read, *arguments) for split, arguments in files.items()}
    return _task("squad/v2.0" if has_null else "squad/v1.1", splits, options, tokenizer_for, has_null=has_null)


def manual(options: QuestionOptions, tokenizer_for: TokenizerFor) -> FineTuningTask:
    """Which name is missing from a sentence of Python's manual: a demonstration that needs no file."""
    made = functools.cache(demo_questions.questions)
    splits = {"train": lambda: made()["train"], "dev": lambda: made()["dev"]}
    return _task("squad/manual", splits, options, tokenizer_for, has_null=False)


def _task(
    name: str, splits: Splits, options: QuestionOptions, tokenizer_for: TokenizerFor, *, has_null: bool
) -> FineTuningTask:
    temperature = confidence.parse_temperature(options.temperature)
    search = Search(
        n_best_size=options.n_best_size,
        max_answer_length=options.max_answer_length,
        has_null=has_null,
        threshold=options.null_score_diff_threshold or 0.0,
        temperature=temperature or 1.0,
    )
    tokenizer = tokenizer_for(lambda: _texts(splits["train"]()))
    if options.parity and vocabulary.kind_of(tokenizer.vocabulary) != tokenizer_kinds.WORDPIECE:
        raise leave_out("parity requires WordPiece, which this model does not use")
    lengths = options.max_seq_length, options.doc_stride, options.max_query_length
    head = Answering(
        QuestionWindows(*lengths, tokenizer.separators),
        search,
        is_threshold_fixed=options.null_score_diff_threshold is not None,
        word_alignment=options.word_alignment,
        fits_temperature=temperature is None,
    )
    return FineTuningTask(name, splits, head, tokenizer, test_splits=("dev",))


def _texts(questions: Sequence[Question]) -> Iterator[str]:
    """The texts to learn a vocabulary from: every context once, and the questions."""
    yield from dict.fromkeys(question.context for question in questions)
    yield from (question.question for question in questions)


def read(flag: str, path: str) -> list[Question]:
    """The questions in a flag's file; UserError without a file, or if train_file has nothing to learn from."""
    if not path:
        raise UserError(f"Pass a file in SQuAD's layout as {flag}.")
    examples = questions.read(path)
    if flag == "train_file":
        _check_answers(path, examples)
    return examples


def _check_answers(path: str, examples: Sequence[Question]) -> None:
    """Raises UserError if there is nothing to learn from any question."""
    for question in examples:
        if question.is_answerable is False or any(questions.answer_span(question, each) for each in question.answers):
            return
    first = next((question for question in examples if question.answers), None)
    if first is None:
        raise UserError(f"The questions of {path} have no answers; expected some to train on.")
    text = first.answers[0][0][:60]
    raise UserError(f"No answer in {path} is in its context; the first is {text!r}, of the question {first.id!r}.")


TASKS = {
    "squad/v1.1": functools.partial(task, has_null=False),
    "squad/v2.0": functools.partial(task, has_null=True),
    "squad/manual": manual,
}
