"""Whether a model cuts texts, from the files of its folder, without its weights."""

import json

import pytest

from bert_tf.checkpoints import sentence_transformers
from bert_tf.config.sentence_vectors import SentenceVectors
from bert_tf.export import whole_texts

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a b |".split()
ENGINE = {
    **{"max_positions": 6, "pad_id": 0, "precision": "float32", "token_outputs": [], "has_masks": False},
    **{"seconds": {}, "signature_def": {}, "check": {}},
}


@pytest.fixture
def export(tmp_path):
    """Makes an export of a model of rows of 6 tokens; vectors: of texts; engine: its settings."""

    def made(vectors=None, engine=None, **about):
        extra = tmp_path / "assets.extra"
        extra.mkdir()
        (tmp_path / "saved_model.pb").touch()
        (tmp_path / "about.json").write_text(json.dumps(about))
        (extra / "vocab.txt").write_text("\n".join(WORDS) + "\n")
        (extra / "tokenizer_config.json").write_text('{"do_lower_case": true}')
        sizes = {"hidden_size": 4, "num_attention_heads": 1, "num_hidden_layers": 1, "intermediate_size": 4}
        (extra / "bert_config.json").write_text(json.dumps({"vocab_size": 8, "max_position_embeddings": 6, **sizes}))
        sentence_transformers.write(str(extra), vectors, 4)
        if engine:
            (tmp_path / "engines" / "onnx").mkdir(parents=True)
            (tmp_path / "engines" / "host.json").write_text(json.dumps({**ENGINE, **engine}))
        return str(tmp_path)

    return made


def test_vectors_of_texts_up_to_their_length(export):
    folder = export(SentenceVectors("mean", max_seq_length=6, prompts={"query": "b b "}))
    cuts = whole_texts.of(folder)
    assert [cuts([text]) for text in ("", "a", "a a a a", "a a a a a", "A" * 300)] == [False] * 3 + [True, False]
    assert [cuts([text]) for text in ("a ||| b b", "a ||| b b b")] == [False, True], "a pair has one special token more"
    assert [whole_texts.of(folder, "query")([text]) for text in ("a a", "a a a")] == [False, True]


def test_vectors_in_windows_are_of_all_tokens(export):
    assert not whole_texts.of(export(SentenceVectors("mean")))(["a " * 100])


@pytest.mark.parametrize(
    ("windows", "lengths"),
    [
        (None, [(1, 2, False), (1, 3, True)]),
        ({"stride": 2, "most": 2, "pooling": "mean"}, [(1, 4, False), (1, 5, True)]),
    ],
)
def test_pairs_and_windows_as_an_engine_reads_them(export, windows, lengths):
    settings = {"stages": "texts", "max_seq_length": 6, "texts": 2, "truncation": "longest_first", "windows": windows}
    folder = export(engine=settings, kind="classes", labels=["x", "y"])
    assert [(a, b, whole_texts.of(folder)(["a " * a, "b " * b])) for a, b, _ in lengths] == lengths


def test_pairs_of_an_export_without_an_engine(export, tmp_path):
    inputs = {"text_a": None, "text_b": None}
    folder = export(kind="classes", labels=["x", "y"], inputs=inputs)
    (tmp_path / "assets.extra" / "tokenizer_config.json").write_text('{"do_lower_case": true, "model_max_length": 6}')
    cuts = whole_texts.of(folder)
    assert [cuts(["a " * count, "b"]) for count in (0, 2, 3, 9)] == [False, False, True, True]


def test_export_that_does_not_say_it(export, tmp_path):
    assert whole_texts.of(export()) is None
    (tmp_path / "assets.extra" / "bert_config.json").unlink()
    assert whole_texts.of(str(tmp_path)) is None
