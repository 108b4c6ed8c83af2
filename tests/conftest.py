"""Settings every test shares: quiet logs, the CPU as two logical devices, the same random numbers in every run.

Both must be settled before TensorFlow starts, so they stand here and not in a fixture.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # the expected numbers are those of a CPU
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras  # noqa: E402
import pytest  # noqa: E402
import tensorflow as tf  # noqa: E402

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)


@pytest.fixture(autouse=True)
def same_random_numbers():
    """Seeds Python, NumPy and TensorFlow before each test, so that no test depends on the ones before it."""
    keras.utils.set_random_seed(20181011)
