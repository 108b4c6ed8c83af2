"""The textbook path is right, and every fast path of the Keras models computes what it computes."""

import dataclasses
import math

import numpy as np
import oracle
import pytest
import tensorflow as tf
import tiny

from bert_tf.model import functional_bert, heads, weights
from bert_tf.model.packing import CPU_COSTS, PackingSpec, pack_batch

pytestmark = pytest.mark.optimized_graphs

CAUSAL = dataclasses.replace(tiny.CONFIG, is_causal=True)
DYNAMIC, STATIC = PackingSpec(CPU_COSTS), "three rows, planned on the host"
LENGTHS = np.array([5, 12, 6, 7])
# "masks" reads the last layer at the masked positions and the pooled token alone, "tags" at all positions.
FORMS = {"masks": functional_bert.MASKS, "tags": functional_bert.TOKENS}
CASES = {
    "padded": ("masks", tiny.CONFIG, {}),
    "packed dynamically": ("masks", tiny.CONFIG, {"packing": DYNAMIC}),
    "packed into fixed rows": ("masks", tiny.CONFIG, {"packing": STATIC}),
    "causal": ("masks", CAUSAL, {}),
    "causal, packed": ("masks", CAUSAL, {"packing": DYNAMIC}),
    "gradient checkpointing": ("masks", tiny.CONFIG, {"checkpointing": True}),
    "gradient checkpointing, packed": ("tags", tiny.CONFIG, {"packing": DYNAMIC, "checkpointing": True}),
    "all positions": ("tags", tiny.CONFIG, {}),
    "all positions, packed": ("tags", tiny.CONFIG, {"packing": STATIC}),
}
SLOW = ("causal, packed", "gradient checkpointing, packed", "all positions")  # of these the parts are tested otherwise


def batch_of():
    batch = tiny.batch() | {"lengths": LENGTHS}
    batch["token_ids"] = np.random.default_rng(1).integers(1, 30, (4, 12)) * (np.arange(12) < LENGTHS[:, None])
    batch["masked_lm_positions"] = np.minimum(batch["masked_lm_positions"], LENGTHS[:, None] - 1)
    return tiny.tensors(batch)


def loss_of(outputs, lengths):
    """A number that depends on every output, except on padding."""
    loss = 0.0
    for logits in outputs.values():
        values = tf.nn.log_softmax(tf.cast(logits, tf.float32))[..., 0]
        if logits.shape[-1] == 3:  # of TokenClassifier, each position of T
            values *= tf.sequence_mask(lengths, tf.shape(values)[1], tf.float32)
        loss += tf.reduce_sum(values)
    return loss


def textbook(head, config, arrays, inputs):
    """The loss and its gradients by the functions of `functional_bert`."""
    arrays = {name: tf.constant(array) for name, array in arrays.items()}
    with tf.GradientTape() as tape:
        tape.watch(arrays)
        outputs = FORMS[head].apply(functional_bert.parameters(arrays), config, inputs)
        loss = loss_of(outputs, inputs["lengths"])
    gradients = tape.gradient(loss, arrays, unconnected_gradients="zero")
    return loss, {name: tf.convert_to_tensor(gradient) for name, gradient in gradients.items()}


def fast(model, inputs, packing):
    """The same of a Keras model in training, in a graph that knows no sizes unless they must be static."""
    variables = weights.variables(model)
    if packing is STATIC:
        tables = pack_batch(inputs["lengths"].numpy(), inputs["token_ids"].shape[1], slices=1, rows=3)
        assert tables.pop("row_fits").all()
        inputs = {**inputs, **{name: tf.constant(x) for name, x in tables.items()}}
    specs = {name: x.shape if packing is STATIC else [None, *x.shape[1:]] for name, x in inputs.items()}

    @tf.function(
        input_signature=[{name: tf.TensorSpec(specs[name], x.dtype) for name, x in inputs.items()}], autograph=False
    )
    def run(inputs):
        with tf.GradientTape() as tape:
            loss = loss_of(
                model(inputs, seed=tf.constant([1, 2]), packing=None if packing is STATIC else packing),
                inputs["lengths"],
            )
        gradients = dict(zip(variables, tape.gradient(loss, list(variables.values())), strict=True))
        return loss, {name: tf.convert_to_tensor(x) for name, x in gradients.items() if x is not None}

    return run(inputs)


def test_plain_path_matches_reference():
    _, arrays = tiny.pretrainer()
    batch = tiny.batch()
    inputs = tiny.tensors(batch)
    expected = oracle.pretraining_logits(arrays, tiny.CONFIG, batch)
    params = functional_bert.parameters({name: tf.constant(array) for name, array in arrays.items()})
    actual = functional_bert.MASKS.apply(params, tiny.CONFIG, inputs)
    for name, logits in expected.items():
        np.testing.assert_allclose(actual[name], logits, atol=2e-5)


@pytest.mark.parametrize(
    ("compiles", "dtype", "case"),
    [
        *((False, "float32", case) for case in CASES if case not in SLOW),
        *(pytest.param(False, "float32", case, marks=pytest.mark.slow) for case in SLOW),
        *(
            pytest.param(True, "float32", case, marks=pytest.mark.slow)
            for case in CASES
            if "causal" not in case and "all positions" not in case
        ),
        (True, "mixed_bfloat16", "packed into fixed rows"),
        *(
            pytest.param(True, "mixed_bfloat16", case, marks=pytest.mark.slow)
            for case in ("padded", "packed dynamically")
        ),
    ],
    ids=str,
)
def test_every_fast_path_matches_the_plain_path(compiles, dtype, case, compiled_from):
    compiled_from(width=1 if compiles else math.inf)
    head, config, options = CASES[case]
    model = heads.Pretrainer(config, dtype=dtype) if head == "masks" else heads.TokenClassifier(config, 3, dtype=dtype)
    arrays, inputs = tiny.random_weights(model), batch_of()
    weights.assign(model, arrays)
    if head == "tags":
        model.dropout.rate = 0.0
        inputs = {name: inputs[name] for name in functional_bert.IDS}
    packing = options.get("packing")
    model.encoder.gradient_checkpointing = "checkpointing" in options
    expected, gradients = textbook(head, config, arrays, inputs)
    actual, actual_gradients = fast(model, inputs, packing)
    tolerance = 1e-5 if dtype == "float32" else 0.05
    np.testing.assert_allclose(actual, expected, rtol=tolerance)
    unused = {"encoder/pooler/kernel", "encoder/pooler/bias"} if head == "tags" else set()
    assert actual_gradients.keys() == gradients.keys() - unused
    for name, actual in actual_gradients.items():
        gradient = gradients[name]
        largest = max(float(tf.reduce_max(tf.abs(gradient))), 0.1)
        np.testing.assert_allclose(actual, gradient, atol=tolerance * largest, err_msg=name)
