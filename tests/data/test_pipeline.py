"""Datasets: order, seeds and batches."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data.pipeline import batch_dataset, batch_indices, with_seeds


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_shuffled_position_does_not_depend_on_file_position(seed):
    count, epochs = 1024, 8
    batches = batch_indices(count, 256, seed=seed).take(epochs * count // 256)
    order = np.concatenate([batch.numpy() for batch in batches]).reshape(epochs, count)
    np.testing.assert_array_equal(np.sort(order), np.tile(np.arange(count), (epochs, 1)))
    for epoch in order:
        file_order, neighbours = np.corrcoef(np.arange(count), epoch)[0, 1], np.corrcoef(epoch[1:], epoch[:-1])[0, 1]
        assert max(abs(file_order), abs(neighbours)) < 4 / np.sqrt(count)  # four standard deviations


@pytest.mark.parametrize("count, size", [(1003, 8), (50, 16), (10, 4), (3, 4), (1, 1)])
def test_grouped_batches_hold_the_examples_of_an_epoch_as_random_ones_do(count, size):
    lengths = np.random.default_rng(1).integers(3, 400, count)
    steps = -(-3 * count // size)  # three epochs
    grouped, random = (
        np.stack([batch.numpy() for batch in batch_indices(count, size, seed=2, lengths=given).take(steps)])
        for given in (lengths, None)
    )
    np.testing.assert_array_equal(np.sort(grouped.ravel()), np.sort(random.ravel()))
    again = batch_indices(count, size, seed=2, lengths=lengths).skip(steps - 1)
    np.testing.assert_array_equal(next(iter(again)), grouped[-1])  # depends on nothing before it
    if count > 1000:
        spread, usual = (np.ptp(lengths[batches], 1).mean() for batches in (grouped, random))
        assert spread < 0.1 * usual
        first = lengths[grouped[: count // size]].mean(1)
        assert abs(np.corrcoef(first, np.arange(len(first)))[0, 1]) < 4 / np.sqrt(len(first)), "long and short in turn"
        other = next(iter(batch_indices(count, size, seed=3, lengths=lengths)))
        assert other.numpy().tolist() != grouped[0].tolist()


def test_seeds_differ_by_position_and_base_seed():
    def seeds(seed):
        return [int(value) for _, value in with_seeds(tf.data.Dataset.range(50), seed=seed)]

    assert seeds(1) == seeds(1) and len({*seeds(1), *seeds(2), *seeds(2**40)}) == 150


def test_eval_batches_are_padded_with_zero_rows():
    values = {"a": tf.range(1, 6), "b": tf.ones([5, 2]), "c": tf.constant(list("vwxyz")), "d": tf.constant([True] * 5)}
    first, second = batch_dataset(tf.data.Dataset.from_tensor_slices(values), 3, pad_rows=True)
    assert first["a"].numpy().tolist() == [1, 2, 3]
    assert second["a"].numpy().tolist() == [4, 5, 0]
    assert second["b"].numpy().tolist() == [[1, 1], [1, 1], [0, 0]]
    assert second["c"].numpy().tolist() == [b"y", b"z", b""]
    assert second["d"].numpy().tolist() == [True, True, False]


def test_eval_batches_of_tensor_pairs_are_padded():
    dataset = tf.data.Dataset.from_tensor_slices((tf.range(3), tf.range(3, dtype=tf.int64)))
    *_, (first, second) = batch_dataset(dataset, 2, pad_rows=True)
    assert first.numpy().tolist() == [2, 0] and second.numpy().tolist() == [2, 0]


def test_training_batches_drop_the_remainder():
    batches = list(batch_dataset(tf.data.Dataset.range(5), 2))
    assert [batch.numpy().tolist() for batch in batches] == [[0, 1], [2, 3]]
