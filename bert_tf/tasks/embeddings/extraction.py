"""Texts to vectors with an encoder and a tokenizer: for a command, and as the signatures of an export.

B texts, W rows of the encoder, S slots in a row, M tokens of all texts, D hidden size, K vectors of a token, E numbers
of a vector.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.model import weights
from bert_tf.model.heads import BertModel
from bert_tf.model.sequence_packing import PackingSpec, local_costs
from bert_tf.tasks.embeddings import features
from bert_tf.tasks.embeddings.feature_files import TextVectors
from bert_tf.tasks.embeddings.feature_windows import NO_OFFSET, rows_and_tokens, split_pairs

SLOTS_AT_ONCE = 8192  # of rows that pass the encoder together: bounds memory, and is enough to keep its cores busy
EAGER_BATCHES = 10
POOLER = "encoder/pooler/"
EXAMPLES = ["a text", "Two texts, with accents: é ||| and a second one.", "", "many words " * 100]


def encoder_of(checkpoint, path, *, dtype="float32", needs_pooler=False):
    """A BertModel without a head, with the weights of a checkpoint.

    Raises UserError, which names the path, where a weight is missing that is needed for the vectors.
    """
    model = BertModel(checkpoint.config, dtype=dtype)
    arrays = {name: array for name, array in checkpoint.weights.items() if name.startswith("encoder/")}
    missing = [
        name
        for name in weights.compared(model, arrays).newly_initialized
        if needs_pooler or not name.startswith(POOLER)
    ]
    if missing:
        remedy = "choose another pooling" if missing[0].startswith(POOLER) else "give a checkpoint of a whole model"
        raise UserError(f"{path} lacks {len(missing)} weights of its encoder, as {missing[0]}: {remedy}.")
    weights.assign(model, arrays)
    return model


class Extractor:
    """The vectors of texts. The same functions answer here and in an export, so that both say the same.

    choice: a VectorChoice. packing: None for what is fastest on this machine. Memory depends on the longest text, and
    not on how many windows it has.
    """

    def __init__(self, model, tokenizer, choice, packing=None):
        self.model, self.tokenizer, self.choice = model, tokenizer, choice
        self.packing = packing or PackingSpec.dynamic(local_costs())
        texts, flags, ids = (tf.TensorSpec([None], kind) for kind in (tf.string, tf.bool, tf.int32))
        table = tf.TensorSpec([None, None], tf.int32)
        rows = {"token_ids": table, "segment_ids": table, "lengths": ids}
        self._read_often = tf.function(self.rows_and_tokens, input_signature=[texts, texts, flags], autograph=False)
        self._times_read = 0
        self._states = tf.function(self.states, input_signature=[rows], autograph=False)

    def predict(self, examples):
        """{"found": a TextVectors each} of Examples; a single text may be "first ||| second"."""
        given = [example.encode() for example in examples]
        first = tf.constant([texts[0] for texts in given], tf.string)
        if len(given[0]) == 2:
            second, is_pair = tf.constant([texts[1] for texts in given], tf.string), tf.fill([len(given)], True)
        else:
            first, second, is_pair = split_pairs(first)
        try:
            rows, tokens = self._read(first, second, is_pair)
            vectors = self.in_unit(self._in_blocks(rows), tokens)
        except tf.errors.ResourceExhaustedError:
            raise UserError(f"Memory ran out for {len(examples)} texts at once: lower batch_size.") from None
        return {"found": self._of_texts(first, second, tokens, vectors.numpy())}

    def _read(self, *texts):
        """`rows_and_tokens`, as a graph if it is asked for often: to make it takes as long as some ten batches."""
        self._times_read += 1
        return (self._read_often if self._times_read > EAGER_BATCHES else self.rows_and_tokens)(*texts)

    def rows_and_tokens(self, first, second, is_pair):
        """String [B], string [B], bool [B] -> as `feature_windows.rows_and_tokens`."""
        choice = self.choice
        limits = {"max_seq_length": choice.max_seq_length, "stride": choice.stride}
        return rows_and_tokens(self.tokenizer, first, second, is_pair, **limits)

    def states(self, rows):
        """Rows -> what is taken of every slot: float32 [W, S, K, E]; of "pooled" that of [CLS] only."""
        encoded = self.model.encoder(rows, return_hidden_states=True, packing=self.packing)
        if self.choice.unit == "sentence" and self.choice.pooling == "pooled":
            vectors = tf.cast(encoded["pooled"], tf.float32)[:, None, None, :]  # [W, 1, 1, D]
        else:
            vectors = features.layer_vectors(encoded["hidden_states"], self.choice.layers)
        behind = tf.shape(rows["token_ids"])[1] - tf.shape(vectors)[1]  # slots that no row uses
        return tf.pad(vectors, [[0, 0], [0, behind], [0, 0], [0, 0]])

    def in_unit(self, states, tokens):
        """States of slots [W, S, K, E] and tokens -> the vectors that are wanted of all texts: [n, K, E]."""
        flat = tf.reshape(states, [-1, *states.shape[2:]])
        choice, sources = self.choice, tokens["sources"]
        if choice.unit == "word":
            is_piece = tokens["starts"].values != NO_OFFSET
            vectors = tf.gather(flat, tf.boolean_mask(sources.values, is_piece))
            is_first = tf.boolean_mask(self._begins_word(tokens), is_piece)
            vectors = features.word_vectors(vectors, is_first, choice.word_vectors)
        else:
            vectors = tf.gather(flat, sources.values)  # [M, K, E]
        if choice.unit == "sentence":
            pooling = "cls" if choice.pooling == "pooled" else choice.pooling
            texts = tf.cast(sources.value_rowids(), tf.int32)
            vectors = features.text_vectors(vectors, texts, tf.cast(sources.nrows(), tf.int32), pooling)
        return features.normalized(vectors) if choice.unit in choice.normalize else vectors

    def signatures(self):
        """The signatures of an export, both of `text`, string [B], a text or "first ||| second" each.

        serving_default: "vectors" [B, E], one for each text. tokens: "vectors" [B, T, E], "tokens" (the pieces),
        "starts", "ends", "segments" [B, T], "counts" [B]; zeros, "" and -1 behind the last token of a text. Where K is
        not 1, vectors are [B, K, E] and [B, T, K, E].
        """
        sentence, token = (
            Extractor(self.model, self.tokenizer, dataclasses.replace(self.choice, unit=unit), PackingSpec.dynamic())
            for unit in ("sentence", "token")
        )

        read = tf.function(lambda text: self.rows_and_tokens(*split_pairs(text)), autograph=False)  # one graph for both

        def of_texts(text):
            rows, tokens = read(text)
            return {"vectors": _without_one(sentence.in_unit(sentence.states(rows), tokens))}

        def of_tokens(text):
            rows, tokens = read(text)
            vectors = _without_one(token.in_unit(token.states(rows), tokens))
            vectors = tokens["ids"].with_values(vectors).to_tensor()
            places = {name: tokens[name].to_tensor(NO_OFFSET) for name in ("starts", "ends", "segments")}
            pieces = tokens["ids"].with_values(self.tokenizer.ids_to_tokens(tokens["ids"].values)).to_tensor("")
            counts = tf.cast(tokens["ids"].row_lengths(), tf.int32)
            return {"vectors": vectors, "tokens": pieces, **places, "counts": counts}

        signature = functools.partial(
            tf.function, input_signature=[tf.TensorSpec([None], tf.string, "text")], autograph=False
        )
        return {"serving_default": signature(of_texts), "tokens": signature(of_tokens)}

    def _in_blocks(self, rows):
        """`states` of any number of rows, so many at a time that memory does not grow with them."""
        count, slots = rows["token_ids"].shape
        at_once = max(1, SLOTS_AT_ONCE // slots)
        blocks = [
            self._states({name: x[start : start + at_once] for name, x in rows.items()})
            for start in range(0, count, at_once)
        ]
        return blocks[0] if len(blocks) == 1 else tf.concat(blocks, 0)

    def _begins_word(self, tokens):
        """Bool [M]: whether a token is the first of a word; where only spaces part words, one behind a gap."""
        ids, starts, ends = (tokens[name].values for name in ("ids", "starts", "ends"))
        begins = ~tf.gather(tf.constant(self.tokenizer.is_continuation), ids)
        return begins & (starts > tf.roll(ends, 1, 0)) if self.choice.words == "spaces" else begins

    def _of_texts(self, first, second, tokens, vectors):
        """The vectors of all texts, NumPy [n, K, E] -> a TextVectors for each text."""
        if self.choice.unit == "sentence":
            return [TextVectors(each[None]) for each in vectors]
        ids, starts, ends, segments = (tokens[name].values.numpy() for name in ("ids", "starts", "ends", "segments"))
        splits = tokens["ids"].row_splits.numpy()
        if self.choice.unit == "token":
            names = np.array(self.tokenizer.vocabulary, object)[ids]
            spans = zip(splits[:-1], splits[1:], strict=True)
            return [TextVectors(vectors[a:b], names[a:b], starts[a:b], ends[a:b], segments[a:b]) for a, b in spans]
        is_piece = starts != NO_OFFSET
        begins = is_piece & self._begins_word(tokens).numpy()
        firsts = np.flatnonzero(begins)
        lasts = np.flatnonzero(is_piece & np.append(begins | ~is_piece, True)[1:])  # before a word, or [SEP]
        places = np.searchsorted(firsts, splits)  # of each text's words among all
        pairs = list(zip(first.numpy(), second.numpy(), strict=True))
        found = []
        for texts, a, b in zip(pairs, places[:-1], places[1:], strict=True):
            here = starts[firsts[a:b]], ends[lasts[a:b]], segments[firsts[a:b]]
            texts = [text.decode("utf-8", "replace") for text in texts]
            names = tuple(texts[segment][start:end] for start, end, segment in zip(*here, strict=True))
            found.append(TextVectors(vectors[a:b], names, *here))
        return found


def _without_one(vectors):
    """[..., 1, E] -> [..., E]; other numbers of vectors stay."""
    return vectors[..., 0, :] if vectors.shape[-2] == 1 else vectors


@dataclasses.dataclass(frozen=True)
class Features:
    """What `export.export` needs to know of a task, for an encoder whose answers are vectors."""

    signatures: object
    name: str = "features"
    create_model: type = BertModel

    @classmethod
    def of(cls, choice):
        """The vectors that are chosen."""
        return cls(lambda model, tokenizer: Extractor(model, tokenizer, choice).signatures())
