"""Notebooks, with a stand-in for IPython: when there is one, the bar under a cell, warnings as they are."""

import contextlib
import io
import logging
import sys
import types

import pytest

from bert_tf.errors import UserError
from bert_tf.runtime import progress, terminal


@pytest.fixture
def shown(monkeypatch):
    """What a notebook would show: the last content of each display."""
    contents = []

    def display(content, display_id):
        contents.append(content)
        place = len(contents) - 1
        return types.SimpleNamespace(update=lambda new: contents.__setitem__(place, new))

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.HTML, ipython.display.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    return contents


def test_progress_is_a_bar_in_a_notebook(shown, capsys):
    assert progress.is_notebook()
    with progress.progress("training", 3) as report:
        for done in range(4):
            report(done, "loss <1>")
    assert shown == [
        '<progress value="3" max="3" style="vertical-align: middle"></progress> '
        "<code>training 3/3 loss &lt;1&gt;</code>"
    ]
    assert capsys.readouterr().err == ""


def test_a_terminal_with_ipython_is_no_notebook(shown, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=types.SimpleNamespace))
    assert not progress.is_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not progress.is_notebook()


def test_a_mistake_is_its_sentence_without_a_traceback():
    assert UserError("Row 0 has no 'label'.")._render_traceback_() == ["UserError: Row 0 has no 'label'."]


def test_warnings_are_printed_as_they_are_unless_the_program_logs(monkeypatch):
    log, root, error = logging.getLogger("bert_tf"), logging.getLogger(), io.StringIO()
    for logger in (root, log):
        monkeypatch.setattr(logger, "handlers", [])
    with contextlib.redirect_stderr(error):
        with terminal.plain_warnings():
            logging.basicConfig()  # as a library does that logs meanwhile
            log.warning("2 rows are left out.")
        assert error.getvalue() == "2 rows are left out.\n"
        assert (log.handlers, log.propagate, root.handlers) == ([], True, [])
        logging.basicConfig()
        with terminal.plain_warnings():
            log.warning("1 row is left out.")
    assert error.getvalue().endswith("WARNING:bert_tf:1 row is left out.\n")
