"""Wrong types of arguments are errors of the user, with the name of the argument."""

import checkpoint_cases
import numpy as np
import pandas as pd
import pytest
import tiny

import bert_tf
from bert_tf.errors import UserError
from bert_tf.model import heads

HALF = "\ud800"
NLI = ["contradiction", "entailment", "neutral"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("options")
    checkpoint_cases.write(folder / "nli", heads.Classifier(tiny.CONFIG, 3), NLI, "classes")
    checkpoint_cases.write(folder / "tags", heads.TokenClassifier(tiny.CONFIG, 3), ["O", "B-LOC", "I-LOC"], "tags")
    return folder


@pytest.fixture(scope="module")
def bert(folder):
    return bert_tf.load(folder / "nli")


@pytest.mark.parametrize(
    "options",
    [
        *({"batch_size": value} for value in ("a", 0, -1, 2.5, None, True)),
        *({"pooling": value} for value in (5, [], HALF)),
        *({"layers": value} for value in (5, None, ["last"])),
        *({"truncate_dim": value} for value in (1.5, 10**9, 1e9, 0, "4", True)),
        *({"max_seq_length": value} for value in ("x", 4.0, [])),
        *({"prompt": value} for value in (5, HALF, b"\xff")),
        {"prompt_name": 5},
        {"long_texts": np.zeros(2)},
        {"normalize": "no"},
        {"as_frame": "yes"},
        {"is_split_into_words": None},
    ],
)
def test_embed(bert, options):
    (name,) = options
    with pytest.raises(UserError, match=name):
        bert.embed(["a", "b"], **options)


@pytest.mark.parametrize("value", ["a", 0, -1, 2.5, None])
def test_batch_size_everywhere(bert, folder, value):
    with pytest.raises(UserError, match="batch_size"):
        bert.predict([("a", "b")], batch_size=value)
    tagger = bert_tf.load(folder / "tags")
    with pytest.raises(UserError, match="batch_size"):
        tagger.entities("a", batch_size=value)
    with pytest.raises(UserError, match="batch_size"):
        tagger.tags(["a"], batch_size=value)


def test_numbers_of_numpy_are_numbers(bert):
    options = {"batch_size": np.int64(1), "truncate_dim": np.int32(3), "max_seq_length": np.uint8(8)}
    assert bert.embed(["a", "b"], normalize=np.True_, **options).shape == (2, 3)


@pytest.mark.parametrize(
    "labels", [None, 5, float("nan"), HALF, [HALF], [None], {"text": ["a"]}, pd.DataFrame({"t": ["a"]})]
)
def test_labels_of_zero_shot(bert, labels):
    with pytest.raises(UserError, match="(?i)label"):
        bert.zero_shot("a", labels)


@pytest.mark.parametrize(
    "options", [{"hypothesis_template": 5}, {"hypothesis_template": f"{HALF}{{}}"}, {"multi_label": "no"}]
)
def test_options_of_zero_shot(bert, options):
    (name,) = options
    with pytest.raises(UserError, match=name):
        bert.zero_shot("a", ["b"], **options)


@pytest.mark.parametrize("options", [{"count": -1}, {"count": 1.5}, {"label": None}, {"label": 1}])
def test_options_of_rank(bert, options):
    (name,) = options
    with pytest.raises(UserError, match=name):
        bert.rank("a", ["b", "c"], **options)


@pytest.mark.parametrize("kind", [dict, pd.DataFrame])
def test_columns_of_tables_are_texts_and_their_names_are_not(bert, folder, kind):
    found = bert.rank("a", kind({"text": ["b", "c d"]}))
    assert found == bert.rank("a", ["b", "c d"])
    assert {each.text for each in found} == {"b", "c d"}
    tagger = bert_tf.load(folder / "tags")
    words = [["a", "b"], ["c"]]
    assert tagger.tags(kind({"text": words})) == tagger.tags(words)
    assert tagger.entities(kind({"text": words}), is_split_into_words=True) == tagger.entities(
        words, is_split_into_words=True
    )
    with pytest.raises(UserError, match="table with the columns text"):
        bert_tf.pretrain(texts=kind({"text": ["b"]}), output_dir=str(folder / "run"))


@pytest.mark.parametrize("path", [None, 5, b"x", [], ""])
@pytest.mark.parametrize("engine", [None, "onnx"])
def test_paths(path, engine):
    with pytest.raises(UserError, match="path is .*; expected"):
        bert_tf.load(path, engine=engine)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format_name": "os.path"}, "The module os.path is not a checkpoint format"),
        ({"format_name": 5}, "format_name is 5"),
        ({"special_tokens_in_strings": 5}, "special_tokens_in_strings is 5"),
        ({"special_tokens_in_strings": "[MASK]"}, "special_tokens_in_strings is"),
        ({"special_tokens_in_strings": [None]}, "special_tokens_in_strings is None"),
        ({"segments": 5}, "segments"),
        ({"segments": "three"}, "segments"),
        ({"trust_code": "no"}, "trust_code"),
        ({"engine": 5}, "engine is 5"),
        ({"engine": ["onnx"]}, "engine is"),
    ],
)
def test_arguments_of_load(folder, options, message):
    with pytest.raises(UserError, match=message):
        bert_tf.load(folder / "nli", **options)
