"""SQuAD 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), files in their layout, and questions from Python's manual."""

import functools

from bert_tf.errors import UserError
from bert_tf.tasks.question_answering import answering, demo_questions, questions
from bert_tf.tasks.question_answering.question_windows import QuestionWindows
from bert_tf.tasks.question_answering.spans import Search


def task(options, tokenizer_for, *, has_null):
    """Answering the questions of `train_file` and `predict_file`; see bert_tf.tasks.catalog for the arguments.

    has_null: whether "no answer" is an answer (SQuAD 2.0). options: max_seq_length, doc_stride, max_query_length,
    n_best_size, max_answer_length, null_score_diff_threshold.
    """
    files = {"train": ("train_file", options.train_file), "dev": ("predict_file", options.predict_file)}
    splits = {split: functools.partial(_read, *named) for split, named in files.items()}
    return _task("squad/v2.0" if has_null else "squad/v1.1", splits, options, tokenizer_for, has_null=has_null)


def manual(options, tokenizer_for):
    """Which name was left out of a sentence of Python's manual: a demonstration that needs no file."""
    splits = {split: lambda split=split: _of_manual()[split] for split in ("train", "dev")}
    return _task("squad/manual", splits, options, tokenizer_for, has_null=False)


def _task(name, splits, options, tokenizer_for, *, has_null):
    windows = QuestionWindows(options.max_seq_length, options.doc_stride, options.max_query_length)
    search = Search(
        n_best_size=options.n_best_size,
        max_answer_length=options.max_answer_length,
        has_null=has_null,
        threshold=options.null_score_diff_threshold,
    )
    tokenizer = tokenizer_for(lambda: _texts(splits["train"]()))
    return answering.task(name, splits, tokenizer, windows=windows, search=search)


def _texts(found):
    """The texts that a vocabulary is learned from: every context once, and the questions."""
    yield from dict.fromkeys(question.context for question in found)
    yield from (question.question for question in found)


def _read(flag, path):
    if not path:
        raise UserError(f"Give a file in SQuAD's layout as {flag}.")
    return questions.read(path)


@functools.cache
def _of_manual():
    return demo_questions.questions()


TASKS = {
    "squad/v1.1": functools.partial(task, has_null=False),
    "squad/v2.0": functools.partial(task, has_null=True),
    "squad/manual": manual,
}
