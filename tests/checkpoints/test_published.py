"""Names of published checkpoints, and paths that do not exist."""

import pathlib
import re

import pytest
from checkpoint_cases import checkpoint

from bert_tf.checkpoints import formats, published
from bert_tf.checkpoints.huggingface_layouts import BY_TYPE
from bert_tf.errors import UserError

DOCS = pathlib.Path(__file__).parents[2] / "docs" / "checkpoints.md"


@pytest.mark.parametrize("name", ["bert-base-uncased", "BERT-Base-Uncased"])
def test_published_name_is_fetched_from_its_owner_and_printed(name, tmp_path, hub, capsys):
    hub["google-bert/bert-base-uncased"] = tmp_path / "fetched"
    formats.write(checkpoint(), str(tmp_path / "fetched"), "huggingface")
    assert formats.read(name).config == checkpoint().config
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
        ("google/bigbird-roberta-base", "not supported; the nearest supported checkpoint is ModernBERT-base"),
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
        assert not published.nearest(name)
    named = re.findall("`([^`]+)`", table[table.index("| for |") : table.index("These names")])
    assert len(named) > 30 and {*named} <= published.PUBLISHED.keys()


def test_docs_list_the_nearest_of_every_other_architecture():
    table = DOCS.with_name("encoders.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| [^|]+ \| `([^`]+)` \|$", table, re.MULTILINE)
    assert len(rows) > 60 and {near for _, near in rows} == published.NEAREST.keys() <= published.PUBLISHED.keys()
    for kind, near in rows:
        assert kind not in BY_TYPE and (" of " in kind or published.nearest(f"{kind}:") == near)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mosaicml/mosaic-bert-base", "ModernBERT-base"),
        ("zhihan1996/DNABERT-2-117M", "ModernBERT-base"),
        ("jhu-clsp/mmBERT-base", "xlm-roberta-base"),
        ("vinai/bertweet-base", "xlm-roberta-base"),
        ("nomic-ai/nomic-embed-text-v2-moe", "multilingual-e5-base"),
        ("BAAI/bge-multilingual-gemma2", "bge-m3"),
        ("google/embeddinggemma-300m", "multilingual-e5-base"),
        ("microsoft/layoutlmv3-base", "roberta-base"),
        ("FacebookAI/xlm-mlm-en-2048", "xlm-roberta-base"),
        ("xlm-roberta-bse", None),
        ("new", None),
        ("gte-large", None),
    ],
)
def test_names_of_other_architectures_have_the_nearest(name, expected):
    assert published.nearest(name) == expected
