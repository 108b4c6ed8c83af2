"""run_pretraining.py from the command line: one tiny run with all its outputs, and user errors in one line."""

import json
import pathlib
import shutil

import faults
import numpy as np
import pytest
import script_runs
import tiny

from bert_tf.checkpoints import formats
from bert_tf.cli import main
from bert_tf.errors import UserError
from bert_tf.recipes.pretraining import planning, preparation
from bert_tf.recipes.pretraining.pretraining_flags import Flags

TINY = {
    "model_size": "tiny",
    "vocab_size": 150,
    "max_seq_length": 32,
    "max_predictions_per_seq": 5,
    "dupe_factor": 2,
    "train_batch_size": 4,
    "eval_batch_size": 4,
    "num_train_steps": 4,
    "num_warmup_steps": 1,
    "save_checkpoints_steps": 2,
    "precision": "float32",
    "export_engines": "none",
}
SENTENCES = ("The fox runs over the hill.", "A dog sleeps in the sun.", "Rain falls on the old house.", "Birds sing.")
MEASURES = {"loss", "masked_lm_loss", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy"}


def script(output_dir, *, eager=True, **flags):
    """Runs the script on a small model, see `script_runs.script`."""
    return script_runs.script("run_pretraining.py", eager=eager, **{**TINY, "output_dir": output_dir, **flags})


def write_texts(folder):
    """Twelve documents, one sentence per line as in the original, and files that make a run fail."""
    folder.mkdir(exist_ok=True)
    documents = ["\n".join(SENTENCES[i % 4 :] + SENTENCES[: i % 4]) for i in range(12)]
    (folder / "good.txt").write_text("\n\n".join(documents) + "\n")
    (folder / "one.txt").write_text("\n".join(SENTENCES) + "\n")
    (folder / "empty.txt").write_text("")
    (folder / "no_text").mkdir()
    (folder / "binary.txt").write_bytes(b"text\0\1\2 and more")
    (folder / "latin.txt").write_bytes("Grüße aus Köln.\n".encode("latin-1"))
    (folder / "other_field.jsonl").write_text(json.dumps({"body": "The fox runs."}) + "\n")
    (folder / "no_mask.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nfox\n")
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nfox\n")
    (folder / "config.json").write_text(json.dumps({"vocab_size": 7, "hidden_size": 24, "num_attention_heads": 2}))
    return folder


def files_of(texts):
    """The flags that name the texts of `whole_run`."""
    return {"input_file": texts / "good.txt", "eval_file": texts / "one.txt"}


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """The folder of texts, the run folder and the output of the script: one run for all tests of this file."""
    folder = tmp_path_factory.mktemp("whole")
    texts = write_texts(folder)
    code, output, errors = script(folder / "run", eager=False, **files_of(texts))
    assert code == 0, errors
    return texts, folder / "run", output


def lines_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("changes, expected", [({}, 90), ({"warmup_proportion": 0.5}, 700)])
def test_a_run_that_goes_on_for_longer_keeps_its_warm_up(tmp_path, changes, expected):
    recorded = {"num_train_steps": 900, "num_warmup_steps": 90, "warmup_proportion": 0.1}
    (tmp_path / "run.json").write_text(json.dumps({"flags": recorded}))
    tiny.touch_checkpoint(tmp_path, 65)
    seen = []

    def check(options, facts):
        seen.append(options.training)
        raise UserError("so far")

    with faults.on_call(preparation, "check", check), pytest.raises(UserError, match="so far"):
        planning.make(Flags.of_program({"num_train_steps": 1400, "output_dir": str(tmp_path), **changes}))
    assert (seen[0].num_train_steps, seen[0].num_warmup_steps) == (1400, expected)


def test_run_writes_all_its_outputs(whole_run):
    _, run, output = whole_run
    written = {path.name for path in run.iterdir()}
    assert written == {
        *("run.json", "metrics.jsonl", "events", "checkpoints", "records", "eval_results.json", "examples.json"),
        *("bert_config.json", "tokenizer_config.json", "vocab.txt", "task.json", "export", "report.html", "README.md"),
    }
    assert f"the report is {run / 'report.html'}" in output
    assert (
        "\nOn held-out text, after " in output
        and "The export fills masks:" in output
        and f"\n  bert-tf serve {run} " in output
    )
    assert (run / "export" / "saved_model.pb").stat().st_size > 0
    assert "<svg" in (run / "report.html").read_text()
    assert any(path.name.startswith("events.") for path in (run / "events").iterdir())
    assert sorted(path.name for path in (run / "checkpoints").glob("*.index")) == ["ckpt-2.index", "ckpt-4.index"]


def test_files_of_a_run_match_its_flags(whole_run):
    _, run, _ = whole_run
    run_json = json.loads((run / "run.json").read_text())
    assert run_json["finished"]
    assert run_json["flags"]["num_train_steps"] == 4
    assert list(run_json["phases"]) == ["prepare", "train", "evaluate", "export"]
    config = json.loads((run / "bert_config.json").read_text())
    vocabulary = (run / "vocab.txt").read_text().split()
    assert (config["num_hidden_layers"], config["hidden_size"], config["vocab_size"]) == (2, 128, len(vocabulary))
    assert vocabulary[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert set(json.loads((run / "eval_results.json").read_text())) == MEASURES | {"unigram_masked_lm_loss"}


def test_every_step_is_logged_once(whole_run):
    _, run, _ = whole_run
    training = [line for line in lines_of(run) if "loss" in line]
    assert [line["step"] for line in training] == [1, 2, 3, 4]
    for line in training:
        assert set(line) == MEASURES | {"step", "learning_rate", "gradient_norm", "tokens_per_second"}
        assert all(isinstance(value, int | float) for value in line.values())
    held_out = [line["step"] for line in lines_of(run) if "eval_loss" in line]
    assert held_out[0] == 2


def test_evaluation_of_a_text_has_the_scores_of_training(whole_run, capsys):
    texts, run, _ = whole_run
    assert main.main(["evaluate", str(run), f"--file={texts / 'one.txt'}", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    of_training = json.loads((run / "eval_results.json").read_text())
    assert result["scores"].keys() == MEASURES | {"masked_lm_perplexity"}
    assert {name: result["scores"][name] for name in MEASURES} == {name: of_training[name] for name in MEASURES}
    assert main.main(["evaluate", str(run), f"--file={texts / 'empty.txt'}"]) == 2
    assert "contains no text at all" in capsys.readouterr().err


@pytest.mark.slow
def test_second_phase_with_longer_rows_starts_from_the_weights_and_vocabulary_of_the_first(whole_run, tmp_path):
    """Learning rate 0: the step changes nothing, so every weight must still be that of the first phase."""
    texts, first, _ = whole_run
    longer = {"max_seq_length": 512, "max_predictions_per_seq": 77, "num_train_steps": 1, "num_warmup_steps": 0}
    cheap = {"learning_rate": 0, "train_batch_size": 2, "do_eval": False, "do_export": False}
    second = tmp_path / "long"
    code, output, errors = script(
        second,
        input_file=texts / "good.txt",
        init_checkpoint=first,
        model_size=None,
        vocab_size=None,
        **longer,
        **cheap,
    )
    assert code == 0, errors
    before, after = (formats.read(path) for path in (first, second))
    assert f"{len(before.weights)} weights loaded, 0 newly initialized, 0 unused, 0 mismatched" in output
    assert after.config == before.config and after.vocabulary == before.vocabulary
    assert after.weights.keys() == before.weights.keys()
    for name, array in before.weights.items():
        np.testing.assert_array_equal(after.weights[name], array, err_msg=name)
    lengths = json.loads((second / "run.json").read_text())["text_statistics"]["train"]
    assert lengths["longest"] > 32


def test_finished_run_does_nothing(whole_run):
    texts, run, _ = whole_run
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "run.json"}
    code, output, _ = script(run, **files_of(texts))
    assert code == 0
    assert "This run is finished" in output
    assert {path: path.read_bytes() for path in before} == before


def test_changed_config_is_refused_with_the_flag_that_differs(whole_run):
    texts, run, _ = whole_run
    code, _, errors = script(run, **files_of(texts), learning_rate=0.5)
    assert code == 2
    assert errors == [
        f"run_pretraining.py: {run} contains a run with a different configuration (learning_rate: 5e-05 there, "
        f"0.5 now). Choose another --output_dir, such as {run}-2, or the same flags to continue it."
    ]


@pytest.mark.slow
def test_prepared_records_are_reused_with_other_training_flags(tmp_path):
    options = {"input_file": write_texts(tmp_path) / "one.txt", "compress_records": True}
    code, output, _ = script(tmp_path / "run", **options, prepare_only=True)
    assert code == 0
    assert "no true random next sentence" in output
    assert all(shard["file"].endswith(".tfrecord.gz") for shard in manifest(tmp_path / "run")["shards"])
    code, _, errors = script(tmp_path / "run", **options, learning_rate=1e30, num_warmup_steps=0)
    assert code == 1
    assert "Training stopped in step" in errors[-1]
    assert not any("Traceback" in line for line in errors)


@pytest.mark.slow
def test_runs_with_other_masks_share_records(tmp_path):
    options = {"input_file": write_texts(tmp_path) / "good.txt", "records_dir": tmp_path / "shared"}
    assert script(tmp_path / "first", **options, prepare_only=True)[0] == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "shared").iterdir()}
    shutil.copy(tmp_path / "first" / "vocab.txt", tmp_path / "words.txt")  # the name of the vocabulary does not matter
    options |= {"vocab_file": tmp_path / "words.txt", "masking_mix": "100/0/0", "num_train_steps": 2}
    assert script(tmp_path / "second", **options, do_export=False)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "shared").iterdir()} == before
    assert (tmp_path / "second" / "eval_results.json").exists()
    assert not any((tmp_path / run / "records").exists() for run in ("first", "second"))
    code, _, errors = script(tmp_path / "third", **options, next_sentence_weight=0)
    assert (code, len(errors)) == (2, 1) and "shared contains records made with a different" in errors[0]


