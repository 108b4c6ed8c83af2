"""host.json: values of other kinds than an export has, each named with its place, before the model is loaded."""

import copy
import json
import math

import numpy as np
import pytest

from bert_tf.config.sentence_vectors import VectorLayer
from bert_tf.data.tag_schemes import TagSet
from bert_tf.errors import UserError
from bert_tf.export import engine_network, host_settings
from bert_tf.heads import masked_lm
from bert_tf.heads.base.text_head import Windows
from bert_tf.heads.classes import Classes
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.answering import Answering
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.heads.tags.tag_windows import TagWindows
from bert_tf.heads.tags.tagging import Tagging
from bert_tf.heads.vectors.vector_choice import VectorChoice, choose_layers
from bert_tf.runtime import head_records

DENSE = VectorLayer("dense", "tanh", arrays={"kernel": np.ones([2, 2], np.float32)})
CHOICE = VectorChoice(layers=choose_layers("last", 2), unit="sentence", max_seq_length=12, stride=0, after=(DENSE,))
OF_HEADS = {
    "texts": Classes(["a", "b"]).configured(max_seq_length=12, windows=Windows(stride=3, most=3)).host_settings,
    "tags": Tagging(TagSet(("O", "B-X", "I-X"), "iob2"), TagWindows(max_seq_length=12, stride=3)).host_settings,
    "questions": Answering(QuestionWindows(12, 2, 5), Search()).host_settings,
    "masks": masked_lm.host_settings("masked"),
    "vectors": CHOICE.host_settings(),
}
OF_ENGINES = {
    "precision": "float32",
    "token_outputs": [],
    "has_masks": False,
    "shares_rows": ["onnx"],
    "seconds": {"onnx": 0.5},
    "signature_def": {},
    "other_signatures": [],
    "check": {"rows": [{"ids": [2, 3], "segments": [0, 0], "positions": []}], "numbers": {"logits": [[0.5]]}},
}
NOT_POSITIVE = ("x", 0, -1, 1.5, 10**30, None, True, math.nan, [1])
NO_LENGTH, NO_COUNT = (*NOT_POSITIVE, 2, 13), ("x", -1, 1.5, 10**30, None, True)
NO_NAME, NO_FLAG = ("x", 3, None, []), ("x", 1, None)
PLACES = [  # and values that are not of their kinds
    *(("texts", place, NOT_POSITIVE) for place in ("texts", "windows.stride", "windows.most", "max_positions")),
    *(("texts", place, NO_LENGTH) for place in ("max_seq_length",)),
    ("texts", "pad_id", NO_COUNT),
    ("texts", "windows.pooling", NO_NAME),
    ("texts", "truncation", ("x", 3, [])),
    ("texts", "windows", ("x", 3, [1], True)),
    ("tags", "windows.max_seq_length", NO_LENGTH),
    ("tags", "windows.stride", (*NOT_POSITIVE, 11)),
    ("tags", "scheme", NO_NAME),
    ("questions", "windows.max_seq_length", NO_LENGTH),
    ("questions", "windows.max_query_length", (*NO_COUNT, 9)),
    *(
        ("questions", place, NOT_POSITIVE)
        for place in ("windows.doc_stride", "windows.separators", "search.n_best_size", "search.max_answer_length")
    ),
    ("questions", "search.temperature", (*NOT_POSITIVE[:3], ["a"], math.inf, 10**400)),
    ("questions", "search.threshold", ("x", None, math.nan)),
    ("questions", "search.has_null", NO_FLAG),
    ("masks", "predictions", NOT_POSITIVE),
    ("masks", "lm_kind", NO_NAME),
    *(("vectors", place, NO_NAME) for place in ("unit", "pooling", "word_vectors", "words")),
    ("vectors", "pooling", ("mean+x", "pooled+mean", "")),
    ("vectors", "max_seq_length", NO_LENGTH),
    ("vectors", "stride", NO_COUNT),
    ("vectors", "truncate_dim", ("x", 0, -1, 1.5, True)),
    ("vectors", "prompt", (3, None)),
    *(("vectors", place, NO_FLAG) for place in ("include_prompt", "is_normalized_last")),
    ("vectors", "after", ("x", None, [3], [{"kind": "x"}], [{"kind": "dense", "activation": "x", "arrays": {}}])),
    ("engines", "precision", ("half", 3, None)),
    ("engines", "token_outputs", (3, [3], None)),
    ("engines", "has_masks", NO_FLAG),
    ("engines", "shares_rows", (3, [3])),
    ("engines", "seconds", (3, {"onnx": "x"}, {"onnx": -1}, {"onnx": 10**400})),
    ("engines", "check.rows", (3, [3], [{}], [{"ids": [10**30], "segments": [0], "positions": []}])),
    ("engines", "check.numbers", (3, {"logits": 3}, None)),
]


def settings_of(kind):
    """The settings of an export, for stages or engines."""
    added = {"max_positions": 12, "pad_id": 0}
    return {**OF_HEADS["texts"], **OF_ENGINES, **added} if kind == "engines" else {**OF_HEADS[kind], **added}


def read(folder, kind, settings):
    """The content of host.json after it was written with these settings."""
    name = engine_network.FOLDER if kind == "engines" else host_settings.EXTRA
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "host.json").write_text(json.dumps(settings))
    return (engine_network.settings_of if kind == "engines" else host_settings.read)(str(folder))


@pytest.mark.parametrize(("kind", "place", "bad"), PLACES, ids=[f"{kind}-{place}" for kind, place, _ in PLACES])
def test_value_of_another_kind_is_named(tmp_path, kind, place, bad):
    original = settings_of(kind)
    assert read(tmp_path, kind, original) == json.loads(json.dumps(original))
    for value in bad:
        settings = copy.deepcopy(original)
        *before, last = place.split(".")
        inner = settings
        for each in before:
            inner = inner[each]
        inner[last] = value
        with pytest.raises(UserError, match=f"host.json: {place} is .*; expected "):
            read(tmp_path, kind, settings)


@pytest.mark.parametrize("kind", OF_HEADS)
def test_missing_value_is_named(tmp_path, kind):
    for name in head_records.OF_HOST[kind].keys() - {"windows", "search", "truncation", "truncate_dim"}:
        settings = settings_of(kind)
        del settings[name]
        with pytest.raises(UserError, match=f"host.json: {name} is None; expected "):
            read(tmp_path, kind, settings)


def test_settings_of_third_party_stages_are_theirs(tmp_path):
    settings = {"stages": "my_lab.stages", "windows": 3, "max_seq_length": "x", "max_positions": 12, "pad_id": 0}
    assert read(tmp_path, "texts", settings) == settings
