"""Settings every test shares: quiet logs, the CPU as two logical devices, the same random numbers in every run."""

import gc
import os
import random
import sys

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
