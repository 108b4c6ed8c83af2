"""Held-out text: the loss of a unigram model for comparison, and examples for people.

B rows, V vocabulary size, P predicted positions in a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bert_tf.heads.masked_lm.mask_filling import predicted_positions
from bert_tf.runtime.lazy import keras, tf
from bert_tf.text.special_tokens import MASK
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.text.vocabulary import SPECIAL_TOKENS, special_tokens

SHOWN = 40  # tokens shown on either side of a mask
BEST = 5  # predictions shown for a mask


def unigram_loss(token_counts: np.ndarray, batches: Iterable[Mapping[str, tf.Tensor]]) -> float:
    """Mean negative log-likelihood of the masked tokens of `batches` under the frequencies of the training text.

    A model that knows only the vocabulary, not the context, reaches this loss. token_counts: [V], of each token in the
    training text; 1 is added to every count.
    """
    counts = np.asarray(token_counts, np.float64) + 1
    surprise = np.log(counts.sum()) - np.log(counts)  # [V]
    loss = weight = 0.0
    for batch in batches:
        weights = batch["masked_lm_weights"].numpy()
        loss += float((surprise[batch["masked_lm_ids"].numpy()] * weights).sum())
        weight += float(weights.sum())
    return loss / max(weight, 1.0)


def held_out_examples(
    batches: tf.data.Dataset, model: keras.Model, tokenizer: Tokenizer, count: int = 8
) -> list[dict[str, Any]]:
    """The model's predictions for one mask in each of the first `count` rows of batches of held-out text.

    It is in place of a whole word, if the row has such a mask.

    Returns [{"before", "truth", "after", "answers": [{"piece", "score"}, ...]}]; before and after are at most SHOWN
    tokens.
    """
    batch = next(iter(batches.rebatch(count)))
    probabilities = tf.nn.softmax(model(batch)["masked_lm_logits"])  # [B, P, V]
    scores, ids = tf.math.top_k(probabilities, BEST)  # [B, P, BEST]
    rows = {name: batch[name].numpy() for name in ("token_ids", "masked_lm_positions", "masked_lm_ids", "lengths")}
    examples = []
    for row in np.flatnonzero(rows["lengths"]):
        used = np.flatnonzero(batch["masked_lm_weights"][row])
        token_ids = rows["token_ids"][row].copy()
        positions = predicted_positions(model.config, rows["masked_lm_positions"][row])
        token_ids[positions[used]] = rows["masked_lm_ids"][row][used]
        continues = np.append(tokenizer.is_continuation[token_ids], False)
        is_word = ~(continues[positions[used]] | continues[positions[used] + 1])
        used = used[is_word] if is_word.any() else used
        middle = used[len(used) // 2]
        position = positions[middle]
        first, end = max(0, position - SHOWN), min(position + 1 + SHOWN, rows["lengths"][row])
        if first and not continues[first:position].all():
            first += np.argmin(continues[first:position])  # the start of a word
        parts = [token_ids[first:position], token_ids[position + 1 : end]]
        before, after = (_with_names_of_bert(text, tokenizer) for text in tokenizer.detokenize(parts))
        tokens = tokenizer.ids_to_tokens(ids[row, middle]).numpy()
        answers = zip(tokens, scores[row, middle].numpy(), strict=True)
        examples.append(
            {
                "before": before,
                "truth": tokenizer.vocabulary[token_ids[position]],
                "after": after,
                "answers": [{"piece": token.decode(), "score": float(score)} for token, score in answers],
            }
        )
    return examples


def _with_names_of_bert(text: str, tokenizer: Tokenizer) -> str:
    """The text with [CLS], [SEP] and so on in place of the special tokens of a different vocabulary."""
    for theirs, ours in zip(special_tokens(tokenizer.vocabulary), SPECIAL_TOKENS, strict=True):
        text = text if theirs == ours else text.replace(theirs, f" {ours} ").strip()
    return text


def masked_sentences(examples: Iterable[Mapping[str, Any]], count: int = 3) -> list[str]:
    """The first held-out examples as texts with one [MASK], without other special tokens."""
    texts = [f"{example['before']} {MASK} {example['after']}" for example in list(examples)[:count]]
    return [text.replace("[CLS]", "").replace("[SEP]", "").strip() for text in texts]
