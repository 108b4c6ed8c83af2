"""Pre-training records as google-research/bert makes them, token by token in plain Python, for ../records.py.

Restates `create_pretraining_data.py` and needs no bert_tf; its random draws are not compared with anything.
"""

import random

MASKED_SHARE, MOST_MASKS = 0.15, 20


def create(documents, *, passes, width, short_seq_prob, vocabulary, draws):
    """Instances of documents, lists of sentences, lists of pieces: (pieces, segment ids, is random, places, labels)."""
    instances = []
    for _ in range(passes):
        for number in range(len(documents)):
            instances += of_document(documents, number, width, short_seq_prob, vocabulary, draws)
    draws.shuffle(instances)
    return instances


def of_document(documents, number, width, short_seq_prob, vocabulary, draws):
    document, instances, i = documents[number], [], 0
    room = width - 3
    target = draws.randint(2, room) if draws.random() < short_seq_prob else room
    chunk, length = [], 0
    while i < len(document):
        chunk.append(document[i])
        length += len(document[i])
        if i == len(document) - 1 or length >= target:
            a_end = draws.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            first = [piece for sentence in chunk[:a_end] for piece in sentence]
            is_random = len(chunk) == 1 or draws.random() < 0.5
            if is_random:
                second = _of_another(documents, number, target - len(first), draws)
                i -= len(chunk) - a_end
            else:
                second = [piece for sentence in chunk[a_end:] for piece in sentence]
            _trim(first, second, room, draws)
            pieces = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
            segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
            instances.append((*_masked(pieces, vocabulary, draws), segments, is_random))
            chunk, length = [], 0
        i += 1
    return instances


def _of_another(documents, number, wanted, draws):
    for _ in range(10):
        other = draws.randint(0, len(documents) - 1)
        if other != number:
            break
    found = []
    for sentence in documents[other][draws.randint(0, len(documents[other]) - 1) :]:
        found.extend(sentence)
        if len(found) >= wanted:
            break
    return found


def _trim(first, second, room, draws):
    while len(first) + len(second) > room:
        longer = first if len(first) > len(second) else second
        if draws.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


def _masked(pieces, vocabulary, draws):
    places = [i for i, piece in enumerate(pieces) if piece not in ("[CLS]", "[SEP]")]
    draws.shuffle(places)
    count = min(MOST_MASKS, max(1, int(round(len(pieces) * MASKED_SHARE))))
    shown, hidden = list(pieces), []
    for place in sorted(places[:count]):
        if draws.random() < 0.8:
            shown[place] = "[MASK]"
        elif draws.random() >= 0.5:
            shown[place] = vocabulary[draws.randint(0, len(vocabulary) - 1)]
        hidden.append((place, pieces[place]))
    return shown, hidden


def write(instances, path, *, width, ids):
    """As tf.train.Examples, filled up to the width."""
    import tensorflow as tf

    def integers(values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    def numbers(values):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    with tf.io.TFRecordWriter(path) as writer:
        for pieces, hidden, segments, is_random in instances:
            rest, missing = [0] * (width - len(pieces)), [0] * (MOST_MASKS - len(hidden))
            features = {
                "input_ids": integers([ids[piece] for piece in pieces] + rest),
                "input_mask": integers([1] * len(pieces) + rest),
                "segment_ids": integers(segments + rest),
                "masked_lm_positions": integers([place for place, _ in hidden] + missing),
                "masked_lm_ids": integers([ids[piece] for _, piece in hidden] + missing),
                "masked_lm_weights": numbers([1.0] * len(hidden) + [0.0] * len(missing)),
                "next_sentence_labels": integers([int(is_random)]),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def new_draws():
    return random.Random(12345)
