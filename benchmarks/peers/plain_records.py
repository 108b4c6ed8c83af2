"""Pre-training records as google-research/bert makes them, token by token in plain Python, for ../records.py.

Restates `create_pretraining_data.py` and needs no bert_tf; its random draws are not compared with anything.
"""

import random

MASK_RATE, MAX_MASKS = 0.15, 20


def create(documents, *, passes, width, short_seq_prob, vocabulary, rng):
    """Instances of documents: (tokens, [(position, label)], segment ids, is random)."""
    instances = []
    for _ in range(passes):
        for number in range(len(documents)):
            instances += of_document(documents, number, width, short_seq_prob, vocabulary, rng)
    rng.shuffle(instances)
    return instances


def of_document(documents, number, width, short_seq_prob, vocabulary, rng):
    document, instances, i = documents[number], [], 0
    room = width - 3
    target = rng.randint(2, room) if rng.random() < short_seq_prob else room
    chunk, length = [], 0
    while i < len(document):
        chunk.append(document[i])
        length += len(document[i])
        if i == len(document) - 1 or length >= target:
            a_end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            first = [token for sentence in chunk[:a_end] for token in sentence]
            is_random = len(chunk) == 1 or rng.random() < 0.5
            if is_random:
                second = _of_another(documents, number, target - len(first), rng)
                i -= len(chunk) - a_end
            else:
                second = [token for sentence in chunk[a_end:] for token in sentence]
            _trim(first, second, room, rng)
            tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
            segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
            instances.append((*_masked(tokens, vocabulary, rng), segments, is_random))
            chunk, length = [], 0
        i += 1
    return instances


def _of_another(documents, number, min_length, rng):
    for _ in range(10):
        other = rng.randint(0, len(documents) - 1)
        if other != number:
            break
    second = []
    for sentence in documents[other][rng.randint(0, len(documents[other]) - 1) :]:
        second.extend(sentence)
        if len(second) >= min_length:
            break
    return second


def _trim(first, second, room, rng):
    while len(first) + len(second) > room:
        longer = first if len(first) > len(second) else second
        if rng.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


def _masked(tokens, vocabulary, rng):
    positions = [i for i, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]")]
    rng.shuffle(positions)
    count = min(MAX_MASKS, max(1, int(round(len(tokens) * MASK_RATE))))
    result, masked = list(tokens), []
    for position in sorted(positions[:count]):
        if rng.random() < 0.8:
            result[position] = "[MASK]"
        elif rng.random() >= 0.5:
            result[position] = vocabulary[rng.randint(0, len(vocabulary) - 1)]
        masked.append((position, tokens[position]))
    return result, masked


def write(instances, path, *, width, ids):
    """Writes tf.train.Examples, padded to the width."""
    import tensorflow as tf

    def integers(values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    def numbers(values):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    with tf.io.TFRecordWriter(path) as writer:
        for tokens, masked, segments, is_random in instances:
            rest, missing = [0] * (width - len(tokens)), [0] * (MAX_MASKS - len(masked))
            features = {
                "input_ids": integers([ids[token] for token in tokens] + rest),
                "input_mask": integers([1] * len(tokens) + rest),
                "segment_ids": integers(segments + rest),
                "masked_lm_positions": integers([position for position, _ in masked] + missing),
                "masked_lm_ids": integers([ids[token] for _, token in masked] + missing),
                "masked_lm_weights": numbers([1.0] * len(masked) + [0.0] * len(missing)),
                "next_sentence_labels": integers([int(is_random)]),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def new_rng():
    return random.Random(12345)
