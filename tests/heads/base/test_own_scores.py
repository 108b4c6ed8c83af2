"""A score from outside of the package as the criterion of a text task."""

import numpy as np
import pytest

from bert_tf.errors import UserError
from bert_tf.heads.base import text_head
from bert_tf.heads.classes import Classes


def test_custom_metric_comes_first_beside_the_others(tmp_path, monkeypatch):
    (tmp_path / "my_scores.py").write_text("def correct(labels, predictions):\n    return sum(labels == predictions)")
    monkeypatch.syspath_prepend(tmp_path)
    goal = Classes(["no", "yes"])
    functions = text_head._criterion_first(("accuracy",), "my_scores:correct", goal)
    assert list(functions) == ["my_scores:correct", "accuracy"]
    labels, predictions = np.array([0, 1, 1]), np.array([0, 1, 0])
    assert [function(labels, predictions) for function in functions.values()] == [2, pytest.approx(2 / 3)]
    with pytest.raises(UserError, match="no score 'my_scores:wrong'"):
        text_head._criterion_first(("accuracy",), "my_scores:wrong", goal)
