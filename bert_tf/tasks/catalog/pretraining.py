"""Pre-training on raw text: masked LM and next sentence prediction (Devlin et al. 2018, section 3.1).

B rows, T slots in a row, V vocabulary, P masked positions.
"""

import functools

import numpy as np
import tensorflow as tf

from bert_tf.data import pipeline
from bert_tf.data.mlm_masking import mask_tokens
from bert_tf.model import heads
from bert_tf.tasks.function_task import FunctionTask
from bert_tf.tasks.pretraining.mask_filling import MASK, places_guessed, serve
from bert_tf.tasks.task import Objective

EVAL_SEED = 1  # the masks of held-out text are the same in every evaluation of every run
NAMES = {"masked": "mlm", "left_to_right": "ltr", "both_ways": "bilm"}
MASKED_LM_EPSILON = 1e-5  # the original adds it to the sum of weights
SHOWN = 40  # pieces on either side of a mask that people are shown


def losses_of(outputs, batch):
    """{measure: values} of the two losses: negative log-likelihoods, masked LM [B, P] and next sentence [B]."""
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    return {
        "masked_lm_loss": cross_entropy(batch["masked_lm_ids"], outputs["masked_lm_logits"]),
        "next_sentence_loss": cross_entropy(batch["next_sentence_labels"], outputs["next_sentence_logits"]),
    }


def weights_of(batch):
    """{measure: weights}: 1 for a masked position or a pair, 0 where a row or a place is filled up."""
    return {
        "masked_lm_loss": batch["masked_lm_weights"],
        "next_sentence_loss": batch["next_sentence_weights"],
    }


def measures_of(outputs, batch):
    """Both losses and both accuracies, as (values, weights)."""
    values, weights = losses_of(outputs, batch), weights_of(batch)
    measures = {name: (values[name], weights[name]) for name in values}
    guesses = {"masked_lm": "masked_lm_ids", "next_sentence": "next_sentence_labels"}
    for name, labels in guesses.items():
        right = tf.equal(tf.argmax(outputs[f"{name}_logits"], -1, tf.int32), batch[labels])
        measures[f"{name}_accuracy"] = (tf.cast(right, tf.float32), weights[f"{name}_loss"])
    return measures


def objectives(next_sentence_weight=1.0):
    """What pre-training minimises: masked LM plus next sentence; with weight 0 the latter is not learned at all."""
    terms = {"masked_lm_loss": Objective(epsilon=MASKED_LM_EPSILON)}
    if next_sentence_weight:
        terms["next_sentence_loss"] = Objective(factor=next_sentence_weight)
    return terms


def task(records, tokenizer, masking, *, next_sentence_weight=1.0, guesses="masked"):
    """The task, on the records that `data.pretraining.records.prepare` made, with masks drawn as `masking` says.

    records: the manifest of the folder; masking: a MaskingConfig; next_sentence_weight 0 trains masked LM only.
    guesses: see `mask_filling.guesses_of`; the loss has the name of the masked LM's in any case.
    """
    goals = objectives(next_sentence_weight)
    masked = functools.partial(_hidden, tokenizer=tokenizer, masking=masking)
    hides = {"masked": masked, "left_to_right": _next_pieces, "both_ways": _next_pieces_both_ways}[guesses]
    slots, fixed = records["wanted"]["max_seq_length"], masking.static_masking
    stream = functools.partial(batches, hides=hides, fixed=fixed, slots=slots)
    return FunctionTask(
        name=f"pretraining/{NAMES[guesses]}{'_nsp' if next_sentence_weight else ''}",
        create_model=heads.Pretrainer,
        train_batches=lambda size, seed: stream(records["train_files"], size, seed=seed, training=True),
        eval_batches=lambda size, split="eval": stream(records[f"{split}_files"], size, seed=EVAL_SEED, training=False),
        loss_weights=lambda batch: {name: weights for name, weights in weights_of(batch).items() if name in goals},
        metrics=lambda outputs, batch: _asked_for(measures_of(outputs, batch), goals),
        objectives=goals,
        signatures=functools.partial(serve, next_sentence=bool(next_sentence_weight)),
    )


def batches(files, size, *, hides, fixed, slots, seed, training):
    """Batches of masked pairs [size, slots]; for training endless, in a new order and under new masks every epoch.

    hides(pairs, seeds): what to show and what to guess. fixed: a record is masked alike in every epoch, as the
    original's files were; so it is for evaluation.
    """
    if training:
        dataset = pipeline.shuffle(pipeline.read_records(files, seed=seed), seed=seed + 1).repeat()
    else:
        dataset = pipeline.read_records(files)
    dataset = pipeline.batch_dataset(pipeline.with_seeds(dataset, seed=seed + 2), size, pad_rows=not training)

    def masked(records, seeds):
        pairs = pipeline.parse_pretraining_records(records, slots)
        own = pipeline.record_seeds(pairs.pop("record_ids"), seed=seed)
        return {**pairs, **hides(pairs, own if fixed or not training else seeds)}

    return dataset.map(pipeline.no_autograph(masked), num_parallel_calls=2, deterministic=True).prefetch(2)


