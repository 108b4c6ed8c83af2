"""What GPUs and TPUs compile: the training and evaluation of every task, in static shapes, without the host."""

import dataclasses
import re

import numpy as np
import pytest
import tagging_cases
import tensorflow as tf
import tiny
from training_steps import CONFIG, learner, passes

from bert_tf.data.examples import Example
from bert_tf.data.questions import Question
from bert_tf.errors import UserError
from bert_tf.export import host, host_settings, network
from bert_tf.export.keras_network import KerasNetwork
from bert_tf.heads.base.text_head import Windows
from bert_tf.heads.choice import MultipleChoice
from bert_tf.heads.classes import Classes
from bert_tf.heads.multi_label import MultiLabel
from bert_tf.heads.regression import Regression
from bert_tf.heads.span.answer_search import Search
from bert_tf.heads.span.answering import Answering
from bert_tf.heads.span.question_windows import QuestionWindows
from bert_tf.heads.vectors.extraction import Extractor
from bert_tf.heads.vectors.vector_choice import VectorChoice, choose_layers
from bert_tf.model import heads, packing
from bert_tf.tasks.task import FineTuningTask
from bert_tf.text.host_tokenizer import create_host_tokenizer
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training import distribute
from bert_tf.training.evaluator import Evaluator
from bert_tf.training.train_step import TrainStep

