"""Tags of words with a frozen encoder: its vectors are made once, and a BiLSTM learns on them.

It is the feature-based approach of Devlin et al. 2018, section 5.3. B sentences of a batch, W words of the longest of a
split, K layers, D hidden size, S sentences, N words.
"""

import copy
import dataclasses
import functools
import os

import numpy as np
import tensorflow as tf

from bert_tf.data import pipeline
from bert_tf.errors import UserError
from bert_tf.model.sequence_packing import PackingSpec
from bert_tf.tasks.embeddings import feature_cache, features, vector_choice
from bert_tf.tasks.embeddings.bilstm_tagger import BiLstmTagger
from bert_tf.tasks.embeddings.vector_choice import FEATURES
from bert_tf.tasks.token_classification import tag_serving, tagging
from bert_tf.tasks.token_classification.tag_splits import UNKNOWN


def of_options(plain, options):
    """The task that the flags ask for: feature_layers, lstm_size, feature_cache; init_checkpoint has the encoder.

    Raises UserError where there is none.
    """
    if not options.init_checkpoint:
        raise UserError("feature_layers takes the vectors of a trained encoder: give one as init_checkpoint.")
    if options.feature_cache:
        feature_cache.expect_folder(options.feature_cache)
    folder = options.feature_cache or os.path.join(options.output_dir, "features")
    return task(plain, choice=options.feature_layers, lstm_size=options.lstm_size, folder=folder)


def task(plain, *, choice, lstm_size, folder):
    """A tagging.TagTask with its sentences as vectors of words.

    choice: a name in vector_choice.FEATURES. folder: where vectors are kept from run to run, see `feature_cache`: those
    of the encoder in the model that was made last, whose weights are to be there before the first batch.
    """
    layers, models = FEATURES[choice][0], []

    @functools.cache
    def source(split):
        return by_sentences(plain.split(split))

    @functools.cache
    def vectors(split):
        chosen = vector_choice.choose(layers, models[-1].config.layers_with_states)
        path = os.path.join(folder, f"{split}_{layers.replace(',', '_')}")
        return feature_cache.word_vectors(plain.split(split), models[-1], plain.tokenizer, plain.windows, chosen, path)

    def stream(split, size, seed=None):
        return batches(source(split), vectors(split), size, seed=seed)

    def new_model(config, **options):
        sizes = {"count": len(vector_choice.choose(layers, config.layers_with_states).layers), "lstm_size": lstm_size}
        models[:] = [BiLstmTagger(config, features=choice, size=len(plain.labels), **sizes, **options)]
        return models[0]

    return dataclasses.replace(
        plain,
        create_model=new_model,
        train_batches=lambda size, seed: stream("train", size, seed),
        eval_batches=lambda size, split="dev": stream(split, size),
        predictions=kept_answers,
        scores=lambda answers, split: tagging.scored(answers, source(split)),
        split=source,
        compare=lambda answers, split: tagging.compared(answers, source(split)),
        details=lambda answers, split: tagging.details(answers, source(split)),
        write_predictions=lambda path, split, found: tagging.write_predictions(path, split, found, source(split)),
        signatures=functools.partial(plain.signatures, reading=READING),
        head=("classifier/kernel", len(plain.labels)),
    )


def _states(model, rows):
    """The vectors of the slots of rows, float32 [R, T, K, D]."""
    choice = vector_choice.choose(FEATURES[model.features][0], model.config.layers_with_states)
    return features.layer_vectors(
        model.encoder(rows, return_hidden_states=True, packing=PackingSpec.dynamic())["hidden_states"], choice
    )


def _logits(model, vectors, owners, count):
    """Vectors of words [N, K, D] -> float32 [N, C]; a text is what a sentence was in training."""

    def of_texts(first, end):
        here = slice(*tf.unstack(tf.searchsorted(owners, [first, end])))
        words = tf.RaggedTensor.from_value_rowids(vectors[here], owners[here] - first, nrows=end - first)
        padded = tf.pad(words.to_tensor(), [[0, 0], [0, 1], [0, 0], [0, 0]])  # one word at least
        lengths = tf.cast(words.row_lengths(), tf.int32)
        found = model({"vectors": padded, "lengths": lengths})["logits"]  # [texts, words, C]
        return tf.boolean_mask(found, tf.sequence_mask(lengths, tf.shape(found)[1]))

    return tag_serving.in_parts(of_texts, count, model.classifier.bias.shape)


# How an export reads texts: vectors of words as `feature_cache` makes them, then the BiLSTM over each text.
READING = tag_serving.Reading(
    shape=lambda model: (model.count, model.config.hidden_size), states=_states, logits=_logits
)


def by_sentences(split):
    """A tag_splits.Split whose rows are sentences and whose slots are words; those without a piece have neither."""
    found = copy.copy(split)
    starts = np.cumsum(split.sizes_of_sentences) - split.sizes_of_sentences  # [S]
    places = (np.arange(len(split.owners)) - starts[split.owners]).astype(np.int32)
    found.rows, found.slots = (np.where(split.rows >= 0, x, -1) for x in (split.owners, places))
    found.count = len(split.sentences)
    return found


def batches(split, vectors, size, *, seed=None):
    """Batches of sentences of `by_sentences`: "vectors" float32 [B, W, K, D], "lengths" int32 [B], "labels" int32
    [B, W], -1 behind the last word and where there is no piece, and "row_numbers" [B].

    vectors: float32 [N, K, D]. Endless with a seed, else one pass, as `tagging.batches`. All shapes are static.
    """
    sizes = tf.constant(split.sizes_of_sentences, tf.int32)
    starts, longest = tf.cumsum(sizes, exclusive=True), int(split.sizes_of_sentences.max())
    truth = tf.constant(np.where(split.rows >= 0, split.truth, UNKNOWN), tf.int32)
    count = split.count

    def made(places):
        is_row = places < count
        start, length = (tf.gather(x, tf.minimum(places, count - 1)) for x in (starts, sizes))
        length = tf.where(is_row, length, 0)
        inside = tf.range(longest)[None, :] < length[:, None]  # [B, W]
        words = tf.where(inside, start[:, None] + tf.range(longest)[None, :], 0)
        batch = {
            "vectors": tf.gather(vectors, words),
            "lengths": length,
            "labels": tf.where(inside, tf.gather(truth, words), UNKNOWN),
            "row_numbers": tf.cast(tf.where(is_row, places + 1, 0), tf.int32),
        }
        return {name: tf.ensure_shape(x, [size, *x.shape[1:]]) for name, x in batch.items()}

    dataset = pipeline.batch_indices(count, size, seed=seed)
    return dataset.map(pipeline.no_autograph(made), num_parallel_calls=2, deterministic=True).prefetch(1)


def kept_answers(outputs, batch):
    """As `tagging.kept_answers`, of words."""
    return tagging.kept_answers(outputs, batch, slots=batch["labels"].shape[1])
