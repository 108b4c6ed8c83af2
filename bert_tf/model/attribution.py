"""Integrated gradients (Sundararajan et al. 2017): how much each token contributed to a prediction.

B rows, T positions, D hidden size.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.model import functional_bert, heads, weights

STEPS = 32  # nodes of the Gauss-Legendre quadrature of the path integral
UNLIKELY = -1e9  # logit of a position without a token

Tensors = dict[str, tf.Tensor]


def integrated_gradients(
    model: heads.BertModel,
    inputs: Mapping[str, tf.Tensor],
    *,
    mask_id: int,
    kept_ids: tuple[int, ...],
) -> Tensors:
    """Attributes the predicted logit of each row to its tokens.

    The path leads from a row of [MASK] to the row itself, in a straight line of word embeddings; positions, segments
    and special tokens stay. The predicted logit belongs to the best class, the regression value, the best token for
    the first [MASK], or is the sum for the best start and end of an answer.

    Args:
        model: a Classifier, Regressor, MultipleChoice, Pretrainer or SpanFinder with BERT's encoder.
        inputs: int32 `token_ids`, `segment_ids` [B, T], `lengths` [B].
        mask_id: the id of [MASK].
        kept_ids: ids of special tokens, kept in the baseline.

    Returns:
        float32 "attributions" [B, T], 0 on kept tokens and padding; "outputs" and "baseline_outputs" [B], the logit
        at both ends of the path; int32 "targets" [B], the class or token. Completeness: the sum of a row's
        attributions is its output minus its baseline output, up to quadrature error.
    """
    head = _head(model)
    arrays = {name: variable.value for name, variable in weights.variables_by_name(model).items()}
    params, table = functional_bert.parameters(arrays), arrays["encoder/embeddings/token_table"]
    inputs = dict(inputs)
    if head is functional_bert.MASKS:
        is_mask = tf.equal(inputs["token_ids"], mask_id)
        inputs["masked_lm_positions"] = tf.argmax(is_mask, -1, tf.int32)[:, None]

    def logits(words: tf.Tensor) -> list[tf.Tensor]:  # [B, T, D] -> [B, K] each
        return _logits(head.apply(params, model.config, {**inputs, "word_vectors": words}), inputs["lengths"])

    is_kept = tf.reduce_any(tf.equal(inputs["token_ids"][:, :, None], tf.constant(kept_ids)), -1)
    baseline_ids = tf.where(is_kept, inputs["token_ids"], mask_id)
    baseline = tf.gather(table, baseline_ids)
    difference = tf.gather(table, inputs["token_ids"]) - baseline  # [B, T, D]
    at_input = logits(baseline + difference)
    targets = [tf.argmax(each, -1, tf.int32) for each in at_input]

    def output(values: list[tf.Tensor]) -> tf.Tensor:  # [B]
        return tf.add_n([tf.gather(x, i, batch_dims=1) for x, i in zip(values, targets, strict=True)])

    gradient = _mean_gradient(lambda words: output(logits(words)), baseline, difference)
    return {
        "attributions": tf.reduce_sum(gradient * difference, -1),
        "outputs": output(at_input),
        "baseline_outputs": output(logits(baseline)),
        "targets": targets[0],
    }


def _head(model: heads.BertModel) -> functional_bert.Head:
    """The model's head as functions; UserError if it has no prediction to explain."""
    forms = {
        heads.Pretrainer: functional_bert.MASKS,
        heads.SpanFinder: functional_bert.SPANS,
        heads.PooledModel: functional_bert.TEXTS,
    }
    form = next((form for kind, form in forms.items() if isinstance(model, kind)), None)
    if form is None or not model.config.encoder_traits.is_functional:
        raise UserError(
            "Attributions require BERT with a head for classes, numbers, choices, masks or questions; this model is "
            f"{type(model).__name__} on {model.config.encoder}."
        )
    return form


def explains(model: Any) -> bool:
    """Returns whether `integrated_gradients` supports a model."""
    try:
        return bool(_head(model))
    except UserError:
        return False


def _logits(outputs: Mapping[str, tf.Tensor], lengths: tf.Tensor) -> list[tf.Tensor]:
    """Logits of the prediction: [B, C] for classes, [B, V] for a mask, or [B, T] each for starts and ends."""
    if "logits" in outputs:
        return [outputs["logits"]]
    if "masked_lm_logits" in outputs:
        return [outputs["masked_lm_logits"][:, 0]]
    is_token = tf.sequence_mask(lengths, tf.shape(outputs["start_logits"])[1])
    return [tf.where(is_token, outputs[f"{side}_logits"], UNLIKELY) for side in ("start", "end")]


def _mean_gradient(function: Any, baseline: tf.Tensor, difference: tf.Tensor) -> tf.Tensor:
    """The mean gradient of a function [B, T, D] -> [B] along the straight line between two points."""
    nodes, shares = np.polynomial.legendre.leggauss(STEPS)
    places, shares = (tf.constant(x / 2, tf.float32) for x in (nodes + 1, shares))

    def add(number: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        words = baseline + places[number] * difference
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(words)
            value = function(words)
        return number + 1, total + shares[number] * tape.gradient(value, words)

    start = (tf.constant(0), tf.zeros_like(difference))
    return tf.while_loop(lambda number, _: number < STEPS, add, start, parallel_iterations=1)[1]
