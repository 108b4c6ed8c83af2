"""Progress where standard error is not a terminal: lines with the time left."""

import pytest

from bert_tf.runtime import progress


def test_log_lines_show_remaining_time(clock, capsys):
    with progress.progress("reading texts") as report:
        report(0)
        clock.now = 11.0
        report(180, "9 texts/s")
    assert capsys.readouterr().err == "reading texts 180, 9 texts/s\n"
    clock.now = 0.0
    with progress.progress("training", 1000) as report:
        report(0)
        for clock.now, done in ((30.0, 1), (50.0, 11), (70.0, 21), (2000.0, 1000)):
            report(done, "loss 1")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "training 1/1000 loss 1",  # which took the longest, and says nothing about the others
        "training 11/1000 loss 1  33 min left",
        "training 21/1000 loss 1  33 min left",
        "training 1000/1000 loss 1",
    ]


@pytest.mark.parametrize("pace, lines", [(0.1, ["work 5/1000  2 min left"]), (0.01, [])])
def test_long_work_says_early_how_long_it_takes(clock, capsys, pace, lines):
    with progress.progress("work", 1000) as report:
        for done in range(9):
            clock.now = 3.0 + pace * done if done else 0.0  # the first takes longest
            report(done)
    assert capsys.readouterr().err.splitlines() == lines


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (59.4, "59 s"), (60, "1 min"), (3540, "59 min"), (7800, "2 h 10 min"), (536400, "6 d 5 h")],
)
def test_durations_have_one_or_two_units(seconds, text):
    assert progress.duration(seconds) == text
