"""A double-array trie (the darts-clone layout that tensorflow-text reads): byte strings to numbers, in one array."""

import numpy as np

BLOCK = 256  # labels are bytes: the children of a node lie in the block of its base, at base ^ label
MAX_UNITS = 1 << 21  # an offset has 21 bits


def double_array(entries):
    """Builds the trie of `entries`, {non-empty bytes without a zero byte: number below 2**31}, as uint32 [units].

    The children of the node at place p with base b are at b ^ label, where b = p ^ offset; the value of a key is the
    child with label 0. One unit: bit 31 is a value | bits 30-10 offset | bit 8 has a value | bits 7-0 label.
    Follows s-yata/darts-clone without its sharing of equal tails.
    """
    free = _FreePlaces()
    units = {}
    waiting = [(0, 0, _tree(entries))]  # place, label, children
    while waiting:
        place, label, children = waiting.pop()
        base = free.base_for(children)
        units[place] = (place ^ base) << 10 | (0 in children) << 8 | label
        for child_label, below in children.items():
            if child_label == 0:
                units[base] = 1 << 31 | below
            else:
                waiting.append((base ^ child_label, child_label, below))
    if len(free.taken) > MAX_UNITS:
        raise ValueError(f"A double array of {len(free.taken)} units was needed; the layout holds {MAX_UNITS}.")
    trie = np.zeros(len(free.taken), np.uint32)
    trie[list(units)] = list(units.values())
    return trie


def _tree(entries):
    """{bytes: value} -> nested dicts by byte; the value stands under label 0."""
    root = {}
    for key, value in entries.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[0] = value
    return root


class _FreePlaces:
    """Which places hold a unit and which bases are used; grows by blocks."""

    def __init__(self):
        self.taken = []
        self.used_as_base = []
        self.first_block = 0  # no block before it has a free place

    def base_for(self, labels):
        """Takes the places base ^ label and returns the base; no two nodes share one, so a label names its parent."""
        block = self.first_block
        while True:
            if block * BLOCK == len(self.taken):
                self._grow()
            for base in range(block * BLOCK, (block + 1) * BLOCK):
                if self.used_as_base[base] or any(self.taken[base ^ label] for label in labels):
                    continue
                self.used_as_base[base] = True
                for label in labels:
                    self.taken[base ^ label] = True
                return base
            if block == self.first_block and len(labels) == 1:
                self.first_block += 1
            block += 1

    def _grow(self):
        self.taken.extend([False] * BLOCK)
        self.used_as_base.extend([False] * BLOCK)
        self.taken[0] = True  # the root
