"""A budget of minutes: what counts, the schedule that follows, the end, and going on with the rest; and no biases."""

import dataclasses
import json

import faults
import numpy as np
import pytest
import tensorflow as tf
import tiny
from training_steps import trained

from bert_tf.config.train_config import TrainConfig
from bert_tf.errors import Interrupted, UserError
from bert_tf.model import weights
from bert_tf.training import budget, distribute, learning_rates, loop, metrics_log
from bert_tf.training.train_step import TrainStep

SIZES = {"train_batch_size": 4, "eval_batch_size": 4, "max_eval_steps": 1, "num_train_steps": 100}
CONFIG = TrainConfig(
    num_warmup_steps=50, budget_minutes=1.0, continuous_schedule=True, learning_rate=1.0, weight_decay=0.0, **SIZES
)
ONE_LAYER = dataclasses.replace(tiny.CONFIG, num_hidden_layers=1)


def test_steps_count_but_not_the_first_of_a_start_nor_what_is_between(clock):
    ours = budget.Budget(2)
    for seconds, before in ((50, 0), (10, 0), (20, 300), (80, 0), (30, 0)):
        clock.now += before
        if before:
            ours.restart_clock()
        clock.now += seconds
        ours.count()
        assert ours.is_over == (seconds == 30 or float(ours.used) >= 120)
    assert float(ours.used) == 10 + 20 + 80 + 30 and float(ours.share()) == 1
    assert str(ours) == "2.3 of 2 minutes" and budget.Budget(0).state() == {} and not budget.Budget(0).is_over


@pytest.mark.parametrize("share, expected", [(0.0, 0.0), (0.25, 1.0), (0.5, 2.0), (0.75, 1.0), (1.0, 0.0)])
def test_schedule_is_that_of_the_share_whatever_the_step(share, expected):
    plain = learning_rates.polynomial_schedule(2.0, 1000, 500, continuous=True)
    schedule = learning_rates.by_progress(plain, lambda: tf.constant(share), 1000)
    assert float(schedule(tf.constant(7))) == pytest.approx(expected)


@pytest.mark.eager
def test_training_ends_with_its_minutes_and_a_resumed_run_goes_on_with_them(tmp_path, clock, capsys):
    config = dataclasses.replace(CONFIG, save_checkpoints_steps=3, evaluates=False)

    def takes(*_, **__):
        clock.now += 15

    with faults.on_call(loop.TrainStep, "step", takes):
        killed = faults.on_call(metrics_log.MetricsLog, "add", Interrupted("killed", 15), at=4)
        with killed, pytest.raises(Interrupted):
            trained(tmp_path, config)  # after step 4; step 3 is saved, with the time of two
        assert trained(tmp_path, config)[0] == 6, (
            "the first step of the second start does not count, and two more end it"
        )
    assert "Continuing after step 3 with 0.5 of 1 minutes used." in capsys.readouterr().out
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    rates = {line["step"]: line["learning_rate"] for line in lines if "learning_rate" in line}
    assert rates[3] == pytest.approx(0.5), "of the time before: a quarter, half of the warm-up"
    assert rates[6] == pytest.approx(0.5), "three quarters: half of the decay"
    assert json.loads((tmp_path / "run.json").read_text())["budget_seconds"] == 60


def test_biases_stay_zero_and_all_else_is_trained():
    strategy = distribute.create_strategy("one_device")
    config = TrainConfig(num_warmup_steps=0, train_biases=False, **SIZES)
    model = tiny.pretrainer(ONE_LAYER)[0]
    values = weights.variables(model)
    for name, x in values.items():
        if name.startswith("encoder/") and name.endswith("/bias"):
            x.assign(tf.zeros_like(x))
    before = {name: x.numpy() for name, x in values.items()}
    TrainStep(tiny.task(), model, config, strategy).step(tiny.tensors(tiny.batch()))
    for name, x in values.items():
        is_bias = name.startswith("encoder/") and name.endswith("/bias")
        assert np.array_equal(x.numpy(), before[name]) == is_bias, name


def test_a_negative_budget_is_refused():
    with pytest.raises(UserError, match="budget_minutes is -1; expected 0 or more"):
        TrainConfig(budget_minutes=-1)
