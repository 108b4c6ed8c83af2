"""PretrainingTask: language modeling and next sentence prediction on raw text (Devlin et al. 2018, section 3.1).

B rows, T positions in a row, P predicted positions of a row.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from typing import Any, Self

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.train_config import MaskingConfig
from bert_tf.data import pipeline
from bert_tf.data.mlm_masking import mask_tokens
from bert_tf.data.pretraining import masked_records, record_input
from bert_tf.data.pretraining.record_files import CONTINUATIONS
from bert_tf.heads import masked_lm
from bert_tf.heads.base.servable import TextTask
from bert_tf.heads.base.training import model_heads
from bert_tf.heads.masked_lm import MaskedLm, mask_filling
from bert_tf.heads.next_sentence import NextSentence
from bert_tf.heads.replaced_tokens import ReplacedTokens
from bert_tf.runtime.lazy import keras, module, tf
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training.task import Objective

replaced_tokens = module("bert_tf.model.replaced_tokens")
EVAL_SEED = 1  # masks held-out text identically in every evaluation of every run
NAMES = {"masked": "mlm", "left_to_right": "ltr", "both_ways": "bilm"}
REPLACED_TOKEN_LOSS = f"{ReplacedTokens.weights}_loss"
REPLACED_TOKEN_FACTOR = 50.0  # weight of its loss (Clark et al. 2020, section 3.2)
LABELS = {MaskedLm.kind: "masked_lm_ids", NextSentence.kind: "next_sentence_labels"}  # in a batch
MASKED_LM_EPSILON = 1e-5  # added to the sum of weights in google-research/bert

Batch = Mapping[str, "tf.Tensor"]


class PretrainingTask(TextTask):
    """Masked LM, or a different language modeling objective, plus next sentence prediction.

    Args:
        records: the manifest written by `data.pretraining.records.prepare`, or of masked_records.open_masked.
        tokenizer: the tokenizer used for the records.
        masking: how tokens are masked.
        next_sentence_weight: weight of its loss; 0 disables next sentence prediction.
        lm_kind: see `masked_lm.lm_kind`; its loss is always named masked_lm_loss.
        finds_replaced: whether to train a generator by masked LM, and the model to find the tokens that it replaces.
        masked_lm_epsilon: added to the number of predicted tokens that its loss is divided by.
    """

    def __init__(
        self,
        records: Mapping[str, Any],
        tokenizer: Tokenizer,
        masking: MaskingConfig,
        *,
        next_sentence_weight: float = 1.0,
        lm_kind: str = "masked",
        finds_replaced: bool = False,
        masked_lm_epsilon: float = MASKED_LM_EPSILON,
    ) -> None:
        self.name = f"pretraining/{NAMES[lm_kind]}{'_nsp' if next_sentence_weight else ''}"
        self.heads: list[type[Any]] = [MaskedLm]
        self.objectives = {"masked_lm_loss": Objective(epsilon=masked_lm_epsilon)}
        if next_sentence_weight:
            self.objectives["next_sentence_loss"] = Objective(factor=next_sentence_weight)
            self.heads.append(NextSentence)
        if finds_replaced:
            self.name = "pretraining/replaced_tokens"
            self.objectives[REPLACED_TOKEN_LOSS] = Objective(factor=REPLACED_TOKEN_FACTOR)
            self.heads.append(ReplacedTokens)
        self.records, self.tokenizer, self.masking = records, tokenizer, masking
        self.lm_kind = lm_kind

    def with_records(self, records: Mapping[str, Any]) -> Self:
        """The same task on the records of this manifest."""
        task = copy.copy(self)
        task.records = records
        return task

    def of_answers(self) -> Self:
        """The same task without replaced token detection, which an exported model does not do."""
        task = copy.copy(self)
        task.heads = [head for head in self.heads if head is not ReplacedTokens]
        task.objectives = {name: each for name, each in self.objectives.items() if name != REPLACED_TOKEN_LOSS}
        return task

    def create_model(self, config: BertConfig, dtype: Any = None) -> keras.Model:
        model_class = replaced_tokens.ReplacedTokenModel if ReplacedTokens in self.heads else model_heads.Pretrainer
        return model_class(config, dtype=dtype)

    def train_batches(self, batch_size: int, seed: int) -> tf.data.Dataset:
        """Endless batches, in a new order every epoch and, unless masks are static, with new masks."""
        files = self.records["train_files"]
        dataset = pipeline.shuffle(record_input.read_records(files, seed=seed), seed=seed + 1).repeat()
        dataset = pipeline.batch_dataset(pipeline.with_seeds(dataset, seed=seed + 2), batch_size)
        return self._with_targets(dataset, seed, is_static=self.masking.static_masking)

    def reading(self) -> contextlib.AbstractContextManager[None]:
        return record_input.explain_damage([*self.records.get("train_files", ()), *self.records.get("eval_files", ())])

    @property
    def train_shards(self) -> int:
        return len(self.records.get("train_files", ("",)))

    def stream_batches(self, stream: int, streams: int, size: int, seed: int) -> tf.data.Dataset:
        """The rows that one of several streams adds to each batch: every `streams`th file, in its own order."""
        own = pipeline.seed_of_stream(seed, stream)
        dataset = record_input.read_records(self.records["train_files"][stream::streams], seed=own, interleaved=2)
        dataset = pipeline.shuffle(dataset, seed=own + 1, buffer=max(pipeline.SHUFFLED // streams, 2 * size)).repeat()
        dataset = pipeline.batch_dataset(pipeline.with_seeds(dataset, seed=own + 2), size)
        return self._with_targets(dataset, seed, is_static=self.masking.static_masking)

    def eval_batches(self, batch_size: int, split: str = "eval") -> tf.data.Dataset:
        """One pass over the records of a split, each with the same masks in every pass."""
        dataset = pipeline.with_seeds(record_input.read_records(self.records[f"{split}_files"]), seed=EVAL_SEED + 2)
        dataset = pipeline.batch_dataset(dataset, batch_size, pad_rows=True)
        return self._with_targets(dataset, EVAL_SEED, is_static=True)

    def _with_targets(self, dataset: tf.data.Dataset, seed: int, *, is_static: bool) -> tf.data.Dataset:
        """Batches of (records, seeds) -> batches of inputs and targets. is_static: a record always has one mask."""
        wanted, most = self.records["wanted"], self.masking.max_predictions_per_seq
        max_seq_length, has_words = wanted["max_seq_length"], bool(wanted.get("chinese_word_segmentation"))
        has_targets = wanted.get("format") == masked_records.FORMAT

        def make_batch(records: tf.Tensor, seeds: tf.Tensor) -> dict[str, tf.Tensor]:
            if has_targets:
                return record_input.parse_masked_records(records, max_seq_length, most)
            pairs = record_input.parse_pretraining_records(
                records, max_seq_length, self.tokenizer.pad_id, has_words=has_words
            )
            static_seeds = pipeline.record_seeds(pairs.pop("record_ids"), seed=seed)
            continues = pairs.pop(CONTINUATIONS, None)
            return {**pairs, **self._targets(pairs, static_seeds if is_static else seeds, continues)}

        make_batch = pipeline.no_autograph(make_batch)
        return dataset.map(make_batch, num_parallel_calls=2, deterministic=True).prefetch(2)

    def _targets(self, pairs: Batch, seeds: tf.Tensor, continues: tf.Tensor | None) -> dict[str, tf.Tensor]:
        """Targets, in the form of `mlm_masking.mask_tokens`; continues: its `continues_word`."""
        if self.lm_kind == "left_to_right":
            return next_token_targets(pairs)
        if self.lm_kind == "both_ways":
            return bidirectional_targets(pairs)
        return mask_tokens(
            pairs["token_ids"],
            seeds,
            cls_id=self.tokenizer.cls_id,
            sep_id=self.tokenizer.sep_id,
            pad_id=self.tokenizer.pad_id,
            mask_id=self.tokenizer.mask_id,
            vocab_size=self.tokenizer.size,
            is_continuation=self.tokenizer.is_continuation,
            continues_word=continues,
            masked_lm_prob=self.masking.masked_lm_prob,
            max_predictions_per_seq=self.masking.max_predictions_per_seq,
            whole_word=self.masking.do_whole_word_mask,
            max_span_words=self.masking.max_span_words,
            replacement_probs=self.masking.replacement_probs,
        )

    def loss_weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        return {f"{head.weights}_loss": _weights(head, batch) for head in self.heads}

    def metrics(self, outputs: Any, batch: Batch) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """Loss and accuracy of each head, (values, weights): losses first."""
        found = {name: value for head in self.heads for name, value in _metrics(head, outputs, batch).items()}
        return {name: found[name] for name in sorted(found, key=lambda name: not name.endswith("_loss"))}

    @property
    def host_settings(self) -> dict[str, Any] | None:  # type: ignore[override]
        """See `export.host.masks`."""
        return masked_lm.host_settings(self.lm_kind)

    def signatures(self, model: keras.Model, tokenizer: Tokenizer) -> dict[str, Any]:
        return mask_filling.signatures(model, tokenizer, next_sentence=NextSentence in self.heads)


def _weights(head: type[Any], batch: Batch) -> tf.Tensor:
    """1 for predicted positions, 0 for padding: [B, P] for positions, [B], or [B, T] for all tokens."""
    if head is ReplacedTokens:
        return tf.sequence_mask(batch["lengths"], batch["token_ids"].shape[1], tf.float32)
    return batch[f"{head.kind}_weights"]


def _metrics(head: type[Any], outputs: Any, batch: Batch) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
    """{"NAME_loss", "NAME_accuracy": (values, weights)}: negative log-likelihood, and whether the best is right."""
    weights = _weights(head, batch)
    if head is ReplacedTokens:
        logits, labels = outputs["replaced_token_logits"], outputs["replaced_token_labels"]
        weights = weights[:, : tf.shape(logits)[1]]  # with packing, up to the longest row
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        is_right = tf.equal(logits > 0, labels > 0)
    else:
        logits, labels = outputs[f"{head.kind}_logits"], batch[LABELS[head.kind]]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        is_right = tf.equal(tf.argmax(logits, -1, tf.int32), labels)
    accuracies = tf.cast(is_right, tf.float32)
    return {f"{head.weights}_loss": (losses, weights), f"{head.weights}_accuracy": (accuracies, weights)}


def next_token_targets(pairs: Batch) -> dict[str, tf.Tensor]:
    """Predicts every token but the first at the position before it."""
    token_ids, lengths = pairs["token_ids"], pairs["lengths"]
    positions = tf.broadcast_to(tf.range(token_ids.shape[1] - 1), [token_ids.shape[0], token_ids.shape[1] - 1])
    return {
        "masked_lm_positions": positions,
        "masked_lm_ids": token_ids[:, 1:],
        "masked_lm_weights": tf.cast(positions + 1 < lengths[:, None], tf.float32),
    }


def bidirectional_targets(pairs: Batch) -> dict[str, tf.Tensor]:
    """The same in both directions, for `families.lstm`, which has two outputs for each position."""
    forward = next_token_targets(pairs)
    positions = forward["masked_lm_positions"]
    forward["masked_lm_positions"] = 2 * positions
    backward = {
        "masked_lm_positions": 2 * (positions + 1) + 1,
        "masked_lm_ids": pairs["token_ids"][:, :-1],
        "masked_lm_weights": forward["masked_lm_weights"],
    }
    return {name: tf.concat([forward[name], backward[name]], 1) for name in forward}
