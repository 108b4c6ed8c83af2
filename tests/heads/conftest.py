"""Settings that tests of heads share."""

import pytest


@pytest.fixture(scope="module")
def strategies():
    """One device, and two."""
    from bert_tf.training import distribute

    return [distribute.create_strategy("one_device"), distribute.create_strategy("mirrored", num_logical_devices=2)]