def _hidden(pairs, seeds, *, tokenizer, masking):
    return mask_tokens(
        pairs["token_ids"],
        seeds,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
        mask_id=tokenizer.mask_id,
        vocab_size=tokenizer.size,
        is_continuation=tokenizer.is_continuation,
        masked_lm_prob=masking.masked_lm_prob,
        max_predictions_per_seq=masking.max_predictions_per_seq,
        whole_word=masking.do_whole_word_mask,
        max_span_words=masking.max_span_words,
        replacement_probs=masking.replacement_probs,
    )


def _next_pieces(pairs, seeds):
    """Every piece but the first is to be guessed, at the place before it; in the form of `mlm_masking.mask_tokens`."""
    token_ids, lengths = pairs["token_ids"], pairs["lengths"]
    places = tf.broadcast_to(tf.range(token_ids.shape[1] - 1), [token_ids.shape[0], token_ids.shape[1] - 1])
    return {
        "masked_lm_positions": places,
        "masked_lm_ids": token_ids[:, 1:],
        "masked_lm_weights": tf.cast(places + 1 < lengths[:, None], tf.float32),
    }


def _next_pieces_both_ways(pairs, seeds):
    """The same from both sides, for `encoders.lstm`: the places count twice there."""
    forward = _next_pieces(pairs, seeds)
    places = forward["masked_lm_positions"]
    forward["masked_lm_positions"] = 2 * places
    backward = {
        "masked_lm_positions": 2 * (places + 1) + 1,
        "masked_lm_ids": pairs["token_ids"][:, :-1],
        "masked_lm_weights": forward["masked_lm_weights"],
    }
    return {name: tf.concat([forward[name], backward[name]], 1) for name in forward}


def _asked_for(measures, goals):
    known = tuple(name.removesuffix("_loss") for name in goals)
    return {name: measure for name, measure in measures.items() if name.startswith(known)}


def unigram_loss(token_counts, batches):
    """Mean negative log-likelihood of the masked tokens of `batches` under the frequencies of the training text.

    token_counts: [V], how often each piece occurs in it; every piece counts as seen once more. It is what a model
    reaches that knows the vocabulary and nothing of the context.
    """
    counts = np.asarray(token_counts, np.float64) + 1
    surprise = np.log(counts.sum()) - np.log(counts)  # [V]
    summed = weight = 0.0
    for batch in batches:
        weights = batch["masked_lm_weights"].numpy()
        summed += float((surprise[batch["masked_lm_ids"].numpy()] * weights).sum())
        weight += float(weights.sum())
    return summed / max(weight, 1.0)


def held_out_examples(task, model, tokenizer, count=8):
    """What the model puts in the place of masks in held-out text, for people to look at.

    Returns a list of {"before", "truth", "after", "answers": [{"piece", "score"}, ...]}, one for each of `count` rows;
    of a long row before and after are the nearest SHOWN pieces.
    """
    batch = next(iter(task.eval_batches(count)))
    scores = tf.nn.softmax(model(batch)["masked_lm_logits"])  # [B, P, V]
    best, ids = tf.math.top_k(scores, 5)  # [B, P, 5]
    rows = {name: batch[name].numpy() for name in ("token_ids", "masked_lm_positions", "masked_lm_ids", "lengths")}
    examples = []
    for row in np.flatnonzero(rows["lengths"]):
        used = np.flatnonzero(batch["masked_lm_weights"][row])
        place = used[len(used) // 2]
        token_ids = rows["token_ids"][row].copy()
        positions = places_guessed(model.config, rows["masked_lm_positions"][row])
        token_ids[positions[used]] = rows["masked_lm_ids"][row][used]
        position = positions[place]
        first, end = max(0, position - SHOWN), min(position + 1 + SHOWN, rows["lengths"][row])
        before, after = tokenizer.detokenize([token_ids[first:position], token_ids[position + 1 : end]])
        answers = zip(tokenizer.ids_to_tokens(ids[row, place]).numpy(), best[row, place].numpy(), strict=True)
        examples.append(
            {
                "before": before,
                "truth": tokenizer.vocabulary[token_ids[position]],
                "after": after,
                "answers": [{"piece": piece.decode(), "score": float(score)} for piece, score in answers],
            }
        )
    return examples


def masked_sentences(examples, count=3):
    """The first few held-out examples as texts with one [MASK], without the special pieces."""
    texts = [f"{example['before']} {MASK} {example['after']}" for example in examples[:count]]
    return [text.replace("[CLS]", "").replace("[SEP]", "").strip() for text in texts]


TASKS = {"pretraining/mlm_nsp": task, "pretraining/mlm": functools.partial(task, next_sentence_weight=0.0)}
