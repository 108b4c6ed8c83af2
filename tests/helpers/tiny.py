"""A BERT of a few numbers, random weights for it, and batches: what the tests of models and training share."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from bert_tf.config.bert_config import BertConfig
from bert_tf.config.train_config import MaskingConfig
from bert_tf.model import heads, weights
from bert_tf.model.packing import TABLES, RowAssignment
from bert_tf.tasks.pretraining.pretraining_task import PretrainingTask
from bert_tf.text.host_tokenizer import create_host_tokenizer
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.text.tokenizer_settings import DEFAULT

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CONFIG = BertConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=24,
    max_position_embeddings=12,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def random_weights(model, seed=0):
    """{canonical name: float32 array}: large enough that every part of the model matters."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, variable in weights.variables_by_name(model).items():
        values = rng.normal(0, 0.3, variable.shape) + (1 if name.endswith("gamma") else 0)
        arrays[name] = values.astype(np.float32)
    return arrays


def randomized(model):
    """The model, with random weights."""
    weights.assign(model, random_weights(model))
    return model


def pretrainer(config=CONFIG, seed=0, **options):
    """A Pretrainer with random weights, and the weights."""
    model = heads.Pretrainer(config, **options)
    arrays = random_weights(model, seed)
    weights.assign(model, arrays)
    return model, arrays


def batch(rows=4, seed=0, slots=12, positions=3):
    """A batch of masked pairs with rows of different length and different numbers of masks, as NumPy arrays."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, slots + 1, rows)
    used = rng.integers(1, positions + 1, rows)
    return {
        "token_ids": rng.integers(1, 30, (rows, slots)) * (np.arange(slots) < lengths[:, None]),
        "segment_ids": ((np.arange(slots) >= 3) & (np.arange(slots) < lengths[:, None])).astype(int),
        "lengths": lengths,
        "masked_lm_positions": np.sort(rng.integers(1, 5, (rows, positions)), -1),
        "masked_lm_ids": rng.integers(1, 30, (rows, positions)),
        "masked_lm_weights": (np.arange(positions) < used[:, None]).astype(np.float32),
        "next_sentence_labels": rng.integers(0, 2, rows),
        "next_sentence_weights": np.ones(rows, np.float32),
    }


def inputs_of(ids, lengths):
    """Rows of token ids [B, T] as a model takes them."""
    ids = tf.constant(ids, tf.int32)
    return {"token_ids": ids, "segment_ids": tf.zeros_like(ids), "lengths": tf.constant(lengths, tf.int32)}


def in_one_row(lengths, slots):
    """Tables among the inputs of texts [B, slots] that share one row."""
    starts = np.cumsum(lengths) - lengths
    found = RowAssignment.of(tf.constant(lengths), slots, tf.constant(starts, tf.int32), 1, sum(lengths))
    return dict(zip(TABLES, (found.sources, found.targets), strict=True))


def tensors(batch):
    """The batch as the tensors that a pipeline gives: float32 and int32."""
    return {
        name: tf.constant(values, tf.float32 if values.dtype.kind == "f" else tf.int32)
        for name, values in batch.items()
    }


def touch_checkpoint(folder, step):
    """Makes the empty files of a checkpoint of a run."""
    checkpoints = Path(folder, "checkpoints")
    checkpoints.mkdir(parents=True, exist_ok=True)
    for suffix in ("index", "data-00000-of-00001"):
        (checkpoints / f"ckpt-{step}.{suffix}").touch()


class TinyTask(PretrainingTask):
    """The pre-training task over the given batches, over and over."""

    def __init__(self, batches, next_sentence_weight):
        super().__init__({}, None, MaskingConfig(), next_sentence_weight=next_sentence_weight)
        self.name, self.count = "tiny", len(batches)
        stacked = {name: np.stack([tensors(b)[name].numpy() for b in batches]) for name in batches[0]}
        self.dataset = tf.data.Dataset.from_tensor_slices(stacked)

    def train_batches(self, batch_size, seed):
        return self.dataset.shuffle(self.count, seed=seed).repeat()

    def eval_batches(self, batch_size, split="eval"):
        return self.dataset


def task(batches=None, next_sentence_weight=1.0, **attributes):
    """A TinyTask, by default of twelve different batches of four rows, with other attributes or methods."""
    tiny_task = TinyTask(batches or [batch(seed=seed) for seed in range(12)], next_sentence_weight)
    vars(tiny_task).update(attributes)
    return tiny_task


class Words:
    """A tokenizer of whole words between spaces, for tests that trace it often and ask nothing of it."""

    pad_id, unknown_id, cls_id, sep_id, mask_id = range(5)
    separators, mask_token, special_count, in_graph = 1, "[MASK]", Tokenizer.special_count, True
    lower_case, special_tokens, settings = True, (), DEFAULT

    def __init__(self, words):
        self.vocabulary = [*SPECIAL, *words]
        self.size, self.host = len(self.vocabulary), create_host_tokenizer(self.vocabulary)

    def __call__(self, texts):  # string [B] -> ragged int32 [B, words]
        words = tf.strings.split(texts)
        same = tf.equal(words.values[:, None], tf.constant(self.vocabulary)[None, :])
        ids = tf.where(tf.reduce_any(same, -1), tf.argmax(tf.cast(same, tf.int32), -1, tf.int32), self.unknown_id)
        return words.with_values(ids)

    ids_with_masks = __call__

    def on_host(self, texts, inside_text=False):
        ids = self(tf.constant(texts))
        return ids.values.numpy(), ids.row_lengths().numpy().astype("int32")

    def with_offsets(self, texts):  # of other tokens than a host would find: exports answer by their signatures
        ids = self(texts)
        return ids, ids, ids

    def detokenize(self, rows):
        return [" ".join(self.vocabulary[i] for i in row if i != self.pad_id) for row in rows]
