"""The folder of a run: written whole, going on with the same flags only, without lines of steps that are done again."""

import errno
import json
import os
import time

import faults
import pytest

from bert_tf.errors import UserError
from bert_tf.runtime import files
from bert_tf.runtime.json_files import read_json
from bert_tf.training.run_directory import RunFolder


def opened(path, *, is_chief=True, **decisive):
    folder = RunFolder(str(path), is_chief=is_chief)
    folder.open(name="trial", command=["paint.py", "--size"], flags={**decisive, "free": 1}, decisive=decisive)
    return folder


def lines(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_run_json_records_command_versions_machine_and_times(tmp_path):
    folder = opened(tmp_path / "deep" / "run", size="tiny")
    folder.update(parameters=7)
    run = json.loads((tmp_path / "deep" / "run" / "run.json").read_text())
    assert (run["name"], run["parameters"], run["finished"]) == ("trial", 7, None)
    assert (run["flags"], run["decisive"]) == ({"size": "tiny", "free": 1}, {"size": "tiny"})
    assert {"python", "tensorflow", "keras"} <= set(run["versions"]) and run["machine"]["cores"] >= 1
    assert run["started"].endswith("+00:00") and run["command"] == ["paint.py", "--size"]


def test_resumed_run_keeps_its_start_and_adds_phases(tmp_path):
    first = opened(tmp_path, size="tiny")
    first.update(started="2026-01-01T00:00:00+00:00")
    first.update(phases={"train": 100.0}, micro_batches=4, parameters=7)
    first.close()
    second = opened(tmp_path, size="tiny")
    with second.phase("train"):
        pass
    with second.phase("export"):
        pass
    run = read_json(tmp_path / "run.json")
    assert run["started"] == "2026-01-01T00:00:00+00:00"
    assert run["micro_batches"] == 4 and "parameters" not in run, "what the loop goes on with"
    assert run["phases"]["train"] == pytest.approx(100.0, abs=1) and 0 <= run["phases"]["export"] < 1


def test_repeating_a_complete_phase_takes_no_time_unless_it_trains(tmp_path):
    def repeat(name, checkpoint=""):
        folder = opened(tmp_path, size="tiny")
        with folder.phase(name):
            time.sleep(0.02)
            if checkpoint:
                (tmp_path / "checkpoints").mkdir(exist_ok=True)
                (tmp_path / "checkpoints" / checkpoint).touch()
        folder.close()
        return read_json(tmp_path / "run.json")["phases"][name]

    assert repeat("evaluate") == repeat("evaluate")
    first = repeat("train", "ckpt-2.index")
    assert repeat("train") == first < repeat("train", "ckpt-4.index")


def test_failing_phase_is_timed_and_its_error_raised(tmp_path):
    folder = opened(tmp_path)
    with pytest.raises(KeyError), folder.phase("train"):
        raise KeyError
    assert "train" in read_json(tmp_path / "run.json")["phases"]


def test_changed_config_is_refused_with_every_difference(tmp_path):
    opened(tmp_path, size="tiny", rate=0.1, same=1).close()
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(UserError) as error:
        opened(tmp_path, size="base", rate=0.2, same=1)
    assert "size: 'tiny' there, 'base' now; rate: 0.1 there, 0.2 now" in str(error.value)
    assert "same" not in str(error.value).partition("(")[2].partition(")")[0]
    assert (tmp_path / "run.json").read_bytes() == before


def test_second_run_in_a_folder_is_refused_until_the_first_closes(tmp_path, impatient):
    import psutil

    first = opened(tmp_path)
    first.log(1, {"loss": 1.0})
    with pytest.raises(UserError, match="is using"):
        RunFolder(str(tmp_path)).claim()
    with pytest.raises(UserError, match=f"This process is using {tmp_path}"):
        opened(tmp_path)
    run = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(run | {"process": 1}))
    with pytest.raises(UserError, match=f"Another process .1. is using {tmp_path}"):
        opened(tmp_path)
    first.close()
    assert not [file.path for file in psutil.Process().open_files() if file.path.startswith(str(tmp_path))]
    opened(tmp_path)


def test_path_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "run").write_text("text")
    with pytest.raises(UserError, match="run cannot be written to .*choose another output_dir"):
        opened(tmp_path / "run")