def test_without_pairs_there_is_one_pass_by_default(tmp_path):
    for number, options in enumerate(({}, {"static_masking": True})):
        options |= {"input_file": write_texts(tmp_path / str(number)) / "good.txt", "dupe_factor": None}
        assert script(tmp_path / f"run{number}", **options, next_sentence_weight=0, prepare_only=True)[0] == 0
    assert [manifest(tmp_path / f"run{number}")["wanted"]["dupe_factor"] for number in range(2)] == [1, 10]


def manifest(run):
    return json.loads((run / "records" / "manifest.json").read_text())


ERRORS = {
    "missing input": ({"input_file": "{texts}/nothing.txt"}, "No file matches {texts}/nothing.txt"),
    "empty file": ({"input_file": "{texts}/empty.txt"}, "contains no text at all"),
    "empty folder": ({"input_file": "{texts}/no_text"}, "contains no .txt"),
    "binary file": ({"input_file": "{texts}/binary.txt"}, "is not text: byte 4 is NUL"),
    "latin-1 file": ({"input_file": "{texts}/latin.txt"}, "is not UTF-8: byte 2 is 0xfc"),
    "no such field": ({"input_file": "{texts}/other_field.jsonl"}, "(its fields: body)"),
    "empty eval_file": ({"eval_file": "{texts}/empty.txt"}, "eval_file={texts}/empty.txt contains no text"),
    "vocabulary without mask": ({"vocab_file": "{texts}/no_mask.txt"}, "has no [MASK]"),
    "vocabulary of another size": (
        {"vocab_file": "{texts}/vocab.txt", "bert_config_file": "{texts}/config.json"},
        "has 6 tokens, but the model expects 7",
    ),
    "no configuration": ({"bert_config_file": "{texts}/nothing.json"}, "expected a BERT configuration"),
    "no generator for it": (
        {"replaced_tokens": True, "encoder": "xlnet"},
        "replaced_tokens requires encoder=deberta_v2 or electra, and the encoder is xlnet",
    ),
    "both ways from the left": ({"encoder": "lstm", "left_to_right": True}, "omit left_to_right"),
    "too long": ({"max_seq_length": 513}, "the model has 512 positions: choose a shorter length, or pass"),
    "too short": ({"max_seq_length": 4, "max_predictions_per_seq": 2}, "max_seq_length=4; expected"),
    "unknown flag": ({"learning_rat": 1}, "Did you mean --learning_rate?"),
    "wrong type": ({"vocab_size": "many"}, "--vocab_size=many: expected a whole number."),
    "wrong choice": (
        {"optimizer": "sgd"},
        "expected one of adamw, adamw_corrected, lamb, muon, or a module of your own",
    ),
    "not a number": ({"learning_rate": "nan"}, "--learning_rate=nan: expected a finite number"),
    "seed of 64 bits": ({"random_seed": 2**40}, "random_seed is 1099511627776; expected a whole number from 0"),
    "negative weight": ({"next_sentence_weight": -1}, "next_sentence_weight is -1.0"),
    "words without whole words": ({"chinese_word_segmentation": True}, "do_whole_word_mask or max_span_words too"),
    "minutes and steps": ({"budget_minutes": 1}, "remove num_train_steps, or pass"),
    "no processes": ({"num_workers": -1}, "num_workers is -1"),
    "no devices": ({"num_logical_devices": 0}, "num_logical_devices is 0"),
    "uneven micro-batches": ({"num_accumulation_steps": 3}, "choose num_accumulation_steps that divides it"),
    "uneven replicas": ({"num_logical_devices": 3}, "choose a multiple of 3"),
    "alone among workers": ({"distribution_strategy": "multi_worker"}, "needs TF_CONFIG"),
    "no checkpoint": ({"init_checkpoint": "{texts}/nothing"}, "There is no checkpoint {texts}/nothing"),
    "not trained": ({"do_train": False}, "train first, or pass init_checkpoint"),
    "records in a file": ({"records_dir": "{texts}/good.txt"}, "good.txt, which is a file: pass the name of a folder"),
    "folder is a file": ({"output_dir": "{texts}/good.txt"}, "cannot be written to"),
    "folder in a file": ({"output_dir": "{texts}/good.txt/run"}, "cannot be written to"),
}


@pytest.mark.parametrize("error", ERRORS)
def test_user_error_is_one_line_and_leaves_no_files(error, tmp_path):
    texts = write_texts(tmp_path)
    before = sorted(tmp_path.iterdir())
    flags, expected = ERRORS[error]
    flags = {name: str(value).format(texts=texts) for name, value in flags.items()}
    code, _, errors = script(**{"output_dir": tmp_path / "run", "input_file": texts / "good.txt", **flags})
    assert code == 2
    assert len(errors) == 1
    assert errors[0].startswith("run_pretraining.py: ")
    assert expected.format(texts=texts).replace("--", "") in errors[0].replace("--", "")  # with and without dashes
    assert sorted(tmp_path.iterdir()) == before


def test_batch_that_exceeds_memory_is_refused_at_once(tmp_path):
    if any(pathlib.Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("the memory of an accelerator is not known")
    texts = write_texts(tmp_path)
    code, _, errors = script(
        tmp_path / "run", input_file=texts / "good.txt", train_batch_size=20_000_000, model_size="large"
    )
    assert (code, len(errors)) == (2, 1)
    assert "raise num_accumulation_steps" in errors[0]
    assert not (tmp_path / "run").exists()
