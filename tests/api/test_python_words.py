"""Messages that name arguments in place of flags."""

import logging

import pytest

from bert_tf.api import python_words
from bert_tf.errors import UserError
from bert_tf.runtime import terminal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Try --class_weights=balanced --criterion=macro_f1, --learning_rate=0.002.",
            'Try class_weights="balanced" criterion="macro_f1", learning_rate=0.002.',
        ),
        ("--nojoin_labels undoes that", "join_labels=False undoes that"),
        ("name it with --text_field.", "name it with text_field."),
        (
            "export it: `bert-tf export RUN --overwrite`, --keep_best=true",
            "export it: `bert-tf export RUN --overwrite`, keep_best=True",
        ),
        ("a -- b, well--known", "a -- b, well--known"),
    ],
)
def test_flags_become_arguments(text, expected):
    assert python_words.as_arguments(text) == expected


def test_lines_warnings_and_errors_name_arguments_within_it(caplog, capsys):
    log = logging.getLogger("bert_tf")
    names = {"run/data/train.jsonl": "the data"}
    with pytest.raises(UserError, match='^the data: pass pooling="mean"\\.$'), python_words.spoken(names):
        terminal.say("--num_seeds=3")
        log.warning("%s are left out (--bad_rows=stop refuses them)", "2 rows")
        raise UserError("run/data/train.jsonl: pass --pooling=mean.")
    terminal.say("--num_seeds=3")
    assert capsys.readouterr().out == "num_seeds=3\n--num_seeds=3\n"
    log.warning("--bad_rows=stop")
    assert [record.getMessage() for record in caplog.records] == [
        '2 rows are left out (bad_rows="stop" refuses them)',
        "--bad_rows=stop",
    ]
