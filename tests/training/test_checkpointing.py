"""Checkpoints: saved whole, passed over when damaged."""

import os

import faults
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.errors import TrainingError, UserError
from bert_tf.runtime import files
from bert_tf.training.checkpoint_paths import newest_first
from bert_tf.training.checkpointing import TrainState, load_weights


def state_in(folder, **options):
    """A state of one weight, a step and a place in shuffled data; what a run has, in small."""
    parts = {
        "weights": {"a/kernel": tf.Variable(tf.zeros([50, 50]))},
        "optimizer": {"step": tf.Variable(0, dtype=tf.int64)},
        "data": iter(tf.data.Dataset.range(100).shuffle(100, seed=1).repeat()),
    }
    return parts, TrainState(str(folder), parts, **options)


def advance(parts, steps):
    seen = []
    for _ in range(steps):
        seen.append(int(next(parts["data"])))
        parts["weights"]["a/kernel"].assign_add(tf.ones([50, 50]))
        parts["optimizer"]["step"].assign_add(1)
    return seen


def test_weights_step_and_data_position_are_restored(tmp_path):
    parts, state = state_in(tmp_path)
    advance(parts, 5)
    state.save(5)
    expected = advance(parts, 5)
    again, restored = state_in(tmp_path)
    assert restored.restore() == 5
    assert float(again["weights"]["a/kernel"][0, 0]) == 5 and int(again["optimizer"]["step"]) == 5
    assert advance(again, 5) == expected


def test_training_starts_at_step_0_without_checkpoint(tmp_path):
    assert state_in(tmp_path)[1].restore() == 0


@pytest.mark.parametrize("damage", ["cut short", "overwritten", "emptied", "index cut short", "data removed"])
def test_damaged_checkpoint_is_skipped_for_an_older_one(tmp_path, caplog, damage):
    parts, state = state_in(tmp_path)
    advance(parts, 4)
    state.save(4)
    advance(parts, 4)
    state.save(8)
    data, index = tmp_path / "ckpt-8.data-00000-of-00001", tmp_path / "ckpt-8.index"
    content = data.read_bytes()
    if damage == "cut short":
        data.write_bytes(content[:3000])
    elif damage == "overwritten":
        data.write_bytes(content[:3000] + b"\1" * (len(content) - 3000))
    elif damage == "emptied":
        data.write_bytes(b"")
    elif damage == "index cut short":
        index.write_bytes(index.read_bytes()[:40])
    else:
        data.unlink()
    again, restored = state_in(tmp_path)
    assert restored.restore() == 4
    assert float(again["weights"]["a/kernel"][49, 49]) == 4
    assert "Skipped the damaged checkpoint" in caplog.text


@pytest.mark.parametrize("missing, left", [("data-00000-of-00001", 2), ("index", 1)])
def test_half_written_checkpoint_on_a_store_is_not_taken(missing, left):
    folder = f"ram://half_written_{left}"
    parts, state = state_in(folder)
    state.save(4)
    advance(parts, 4)
    state.save(8)
    files.remove(f"{folder}/ckpt-8.{missing}")
    again, restored = state_in(folder)
    assert restored.restore() == 4 and len(newest_first(folder)) == left
    advance(again, 4)
    restored.save(8)
    assert state_in(folder)[1].restore() == 8


def test_unreadable_checkpoints_are_not_overwritten(tmp_path):
    parts, state = state_in(tmp_path)
    state.save(4)
    (tmp_path / "ckpt-4.data-00000-of-00001").write_bytes(b"")
    with pytest.raises(UserError, match="None of the checkpoints in .* can be read"):
        state_in(tmp_path)[1].restore()


def test_only_the_newest_are_kept(tmp_path):
    parts, state = state_in(tmp_path)
    for step in range(1, 7):
        state.save(step)
    assert [os.path.basename(path) for path in newest_first(str(tmp_path))] == ["ckpt-6", "ckpt-5", "ckpt-4"]


@pytest.mark.parametrize(
    "step, left, reason, advice",
    [
        (8, [], "No space left on device", "Free some space"),
        (4, ["ckpt-4.data-00000-of-00001", "ckpt-4.index"], "x is not a directory", "Fix that"),
    ],
    ids=["anew", "over an older one"],
)
def test_failed_save_is_reported_and_saved_checkpoints_kept(tmp_path, step, left, reason, advice):
    parts, state = state_in(tmp_path)
    state.save(4)

    def full(checkpoint_number):
        (tmp_path / f"ckpt-{step}_temp").mkdir()
        (tmp_path / f"ckpt-{step}.data-00000-of-00002").write_bytes(b"half")
        raise tf.errors.UnknownError(None, None, reason)

    message = f"step {step} could not be written .*{reason}.* Kept: ckpt-4. {advice} and run"
    with faults.on_call(state.manager, "save", full), pytest.raises(TrainingError, match=message):
        state.save(step)
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith(f"ckpt-{step}")) == left
    assert state_in(tmp_path)[1].restore() == 4


def test_non_chief_worker_writes_nothing_into_the_folder(tmp_path):
    parts, state = state_in(tmp_path / "shared", writes=False, max_to_keep=0)
    state.save(4)
    state.save(8)
    assert not (tmp_path / "shared").exists()
    assert [os.path.basename(path) for path in newest_first(state.scratch)] == ["ckpt-8"]
    state.close()
    assert not os.path.exists(state.scratch)


def test_checkpoints_are_found_in_exactly_the_named_folder(tmp_path):
    for name, step in (("mrpc[1]", 3), ("mrpc1", 8)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"ckpt-{step}.index").touch()
    assert newest_first(str(tmp_path / "mrpc[1]")) == [str(tmp_path / "mrpc[1]" / "ckpt-3")]


def test_weights_alone_can_be_loaded(tmp_path):
    parts, state = state_in(tmp_path)
    advance(parts, 3)
    state.save(3)
    fresh = {"a/kernel": tf.Variable(tf.zeros([50, 50]))}
    load_weights(fresh, str(tmp_path))
    np.testing.assert_array_equal(fresh["a/kernel"], np.full((50, 50), 3.0))
    with pytest.raises(UserError, match="There is no checkpoint"):
        load_weights(fresh, str(tmp_path / "none"))
