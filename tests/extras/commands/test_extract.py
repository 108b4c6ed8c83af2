"""`bert-tf extract`: the vectors of the oracle for every unit and pooling, in the order of the texts; its export."""

import dataclasses
import json
import os

import c_loader
import device_graphs
import faults
import numpy as np
import oracle
import pytest
import tensorflow as tf
import tiny

from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.cli import main
from bert_tf.extras.commands import extract
from bert_tf.heads.vectors import extraction
from bert_tf.runtime import progress

PIECES = [*tiny.SPECIAL, *"abcdefghijklm", *(f"##{letter}" for letter in "abcdefghijkl")]
WEIGHTS = tiny.pretrainer()[1]
LINES = ["a b", "", "cab é ||| kl m", "a b c d e f g h i j k l m", "m"]
# The pieces of LINES; the fourth is read in two windows of 10 pieces, each takes the pieces nearest to its middle.
TOKENS = ["[CLS] a b [SEP]", "[CLS] [SEP]", "[CLS] c ##a ##b e [SEP] k ##l m [SEP]"]
TOKENS += ["[CLS] a b c d e f g h i j k l m [SEP]", "[CLS] m [SEP]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint, and a file of texts."""
    folder = tmp_path_factory.mktemp("extract")
    checkpoint = Checkpoint(config=tiny.CONFIG, weights=WEIGHTS, vocabulary=PIECES, lower_case=True)
    formats.write(checkpoint, str(folder / "model"), "huggingface")
    (folder / "texts.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return folder


def encoded(tokens):
    """The oracle's answers for one row of tokens."""
    ids = np.array([[PIECES.index(token) for token in tokens.split()]])
    second = [number > tokens.split().index("[SEP]") for number in range(ids.size)]
    return oracle.encode(WEIGHTS, tiny.CONFIG, ids, np.array([second]).astype(int), np.array([ids.size]))


def states_of(number):
    """The states of a line's tokens, [tokens, layers + 1, D]."""
    if number != 3:
        return np.stack(encoded(TOKENS[number])["hidden_states"], 2)[0]
    first, second = ("[CLS] a b c d e f g h i j [SEP]", "[CLS] d e f g h i j k l m [SEP]")
    first, second = (np.stack(encoded(tokens)["hidden_states"], 2)[0] for tokens in (first, second))
    return np.concatenate([first[:8], second[5:]])  # a ... g of the one, h ... m of the other


def run(folder, *arguments, name="out.npz", lines="texts.txt"):
    """What the command writes, as arrays."""
    output, file = str(folder / name), str(folder / lines)
    command = ["extract", str(folder / "model"), "--file", file, "--output", output, "--overwrite"]
    assert main.main([*command, "--max_seq_length=12", "--doc_stride=3", *arguments]) == 0
    return dict(np.load(output))


def test_files_of_a_pattern_have_the_vectors_of_single_files(folder):
    pytest.importorskip("apache_beam", reason="pip install 'bert-tf[beam]'")
    for number, lines in enumerate((LINES[:2], LINES[2:])):
        (folder / f"many-{number}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    flags = ["--unit=sentence", "--max_seq_length=12", "--doc_stride=3", f"--input={folder}/many-*.txt"]
    assert main.main(["extract", str(folder / "model"), *flags, f"--output={folder}/vectors/*.npz"]) == 0
    actual = [np.load(folder / "vectors" / f"many-{number}.npz")["vectors"] for number in range(2)]
    np.testing.assert_allclose(np.concatenate(actual), run(folder, "--unit=sentence")["vectors"], atol=1e-6)


def test_token_embeddings_match_reference_in_texts_of_any_length(folder, capsys):
    actual = run(folder, "--layers=embeddings,-1,0", "--batch_size=2")
    expected = np.concatenate([states_of(number)[:, [0, 2, 1]] for number in range(5)])
    np.testing.assert_allclose(actual["vectors"], expected, atol=2e-5)
    assert actual["tokens"].tolist() == " ".join(TOKENS).split()
    assert actual["splits"].tolist() == [0, 4, 6, 16, 31, 34]
    assert "5 texts, 102 vectors of size 16" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["first", "mean"])
def test_word_embedding_is_first_or_mean_of_its_tokens(kind, folder):
    actual = run(folder, "--unit=word", f"--word_vectors={kind}")
    assert actual["tokens"][2:6].tolist() == ["cab", "é", "kl", "m"] and actual["splits"].tolist() == [
        0,
        2,
        2,
        6,
        19,
        20,
    ]
    assert actual["starts"][2:6].tolist() == [0, 4, 0, 3] and actual["ends"][2:6].tolist() == [3, 5, 2, 4]
    assert actual["segments"][2:6].tolist() == [0, 0, 1, 1]
    states = states_of(2)[:, -1]
    pieces = [states[1:4], states[4:5], states[6:8], states[8:9]]
    expected = [word[0] if kind == "first" else word.mean(0) for word in pieces]
    np.testing.assert_allclose(actual["vectors"][2:6], expected, atol=2e-5)


def test_whitespace_words_keep_their_punctuation(folder):
    (folder / "words.txt").write_text("a-b, m ||| kl m\n", encoding="utf-8")
    actual = run(folder, "--unit=word", "--words=spaces", "--word_vectors=mean", lines="words.txt")
    assert actual["tokens"].tolist() == ["a-b,", "m", "kl", "m"]
    assert (actual["starts"].tolist(), actual["ends"].tolist()) == ([0, 5, 0, 3], [4, 6, 2, 4])
    states = np.stack(encoded("[CLS] a [UNK] b [UNK] m [SEP] k ##l m [SEP]")["hidden_states"], 2)[0, :, -1]
    expected = [states[1:5].mean(0), states[5], states[7:9].mean(0), states[9]]
    np.testing.assert_allclose(actual["vectors"], expected, atol=2e-5)


@pytest.mark.parametrize(
    "pooling, pooled",
    [
        ("cls", lambda tokens: tokens[0]),
        ("mean", lambda tokens: tokens.mean(0)),
        ("max", lambda tokens: tokens.max(0)),
        ("mean_max", lambda tokens: np.append(tokens.mean(0), tokens.max(0))),
        ("last", lambda tokens: tokens[-1]),
        ("weighted_mean", lambda tokens: np.average(tokens, axis=0, weights=range(1, len(tokens) + 1))),
    ],
)
def test_texts_are_pooled_over_all_their_tokens(pooling, pooled, folder):
    actual = run(
        folder, "--unit=sentence", f"--pooling={pooling}", "--layers=-2,-1", "--layer_weights=0.5,2", "--normalize"
    )
    vectors = [pooled(states_of(number).transpose(0, 2, 1) @ [0, 0.5, 2]) for number in range(5)]
    expected = [vector / np.linalg.norm(vector) for vector in vectors]
    np.testing.assert_allclose(actual["vectors"], expected, atol=1e-5)


def test_pooler_output_is_that_of_the_first_window(folder):
    actual = run(folder, "--unit=sentence", "--pooling=pooled")
    rows = [*TOKENS[:3], "[CLS] a b c d e f g h i j [SEP]", TOKENS[4]]
    expected = [encoded(tokens)["pooled"][0] for tokens in rows]
    np.testing.assert_allclose(actual["vectors"], expected, atol=1e-5)


def test_long_texts_are_truncated_on_request(folder):
    command = ["extract", str(folder / "model"), f"--text={LINES[3]}", "--long_texts=cut", "--max_seq_length=8"]
    output = str(folder / "cut.npz")
    assert main.main([*command, "--output", output, "--overwrite"]) == 0
    actual = np.load(output)
    assert " ".join(actual["tokens"]) == "[CLS] a b c d e f [SEP]"
    np.testing.assert_allclose(actual["vectors"], encoded("[CLS] a b c d e f [SEP]")["tokens"][0], atol=2e-5)


def test_tables_have_pairs_and_ids_and_print_lines_without_output(folder, capsys):
    (folder / "pairs.tsv").write_text("q\tone\ttwo\n7\tcab é\tkl m\n8\ta\tb\n", encoding="utf-8")
    columns = ["--text_columns=one,two", "--id_column=q"]
    command = ["extract", str(folder / "model"), "--file", str(folder / "pairs.tsv"), "--max_seq_length=12"]
    assert main.main([*command, *columns]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["linex_index"], row["id"]) for row in rows] == [(0, "7"), (1, "8")]
    assert " ".join(item["token"] for item in rows[0]["features"]) == TOKENS[2]
    values = [item["layers"][0]["values"] for item in rows[0]["features"]]
    np.testing.assert_allclose(values, states_of(2)[:, -1], atol=2e-5)


@pytest.mark.eager
def test_progress_is_logged_for_long_work_without_a_terminal(folder, clock, capsys):
    run(folder, "--unit=sentence")
    assert capsys.readouterr().err == ""
    clock.tick = progress.SECONDS_BETWEEN_LINES
    run(folder, "--unit=sentence")
    stderr = capsys.readouterr().err.splitlines()
    assert stderr[0].startswith("extracting 1/5 ") and stderr[0].endswith(" texts/s")
    assert stderr[-1].startswith("extracting 5/5 ")


@pytest.mark.eager
def test_memory_is_bounded_and_rows_are_encoded_in_blocks(folder, monkeypatch):
    expected = run(folder)["vectors"]
    monkeypatch.setattr(extraction, "POSITIONS_AT_ONCE", 24)
    monkeypatch.setattr(extract, "WINDOW_BYTES", 4 * 12 * 16 * 2)
    held = []
    with faults.on_call(extract, "predict_in_order", lambda *_, **sizes: held.append(sizes)):
        np.testing.assert_allclose(run(folder)["vectors"], expected, atol=1e-6)
    assert held == [{"batch_size": 2, "window": 2}]


@pytest.fixture(scope="module")
def export(folder):
    """The folder of an export with two layers."""
    command = ["extract", str(folder / "model"), f"--export={folder / 'export'}", "--max_seq_length=12"]
    assert main.main([*command, "--layers=-1,embeddings", "--pooling=max", "--doc_stride=3"]) == 0
    return folder / "export"


@pytest.mark.slow
def test_export_runs_on_any_device(export):
    device_graphs.assert_runs_anywhere(export)


@pytest.mark.slow
def test_export_equals_the_command(export, folder):
    signatures = tf.saved_model.load(str(export)).signatures
    sentences = run(folder, "--layers=-1,embeddings", "--pooling=max", "--unit=sentence")["vectors"]
    np.testing.assert_allclose(signatures["serving_default"](text=tf.constant(LINES))["vectors"], sentences, atol=1e-5)
    actual, expected = signatures["tokens"](text=tf.constant(LINES)), run(folder, "--layers=-1,embeddings")
    is_token = tf.sequence_mask(actual["counts"]).numpy()
    assert actual["vectors"].shape == (5, 15, 2, 16) and not actual["vectors"].numpy()[~is_token].any()
    np.testing.assert_allclose(actual["vectors"].numpy()[is_token], expected["vectors"], atol=1e-5)
    assert [token.decode() for token in actual["tokens"].numpy()[is_token]] == expected["tokens"].tolist()
    for name in ("starts", "ends", "segments"):
        np.testing.assert_array_equal(actual[name].numpy()[is_token], expected[name])
        assert (actual[name].numpy()[~is_token] == -1).all()


@pytest.mark.slow
def test_export_runs_in_the_c_library_and_with_predict(export, folder, capsys):
    actual = c_loader.run_in_c(export, {"text": LINES}, ["vectors", "starts"], signature="tokens")
    expected = run(folder, "--layers=-1,embeddings")
    np.testing.assert_allclose(np.array(actual["vectors"][3], float), expected["vectors"][16:31], atol=1e-5)
    assert actual["starts"][2] == [-1, 0, 1, 2, 4, -1, 0, 1, 3, -1] + [-1] * 5
    capsys.readouterr()
    assert main.main(["predict", str(export), "--text=m", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["text"] == "m" and np.shape(row["vectors"]) == (2, 16)


def test_export_can_include_attention(folder, monkeypatch):
    calls = []
    monkeypatch.setattr("bert_tf.export.saved_model.export", lambda *arguments, **options: calls.append(options))
    arguments = ["extract", str(folder / "model"), f"--export={folder / 'looks'}", "--max_seq_length=12"]
    assert main.main([*arguments, "--attention"]) == 0
    (options,) = calls
    assert options["with_attention"] is options["about"]["attention"] is True
    assert options["examples"].keys() == {"serving_default", "tokens"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--attention", "--text=a"], "attention requires export"),
        (["--export=new", "--precision=auto"], "precision=auto suits this machine, and an export may run on another"),
        (["--layers=2"], "the model has 2 layers: 0 to 1, or -2 to -1"),
        (["--layers=sum_last_four"], "the model has 2 layers"),
        (["--layers=x"], "layers is 'x'; expected"),
        (["--pooling=mean"], "pooling requires unit=sentence"),
        (["--unit=word", "--normalize", "--pooling=max"], "pooling requires unit=sentence"),
        (["--word_vectors=mean"], "word_vectors requires unit=word"),
        (["--unit=sentence", "--pooling=pooled", "--layers=-2"], "uses the last layer: remove layers"),
        (["--max_seq_length=13"], "the model has 12 positions"),
        (["--max_seq_length=2"], "max_seq_length is 2; expected 3 or more"),
        (["--doc_stride=11"], "doc_stride is 11; expected 1 to 10"),
        (["--long_texts=cut", "--doc_stride=2"], "doc_stride requires long_texts=windows"),
        (["--batch_size=0"], "batch_size is 0"),
        (["--output=a.csv"], "expected a name that ends in .jsonl"),
        (["--format=npz"], "format requires output"),
        (["--file=none.txt"], "There is no file none.txt"),
        (["--file=empty.txt"], "empty.txt is empty"),
        (["--file=texts.txt", "--id_column=id"], "id_column require a table, and texts.txt is not one"),
        (["--file=-", "--text_columns=a"], "require a table, and standard input is not one"),
        (["--file=ids.jsonl", "--id_column=id"], "In line 2 of ids.jsonl the id is None; expected a text or a whole"),
        (["--layers=-1,-1", "--output=a.parquet"], "names -1 more than once"),
        (["--file=latin.txt", "--output=a.npz"], "latin.txt is not UTF-8: byte 1 of line 2"),
        (["--do_lower_case=false"], "is uncased. Remove the flag"),
    ],
)
def test_user_errors_are_one_sentence_and_leave_no_files(arguments, message, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (folder / "empty.txt").write_bytes(b"")
    (folder / "latin.txt").write_bytes(b"a\n\x81\n")
    (folder / "ids.jsonl").write_text('{"text": "a", "id": 7}\n{"text": "b"}\n')
    before = sorted(os.listdir(folder))
    has_source = any(argument.startswith(("--file", "--export")) for argument in arguments)
    all_arguments = arguments if has_source else [*arguments, "--text=a"]
    if not any(argument.startswith("--max") for argument in all_arguments):
        all_arguments = [*all_arguments, "--max_seq_length=12"]
    assert main.main(["extract", "model", *all_arguments]) == 2
    stderr = capsys.readouterr().err
    assert (
        message.replace("--", "") in stderr.replace("--", "")
        and stderr.count("\n") == 1
        and stderr.startswith("bert-tf: ")
    )
    assert sorted(os.listdir(folder)) == before


def test_cls_of_a_causal_model_is_refused(folder, capsys):
    causal = dataclasses.replace(tiny.CONFIG, is_causal=True)
    checkpoint = Checkpoint(config=causal, weights=WEIGHTS, vocabulary=PIECES, lower_case=True)
    formats.write(checkpoint, str(folder / "causal"), "native")
    command = ["extract", str(folder / "causal"), "--text=a b", "--unit=sentence", "--max_seq_length=12"]
    assert main.main([*command, "--pooling=cls"]) == 2
    assert "[CLS] of a left-to-right model sees no other token: choose last" in capsys.readouterr().err
    assert main.main([*command, "--pooling=last"]) == 0


def test_incomplete_model_folders_are_refused(folder, capsys):
    assert main.main(["extract", str(folder), "--text=a"]) == 2
    assert "No checkpoint format recognizes" in capsys.readouterr().err
    lacking = {name: array for name, array in WEIGHTS.items() if "pooler" not in name}
    checkpoint = Checkpoint(config=tiny.CONFIG, weights=lacking, vocabulary=PIECES, lower_case=None)
    formats.write(checkpoint, str(folder / "lacking"), "native")
    pooled = ["extract", str(folder / "lacking"), "--text=a", "--unit=sentence", "--max_seq_length=12"]
    assert main.main([*pooled, "--pooling=pooled"]) == 2
    assert "lacks 2 weights of its encoder, such as encoder/pooler/kernel: choose another" in capsys.readouterr().err
    assert main.main(pooled) == 0 and main.main([*pooled, "--do_lower_case=false"]) == 0
