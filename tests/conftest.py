"""Settings every test shares: quiet logs, the CPU as two logical devices, the same random numbers in every run."""

import gc
import logging
import os
import random
import sys
import types

import numpy as np
import pytest

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # the expected numbers are those of a CPU
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # compiles in half the time

SEED = 20181011

# Files whose tests start processes or train, the longest first: begun last they would keep one process waiting.
LONGEST = "readme loop finetune_squad pretrain train_step sweep answering finetune ner stores classification".split()
LONGEST += "earlier_versions extract early_stopping saved_model tokenizer feature_tagging tag_serving".split()


def pytest_configure(config):
    """Starts TensorFlow, but not in a process that only hands tests to others."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    import warm

    warm.prepare()
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


@pytest.fixture
def anyio_backend():
    """What runs tests that are coroutines."""
    return "asyncio"


@pytest.fixture(autouse=True)
def same_random_numbers():
    """Seeds Python, NumPy and TensorFlow before each test, so that no test depends on the ones before it.

    Seeding TensorFlow empties its cache of kernels, a tenth of the time of the tests: it is left alone while nobody has
    drawn from its generator of operation seeds.
    """
    import keras
    from tensorflow.python.eager import context

    seeds = getattr(context.context(), "_rng", None)  # there once TensorFlow has been seeded
    if seeds is None or seeds.getstate() != random.Random(SEED).getstate():
        keras.utils.set_random_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)


@pytest.fixture(autouse=True)
def same_layer_names():
    """Lets Keras number layers from 0 in each test.

    TensorFlow keeps a kernel for each name and shape of a variable, which takes longer to make than the variable: with
    the names of an earlier test there is one already.
    """
    from keras.src.utils import naming

    naming.reset_uids()


@pytest.fixture(autouse=True)
def own_modules_end_with_their_test():
    """Forgets the package my_lab after a test: the next one has another folder of that name on its path."""
    yield
    if "my_lab" in sys.modules:
        for name in [name for name in sys.modules if name.partition(".")[0] == "my_lab"]:
            del sys.modules[name]


@pytest.fixture(autouse=True)
def own_log_propagates():
    """Lets pytest see the log of bert_tf, which scripts of earlier tests may have taken over."""
    logging.getLogger("bert_tf").propagate = True


@pytest.fixture
def as_platform(monkeypatch):
    """as_platform("gpu", onednn=True): what `runtime.backend` returns about the device; None: the truth.

    gpus: the number of GPUs. bfloat16, onednn: whether the device multiplies bfloat16, and uses oneDNN.
    """

    def pretend(platform=None, *, gpus=None, bfloat16=None, onednn=None):
        answers = {"platform": platform, "gpu_count": gpus, "has_bfloat16": bfloat16, "has_onednn": onednn}
        for name, answer in answers.items():
            if answer is not None:
                monkeypatch.setattr(f"bert_tf.runtime.backend.{name}", lambda answer=answer: answer)

    return pretend


@pytest.fixture
def has_tf32():
    """Returns whether TensorFlow multiplies float32 in TF32 on GPUs, which the test may change."""
    import tensorflow as tf

    before = tf.config.experimental.tensor_float_32_execution_enabled()
    yield tf.config.experimental.tensor_float_32_execution_enabled
    tf.config.experimental.enable_tensor_float_32_execution(before)


@pytest.fixture
def compiled_from(monkeypatch):
    """compiled_from(width, matrix): XLA compiles rows as wide as this, and updates of matrices as large as this."""

    def pretend(width=1, matrix=1):
        for name, least in (("LEAST_WIDTH", width), ("LEAST_MATRIX", matrix)):
            monkeypatch.setattr(f"bert_tf.model.xla_rowwise.{name}", least)

    return pretend


@pytest.fixture
def with_gpus(monkeypatch):
    """with_gpus(*gpus): a machine on which NVIDIA's driver lists these GPUs.

    others: it has accelerators that this driver does not list.
    """

    def pretend(*gpus, others=False):
        for name, value in (("DEVICE_FILES", ("/",) * (others or bool(gpus))), ("gpus", lambda: gpus)):
            monkeypatch.setattr(f"bert_tf.runtime.machine.{name}", value)

    return pretend


@pytest.fixture
def with_memory(monkeypatch):
    """with_memory(total, free): a machine with so many bytes of memory."""
    place = "bert_tf.runtime.machine.memory"
    return lambda total, free=None: monkeypatch.setattr(place, lambda: (total, total if free is None else free))


@pytest.fixture
def clock(monkeypatch):
    """clock.now: the seconds on the clock of progress and training; clock.tick: those that each look at it takes."""
    clock = types.SimpleNamespace(now=0.0, tick=0.0)

    def look():
        clock.now += clock.tick
        return clock.now

    for module in ("runtime.progress", "cli.text_progress", "training.metrics_log", "training.budget"):
        monkeypatch.setattr(f"bert_tf.{module}.time", types.SimpleNamespace(monotonic=look))
    return clock


@pytest.fixture
def hub(monkeypatch):
    """{handle: folder} of the models on hubs, or a function of the patterns of files; empty: there is no network."""
    folders = {}

    def fetch(handle, allow_patterns=None):
        if handle not in folders:
            raise ConnectionError("no network\nand a long story")
        return folders[handle](allow_patterns) if callable(folders[handle]) else str(folders[handle])

    for function in ("kagglehub.model_download", "huggingface_hub.snapshot_download"):
        monkeypatch.setattr(function, fetch)
    return folders


@pytest.fixture
def small_parts(monkeypatch):
    """Records are prepared in parts and buckets of some kilobytes of text."""
    monkeypatch.setattr("bert_tf.data.pretraining.buckets.BUCKET_BYTES", 6_000)
    monkeypatch.setattr("bert_tf.data.pretraining.stages.PART_BYTES", 4_000)


@pytest.fixture
def impatient(monkeypatch):
    """Locked folders are refused at once."""
    monkeypatch.setattr("bert_tf.runtime.folder_lock.PATIENCE", 0.0)


@pytest.fixture
def replicas_are_processes(monkeypatch):
    """Replicas on this machine count as processes that train together."""
    import tensorflow as tf

    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", tf.distribute.MirroredStrategy)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Sets whether graphs are optimized and built at all, by the marks of the test.

    Tests run without TensorFlow's graph optimizer: it takes a tenth of the time and changes rounding only. Those of
    what it makes of our graphs are marked `optimized_graphs`, those to which graphs are nothing `eager`.
    """
    import tensorflow as tf

    wanted = item.get_closest_marker("optimized_graphs") is not None
    if tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"] is wanted:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not wanted})
    tf.config.run_functions_eagerly(item.get_closest_marker("eager") is not None)


def pytest_sessionfinish():
    gc.freeze()  # the process ends: nothing in it is worth a search for garbage


def pytest_collection_modifyitems(items):
    """Slow files first, otherwise in the usual order."""
    place = {f"test_{name}": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))
