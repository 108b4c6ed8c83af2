"""What comes after a run: commands after a command, calls of the Python API after a function."""

import json

import pytest

from bert_tf.reports import next_steps


@pytest.mark.parametrize(
    ("kind", "inputs", "call"),
    [
        ("class", {"text_a": None}, 'bert.predict("A text.").label'),
        ("class", {"text_a": None, "text_b": None}, 'bert.predict(("A text.", "Another text.")).label'),
        ("tags", {"text": None}, 'bert.entities("Ann sings in Ulm.")'),
        (None, {}, 'bert.fill_mask("The [MASK] is open.")'),
    ],
)
def test_next_steps_are_calls_for_a_program(tmp_path, kind, inputs, call):
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "about.json").write_text(json.dumps({"inputs": inputs}))
    if kind:
        (tmp_path / "task.json").write_text(json.dumps({"kind": kind, "labels": ["x", "y"]}))
    first, second, *others = [step for step, _ in next_steps.next_calls(str(tmp_path))]
    assert (first, second) == (f"bert = bert_tf.load({str(tmp_path)!r})", call)
    assert [step.partition("(")[0] for step in others] == ([] if kind else ["bert_tf.fine_tune"])
    assert next_steps.next_commands(str(tmp_path))[0][0].startswith("bert-tf predict ")