COMPILED = dataclasses.replace(CONFIG, jit_compile="true", eval_batch_size=4, use_one_hot_embeddings="true")
MODEL = dataclasses.replace(tiny.CONFIG, num_hidden_layers=1, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
TOKENIZER = Tokenizer([*tiny.SPECIAL, *"the fox ran on a mat .".split()])
# Operations that run on the host, or whose results have a shape that depends on values.
NOT_COMPILED = re.compile(
    "PyFunc|String|Lookup|HashTable|Unique|^Where$|Ragged|Print|Assert|Summary|SparseToDense|^Bincount"
)


def texts(goal, labels, count=1, windows=None):
    columns = ("the fox ran on", "a mat . the fox ran", "on a mat")[:count]
    rows = [Example(str(number), columns, label, f"line {number}") for number, label in enumerate(labels)]
    splits = dict.fromkeys(("train", "dev"), lambda: rows)
    return FineTuningTask("tiny", splits, goal.configured(max_seq_length=12, texts=count, windows=windows), TOKENIZER)


def questions():
    rows = [Question(name, "the fox ?", "a fox ran on the mat .", (("fox", 2),), True) for name in "abc"]
    splits = dict.fromkeys(("train", "dev"), lambda: rows)
    windows = QuestionWindows(max_seq_length=12, doc_stride=3, max_query_length=2)
    return FineTuningTask("tiny", splits, Answering(windows, Search(n_best_size=4, max_answer_length=6)), TOKENIZER)


def tags(folder):
    path = folder / "tags.txt"
    path.write_text(tagging_cases.FILE, encoding="utf-8")
    return tagging_cases.task_of(str(path))


TASKS = {
    "pairs": lambda folder: texts(Classes(["no", "yes"]), ["no", "yes", "no"], count=2),
    "windows": lambda folder: texts(
        Classes(["no", "yes"]), ["no", "yes"], windows=Windows(stride=4, most=3, pooling="mean")
    ),
    "regression": lambda folder: texts(Regression(), ["1", "2.5", "3"]),
    "multi_label": lambda folder: texts(MultiLabel(["no", "yes"]), ["no,yes", "", "no"]),
    "choice": lambda folder: texts(MultipleChoice(2), ["0", "1", "0"], count=3),
    "tags": tags,
    "questions": lambda folder: questions(),
}


def operations(graph):
    """The types of all operations of a graph and of the functions that it calls."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return {node.op for node in nodes}


def assert_compiles(function, *arguments):
    """Asserts that XLA compiles a function to static shapes, without a call to the host."""
    compiled = tf.function(function, jit_compile=True, autograph=False)
    unsuitable = sorted(filter(NOT_COMPILED.search, operations(compiled.get_concrete_function(*arguments).graph)))
    assert not unsuitable
    code = compiled.experimental_get_compiler_ir(*arguments)(stage="hlo")
    assert "<=" not in code, "a dynamic dimension is written <=N"
    assert not re.search(r"\b(infeed|outfeed|send|recv|after-all)\b|callback", code), "the host takes part"


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_gradients_and_evaluation_of_every_task_compile(name, tmp_path):
    task, strategy = TASKS[name](tmp_path), distribute.create_strategy("one_device")
    model = task.create_model(dataclasses.replace(MODEL, vocab_size=task.tokenizer.size))
    train_step = TrainStep(task, model, COMPILED, strategy)
    evaluator = Evaluator(task, model, COMPILED, strategy)

    def gradients(batch):
        return train_step._gradients(batch, task.loss_weights(batch), tf.constant([1, 2]))

    assert_compiles(gradients, next(iter(task.train_batches(4, 1))))
    assert_compiles(evaluator._on_replica, next(iter(task.eval_batches(4, next(iter(task.eval_splits.values()))))))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["choice", "windows", "tags", "questions"])  # the others are evaluated as these are
def test_evaluation_without_xla_has_nothing_of_a_cpu_on_a_gpu(name, tmp_path, as_platform, compiled_from):
    as_platform("gpu", onednn=True)
    compiled_from()
    task, strategy = TASKS[name](tmp_path), distribute.create_strategy("one_device")
    model = task.create_model(dataclasses.replace(MODEL, vocab_size=task.tokenizer.size))
    evaluator = Evaluator(task, model, dataclasses.replace(COMPILED, jit_compile="false"), strategy)
    batch = next(iter(task.eval_batches(4, next(iter(task.eval_splits.values())))))
    graph = evaluator._evaluate_batch.get_concrete_function(batch).graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    assert "FusedBatchNormV3" not in {node.op for node in nodes}
    assert not any(function.attr["_XlaMustCompile"].b for function in graph.library.function)
    loops = [node.device for node in nodes if node.op in ("While", "StatelessWhile")]
    assert loops and all("CPU:0" in device for device in loops), "texts are packed on the host"


ANSWERED = {
    "pairs": lambda folder: (TASKS["pairs"](folder), ["the fox ran"], ["on a mat"]),
    "questions": lambda folder: (TASKS["questions"](folder), ["the fox ?"], ["a fox ran on the mat ."]),
}


@pytest.mark.parametrize("name", ANSWERED)
def test_answers_compile(name, tmp_path):
    task, *texts = ANSWERED[name](tmp_path)
    model = task.create_model(dataclasses.replace(MODEL, vocab_size=task.tokenizer.size))
    on_host = create_host_tokenizer(task.tokenizer.vocabulary)
    settings = host_settings.of_model(task.host_settings, model, on_host.pad_id)
    stages = host.stages(settings, {"kind": task.head.kind, "labels": list(task.head.labels)}, on_host)
    compiled = KerasNetwork(model, "the model", settings, "true")
    rows, _ = stages.read([[each for (each,) in texts]])
    (call,) = packing.static_planner(12, texts_per_row=2, rows=(1,)).plan([len(row.ids) for row in rows])
    inputs = network.inputs_of(rows, compiled.settings, call)
    assert_compiles(compiled._function.python_function, tiny.tensors(inputs))


def test_whole_pretraining_step_and_evaluation_compile():
    train_step = learner(dataclasses.replace(COMPILED, num_accumulation_steps=2), model_config=MODEL)
    evaluator = Evaluator(train_step.task, train_step.model, COMPILED, train_step.strategy)
    batch = tiny.tensors(tiny.batch())
    assert_compiles(train_step._on_replica, batch)
    assert_compiles(evaluator._on_replica, batch)


def test_text_embeddings_compile():
    choice = VectorChoice(layers=choose_layers("embeddings,-1", 1))
    extractor = Extractor(heads.BertModel(MODEL), TOKENIZER, choice)
    rows = [host.Row([1] * size, [1] * size) for size in (5, 7, 3, 9)]
    (call,) = packing.static_planner(12, texts_per_row=2, rows=(2,)).plan([len(row.ids) for row in rows])
    settings = {"pad_id": 0, "has_masks": False, network.SHARES_ROWS: True}
    assert_compiles(extractor.states, tiny.tensors(network.inputs_of(rows, settings, call)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.strings.length(tf.strings.as_string(x)),
        lambda x: tf.py_function(lambda y: y, [x], tf.int32),
        lambda x: tf.boolean_mask(x, x > 0),
    ],
)
def test_host_operations_and_dynamic_shapes_are_detected(function):
    with pytest.raises((AssertionError, tf.errors.OpError, ValueError)):
        assert_compiles(function, tf.constant([1, 0, 2]))


def test_one_hot_embedding_lookup_and_gradients_match_gather():
    batch = tiny.tensors(tiny.batch())
    train_steps = [learner(dataclasses.replace(CONFIG, use_one_hot_embeddings=flag)) for flag in ("auto", "true")]
    assert [step.model.encoder.embeddings.one_hot for step in train_steps] == [False, True]
    gather, one_hot = (step.model.encoder.embeddings for step in train_steps)
    arguments = batch["token_ids"], batch["segment_ids"], None
    layout = train_steps[0].model.encoder.layout(batch)
    np.testing.assert_array_equal(gather(*arguments, layout=layout), one_hot(*arguments, layout=layout))
    expected, ours = (passes(step)(batch) for step in train_steps)
    for one, other in zip(expected, ours, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_encoder_without_bert_embeddings_refuses_one_hot_only_if_required():
    config = dataclasses.replace(CONFIG, use_one_hot_embeddings="true")
    lstm = dataclasses.replace(tiny.CONFIG, encoder="lstm")
    with pytest.raises(
        UserError, match="use_one_hot_embeddings requires BERT's embeddings, and encoder=lstm has others"
    ):
        learner(config, model_config=lstm)
    heads.BertModel(lstm).encoder.configure_training(one_hot="auto")
