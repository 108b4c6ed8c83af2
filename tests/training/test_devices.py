"""Where a GPU is visible, evaluation and training steps are traced without operations that only CPUs have."""

import device_graphs
import pytest
import tiny
from tensorflow.python.eager import context

from bert_tf.config.train_config import TrainConfig
from bert_tf.training import distribute
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.train_step import TrainStep

pytestmark = [pytest.mark.optimized_graphs, pytest.mark.slow]

CONFIG = TrainConfig(train_batch_size=4, eval_batch_size=4, max_eval_steps=1, num_train_steps=9, jit_compile="false")


def evaluate():
    """The graphs of an evaluation."""
    model, strategy = tiny.pretrainer()[0], distribute.create_strategy("one_device")
    evaluator = Evaluator(tiny.task(), model, CONFIG, strategy)
    with context.collect_graphs(optimized=False) as graphs:
        evaluator()
    return graphs


def train():
    """The graphs of a training step."""
    model, strategy = tiny.pretrainer()[0], distribute.create_strategy("one_device")
    step = TrainStep(tiny.task(), model, CONFIG, strategy)
    with context.collect_graphs(optimized=False) as graphs:
        step.step(tiny.tensors(tiny.batch()))
    return graphs


@pytest.mark.parametrize("run", [evaluate, pytest.param(train, marks=pytest.mark.slow)])
def test_no_cpu_only_operation_is_traced(run, as_platform, compiled_from):
    as_platform(onednn=True)
    assert any("FusedBatchNormV3" in device_graphs.operations(graph) for graph in run())
    as_platform("gpu")
    compiled_from()
    for graph in run():
        outputs = [node.name for node in graph.node if node.op == "_Retval"]
        assert not any(function.attr["_XlaMustCompile"].b for function in graph.library.function)
        device_graphs.assert_runs_on_a_gpu(graph, outputs)
