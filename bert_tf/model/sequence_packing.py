"""Several texts in one row of the encoder: less padding, the same answers.

R texts of a batch, T slots of each; after packing P rows of W slots, N = P * W; D hidden size; K widths to choose from.
"""

import dataclasses

import tensorflow as tf

# Widths that rows may have, in parts of the longest text and of twice the mean. On tasks of GLUE the best of them is
# 95% to 98% full, where batches that are padded to their longest text are 33% to 67%.
LONGEST, MEANS = (1.0, 1.04, 1.1, 1.2, 1.35, 1.6, 2.0), 2.08
ATTENTION = 1000  # slots of a row at which attention takes as long as all the rest, or so
# Processors compute in blocks: a row of a multiple of so many slots is sooner done, by so much, and so are rows that
# have a multiple of so many slots together, if they are many.
BLOCK, UNEVEN, BLOCKS, MANY = 16, 1.03, 128, 1024


@dataclasses.dataclass(frozen=True)
class Packing:
    """Which slot of a batch stands where.

    `sources` int32 [P, W]: the slot r * T + t of the batch that a slot of the rows holds, -1 where it holds none.
    `places` int32 [R, T]: the slot p * W + w of the rows that holds a slot of the batch, 0 where a text has none.
    """

    sources: tf.Tensor
    places: tf.Tensor

    @classmethod
    def of_inputs(cls, inputs):
        """The packing that inputs of the encoder ask for, or None."""
        if "row_form" in inputs:
            rows, width = inputs["row_form"].shape
            return cls.of(inputs["lengths"], inputs["token_ids"].shape[1], width, rows)
        if "row_width" in inputs:
            return cls.of(inputs["lengths"], tf.shape(inputs["token_ids"])[1], inputs["row_width"])
        return None

    @classmethod
    def of(cls, lengths, slots, width, rows=None):
        """Texts of `lengths` [R] in `slots` slots each -> rows of `width` slots; a text of length 0 takes no place.

        rows: how many rows there are, a number known beforehand that must suffice; None: as many as are needed.
        """
        starts, needed, _ = (x[0] for x in first_fit_decreasing(lengths, tf.reshape(width, [1])))  # [R], []
        rows = round_up_row_count(needed, width) if rows is None else rows
        place = tf.range(slots)[None, :]
        used = place < lengths[:, None]  # [R, T]
        places = tf.where(used, starts[:, None] + place, 0)
        nowhere = rows * width  # one slot more takes what no text uses
        targets = tf.reshape(tf.where(used, places, nowhere), [-1, 1])
        sources = tf.tensor_scatter_nd_update(tf.fill([nowhere + 1], -1), targets, tf.range(tf.size(used)))[:-1]
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

    def positions(self, places):  # [R, P] -> [R, P]
        """Where in the rows, of N slots in all, the tokens at these slots of each text are."""
        return tf.gather(self.places, places, batch_dims=1)


def choose_row_width(lengths):
    """How many slots rows for texts of `lengths` [R] should have, an int32: the longest text at least."""

    def in_blocks(slots):
        return -(-slots // BLOCK) * BLOCK

    longest = tf.cast(tf.maximum(tf.reduce_max(lengths), 1), tf.float32)
    texts = tf.maximum(tf.reduce_sum(tf.cast(lengths > 0, tf.float32)), 1)
    mean = tf.cast(tf.reduce_sum(lengths), tf.float32) / texts
    widths = tf.concat([longest * tf.constant(LONGEST), [tf.maximum(longest, MEANS * mean)]], 0)  # [K]
    widths = tf.cast(tf.math.ceil(widths), tf.int32)
    _, rows, fullest = first_fit_decreasing(lengths, tf.concat([widths, in_blocks(widths)], 0))
    fullest = tf.concat([fullest[: len(LONGEST) + 1], in_blocks(fullest[len(LONGEST) + 1 :])], 0)
    slots = tf.cast(fullest, tf.float32)
    cost = tf.cast(rows, tf.float32) * slots * (1 + slots / ATTENTION) * tf.where(fullest % BLOCK == 0, 1.0, UNEVEN)
    return tf.maximum(fullest[tf.argmin(cost)], 1)


def round_up_row_count(rows, width):
    """How many rows of `width` slots there should be where `rows` are needed: of many, a sixteenth more at most."""
    more = tf.range(BLOCKS // BLOCK)
    even = tf.argmax(((rows + more) * width) % BLOCKS == 0, output_type=tf.int32)  # 0 where there is none
    return tf.where((rows * width >= MANY) & (16 * even <= rows), rows + even, rows)


def first_fit_decreasing(lengths, widths):
    """Puts texts into rows, the longest first and each into the first row that has room (first fit decreasing).

    lengths: int32 [R], none above the least of `widths` int32 [K], which are tried beside each other. Returns of each
    width the slot at which each text begins, counted through all rows, int32 [K, R], 0 for a text of length 0; the
    number of rows, at least 1, int32 [K]; and the slots that the fullest row uses, int32 [K], a width with which every
    text has the same place.
    """
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    sizes = tf.gather(lengths, order)
    count = tf.reduce_sum(tf.cast(sizes > 0, tf.int32))
    starts = tf.TensorArray(tf.int32, tf.size(lengths), element_shape=widths.shape)

    def put(number, room, starts):  # room [K, R]: what is left in each row
        row = tf.argmax(room >= sizes[number], 1, output_type=tf.int32)  # [K]
        here = tf.one_hot(row, tf.shape(room)[1], dtype=tf.int32)
        start = row * widths + widths - tf.reduce_sum(here * room, 1)
        return number + 1, room - here * sizes[number], starts.write(number, start)

    room = tf.tile(widths[:, None], [1, tf.size(lengths)])
    _, room, starts = tf.while_loop(lambda number, *_: number < count, put, (0, room, starts), parallel_iterations=1)
    rows = tf.maximum(tf.reduce_sum(tf.cast(room < widths[:, None], tf.int32), 1), 1)
    starts = tf.scatter_nd(order[:, None], starts.stack(), [tf.size(lengths), tf.size(widths)])  # [R, K]
    return tf.transpose(starts), rows, tf.reduce_max(widths[:, None] - room, 1)
