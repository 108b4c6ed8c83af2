"""Several texts in one row of the encoder: less padding, the same answers.

R texts of a batch, T slots of each; after packing P rows of W slots, N = P * W; D hidden size.
"""

import dataclasses

import tensorflow as tf

# Rows of twice the mean length and a little more are 90% to 95% full on tasks of GLUE, where batches that are padded to
# their longest text are 33% to 67% full; wider rows are fuller, but cost more in attention. A batch that is full to
# FULL already stays as it is.
MEAN_LENGTHS, SLACK, FULL = 2.0, 1.04, 0.9


@dataclasses.dataclass(frozen=True)
class Packing:
    """Which slot of a batch stands where.

    `sources` int32 [P, W]: the slot r * T + t of the batch that a slot of the rows holds, -1 where it holds none.
    `places` int32 [R, T]: the slot p * W + w of the rows that holds a slot of the batch, 0 where a text has none.
    """

    sources: tf.Tensor
    places: tf.Tensor

    @classmethod
    def of(cls, lengths, slots, width):
        """Texts of `lengths` [R] in `slots` slots each -> rows of `width` slots; a text of length 0 takes no place."""
        starts, rows = fitted(lengths, width)  # [R]
        place = tf.range(slots)[None, :]
        used = place < lengths[:, None]  # [R, T]
        places = tf.where(used, starts[:, None] + place, 0)
        nowhere = tf.fill([rows * width], -1)
        held = tf.cast(tf.where(tf.reshape(used, [-1])), tf.int32)  # [used, 1]
        sources = tf.tensor_scatter_nd_update(nowhere, tf.boolean_mask(places, used)[:, None], held[:, 0])
        return cls(sources=tf.reshape(sources, [rows, width]), places=places)

    def rows(self, inputs):
        """`token_ids` and `segment_ids` [R, T] -> those [P, W], and `positions` and `text_numbers` [P, W]."""
        slots = tf.shape(self.places)[1]
        is_text = self.sources >= 0
        flat = {name: tf.reshape(inputs[name], [-1]) for name in ("token_ids", "segment_ids")}
        found = {name: tf.gather(x, tf.maximum(self.sources, 0)) for name, x in flat.items()}
        found |= {"positions": self.sources % slots, "text_numbers": self.sources // slots + 1}
        return {name: tf.where(is_text, x, 0) for name, x in found.items()}

    def texts(self, x):  # [N, D] -> [R, T, D]
        """Tokens of the rows back in the places of the batch; slots that no text uses hold some other token."""
        return tf.gather(x, self.places)

    def slots(self, places):  # [R, P] -> [R, P]
        """Where in the rows, of N slots in all, the tokens at these slots of each text are."""
        return tf.gather(self.places, places, batch_dims=1)


def width_for(lengths):
    """How many slots rows for texts of `lengths` [R] should have, an int32: the longest text at least."""
    used, longest = tf.reduce_sum(lengths), tf.maximum(tf.reduce_max(lengths), 1)
    texts = tf.reduce_sum(tf.cast(lengths > 0, tf.int32))
    total = tf.cast(used, tf.float32)
    wished = tf.maximum(tf.cast(longest, tf.float32), MEAN_LENGTHS * total / tf.cast(tf.maximum(texts, 1), tf.float32))
    rows = tf.maximum(tf.floor(total / wished), 1)
    width = tf.maximum(longest, tf.cast(tf.math.ceil(SLACK * total / rows), tf.int32))
    return tf.where(total > FULL * tf.cast(texts * longest, tf.float32), longest, width)


def fitted(lengths, width):
    """Puts texts into rows, the longest first and each into the first row that has room (first fit decreasing).

    lengths: int32 [R], none above `width`. Returns the slot at which each text begins, counted through all rows,
    int32 [R], and the number of rows, at least 1.
    """
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    sizes = tf.gather(lengths, order)
    count = tf.reduce_sum(tf.cast(sizes > 0, tf.int32))
    starts = tf.TensorArray(tf.int32, tf.size(lengths), element_shape=[])

    def put(number, room, starts):  # room [R]: what is left in each row
        row = tf.argmax(room >= sizes[number], output_type=tf.int32)
        start = row * width + width - room[row]
        room -= tf.one_hot(row, tf.size(room), dtype=tf.int32) * sizes[number]
        return number + 1, room, starts.write(number, start)

    room = tf.fill([tf.size(lengths)], width)
    _, room, starts = tf.while_loop(lambda number, *_: number < count, put, (0, room, starts), parallel_iterations=1)
    rows = tf.maximum(tf.reduce_sum(tf.cast(room < width, tf.int32)), 1)
    found = starts.stack()[:count]
    return tf.scatter_nd(order[:count, None], found, [tf.size(lengths)]), rows
