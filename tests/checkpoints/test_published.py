"""Names of published checkpoints, and paths that do not exist."""

import pathlib
import re

import pytest
from checkpoint_cases import checkpoint

from bert_tf.checkpoints import formats, other_architectures, published
from bert_tf.checkpoints.huggingface_layouts import BY_TYPE
from bert_tf.errors import UserError

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "checkpoints.md"


@pytest.mark.parametrize("name", ["bert-base-uncased", "BERT-Base-Uncased"])
def test_published_name_is_fetched_from_its_owner_and_printed(name, tmp_path, monkeypatch, capsys):
    folder = str(tmp_path / "fetched")
    formats.write(checkpoint(), folder, "huggingface")
    handles = []
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download", lambda handle, allow_patterns: handles.append(handle) or folder
    )
    assert formats.read(name).config == checkpoint().config
    assert handles[0] == "google-bert/bert-base-uncased"
    assert capsys.readouterr().err == f"{name} is hf://google-bert/bert-base-uncased.\n"


def test_local_folder_takes_precedence_over_published_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    formats.write(checkpoint(), "bert-base-uncased", "native")
    assert formats.read("bert-base-uncased").config == checkpoint().config


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/nope", r"^There is no checkpoint /nope: [^\n]*\.ckpt\.$"),
        ("my_run", "^There is no checkpoint my_run: "),
        ("bert-base-uncasd", "Did you mean bert-base-uncased"),
        ("google/bigbird-roberta-base", "BigBird is not supported, and ModernBERT-base is the nearest"),
        ("somebody/bert-of-mine", "write hf://somebody/bert-of-mine"),
    ],
)
def test_missing_path_is_reported_as_missing(path, expected):
    with pytest.raises(UserError, match=expected):
        formats.locate(path)


def test_docs_list_every_published_name():
    table = DOCS.read_text(encoding="utf-8")
    for name, (owner, _, purpose) in published.PUBLISHED.items():
        assert f"| `{name}` | `hf://{owner}/{name}` | {purpose} |" in table
        assert not other_architectures.advice_for_name(name)
    named = re.findall("`([^`]+)`", table[table.index("| for |") : table.index("These names")])
    assert len(named) > 30 and {*named} <= published.PUBLISHED.keys()


def test_docs_list_the_nearest_of_every_other_architecture():
    table = DOCS.with_name("encoders.md").read_text(encoding="utf-8")
    for kind, (name, nearest, _) in other_architectures.OTHERS.items():
        assert f"| `{kind}` | {name} | `{nearest}` |" in table and nearest in published.PUBLISHED
        assert kind not in BY_TYPE