@pytest.mark.parametrize("name, character", [("mrpc[1]", r"\["), ("a]", "]"), ("a*", r"\*"), ("a?b", r"\?")])
def test_path_with_glob_characters_is_refused(tmp_path, name, character):
    with pytest.raises(UserError, match=f"contains {character}, .*: choose another output_dir"):
        opened(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_damaged_run_json_does_not_stop_a_run(tmp_path):
    (tmp_path / "run.json").write_text('{"name": "tri')
    opened(tmp_path, size="tiny")
    assert read_json(tmp_path / "run.json")["decisive"] == {"size": "tiny"}


def test_non_chief_worker_writes_nothing(tmp_path):
    folder = opened(tmp_path / "run", is_chief=False, size="tiny")
    folder.update(parameters=7)
    folder.log(1, {"loss": 1.0})
    folder.write_json("eval_results.json", {})
    folder.forget_metrics_after(0)
    with folder.phase("train"):
        pass
    folder.finish()
    assert not (tmp_path / "run").exists()


def test_metrics_are_json_lines_and_tensorboard_events(tmp_path):
    import tensorflow as tf

    folder = opened(tmp_path)
    folder.log(1, {"loss": 2.5, "rate": float("nan")})
    folder.log(2, {"loss": float("inf")})
    assert lines(tmp_path) == [{"step": 1, "loss": 2.5, "rate": None}, {"step": 2, "loss": None}]
    (events,) = (tmp_path / "events").iterdir()
    records = [tf.compat.v1.Event.FromString(r.numpy()) for r in tf.data.TFRecordDataset(str(events))]
    tags = [(record.step, value.tag) for record in records for value in record.summary.value]
    assert tags == [(1, "loss"), (1, "rate"), (2, "loss")]


@pytest.mark.parametrize("damaged", ["", "[1]\n", "3\n", '{"loss": 3}\n', '{"step": null}\n', "nonsense\n"])
@pytest.mark.parametrize("end", ["", "\n", '\n{"step": 3}\n{"ste'])
def test_later_and_invalid_metric_lines_are_dropped_on_resume(tmp_path, damaged, end):
    folder, kept = opened(tmp_path), [{"step": 1, "loss": 3}, {"step": 2, "loss": 2}, {"step": 2, "eval_loss": 2}]
    (tmp_path / "metrics.jsonl").write_text(damaged + "\n".join(map(json.dumps, kept)) + end)
    folder.forget_metrics_after(2)
    folder.log(3, {"loss": 1})
    assert lines(tmp_path) == [*kept, {"step": 3, "loss": 1.0}]


def test_evaluation_that_a_resumed_run_repeats_is_logged_once(tmp_path):
    folder = opened(tmp_path)
    for _ in range(3):  # killed after the last step, twice
        folder.forget_metrics_after(2)
        folder.log(2, {"loss": 3})
        folder.log(2, {"eval_loss": 2})
        folder.close()
        folder = opened(tmp_path)
    folder.log(2, {"eval_loss": 1})
    assert lines(tmp_path) == [{"step": 2, "loss": 3.0}, {"step": 2, "eval_loss": 2.0}, {"step": 2, "eval_loss": 1.0}]


@pytest.mark.parametrize("number, code", [(errno.ENOSPC, 1), (errno.EIO, 1), (errno.EROFS, 2), (errno.EACCES, 2)])
def test_folder_that_cannot_be_written_to_has_the_exit_code_of_its_cause(tmp_path, number, code):
    refusal = pytest.raises(UserError, match=f"cannot be written to .{os.strerror(number)}.: choose another")
    with faults.on_call(files, "check_writable", OSError(number, os.strerror(number))), refusal as error:
        opened(tmp_path / "run")
    assert error.value.exit_code == code


def test_empty_output_dir_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="output_dir is empty"):
        opened("")
    assert os.listdir(tmp_path) == []


def test_missing_metrics_file_is_fine(tmp_path):
    opened(tmp_path).forget_metrics_after(0)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_failed_write_keeps_the_old_file(tmp_path):
    folder = opened(tmp_path)
    folder.write_json("eval_results.json", {"loss": 1})
    with pytest.raises(TypeError):
        folder.write_json("eval_results.json", {"loss": object()})
    assert read_json(tmp_path / "eval_results.json") == {"loss": 1}
