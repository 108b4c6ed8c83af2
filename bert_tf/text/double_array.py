"""A double-array trie (the darts-clone layout that tensorflow-text reads): byte strings to integers, in one array."""

from collections.abc import Collection, Mapping

import numpy as np

BLOCK = 256  # labels are bytes: a node's children are in the block of its base, at base ^ label
MAX_UNITS = 1 << 21  # an offset has 21 bits


def build_double_array(entries: Mapping[bytes, int]) -> np.ndarray:
    """Builds the trie of `entries`, {non-empty bytes without a zero byte: integer below 2**31}, as uint32 [units].

    The children of the node at index i with base b are at b ^ label, where b = i ^ offset; the value of a key is the
    child with label 0. One unit: bit 31 is a value | bits 30-10 offset | bit 8 has a value | bits 7-0 label.
    Follows s-yata/darts-clone without its sharing of equal tails.
    """
    allocator = _UnitAllocator()
    units: dict[int, int] = {}
    stack = [(0, 0, _nested_dicts(entries))]  # index, label, children
    while stack:
        index, label, children = stack.pop()
        base = allocator.allocate(children)
        units[index] = (index ^ base) << 10 | (0 in children) << 8 | label
        for child_label, child in children.items():
            if child_label == 0:
                units[base] = 1 << 31 | child
            else:
                stack.append((base ^ child_label, child_label, child))
    if len(allocator.taken) > MAX_UNITS:
        raise ValueError(f"A double array of {len(allocator.taken)} units is needed; the layout allows {MAX_UNITS}.")
    trie = np.zeros(len(allocator.taken), np.uint32)
    trie[list(units)] = list(units.values())
    return trie


def _nested_dicts(entries: Mapping[bytes, int]) -> dict:
    """{bytes: value} -> nested dicts by byte, with the value under label 0."""
    root: dict = {}
    for key, value in entries.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[0] = value
    return root


class _UnitAllocator:
    """Finds free units for the children of a node; grows by blocks."""

    def __init__(self) -> None:
        self.taken: list[bool] = []
        self.used_as_base: list[bool] = []
        self.free: list[int] = []  # free units of each block
        self.first_block = 0  # no block before it has a free unit

    def allocate(self, labels: Collection[int]) -> int:
        """Takes the units base ^ label and returns the base; no two nodes share one, so a label names its parent."""
        taken, used_as_base, block = self.taken, self.used_as_base, self.first_block
        first, *others = labels
        while True:
            if block == len(self.free):
                self._grow()
            if self.free[block] >= len(labels):
                for base in range(block * BLOCK, (block + 1) * BLOCK):
                    if taken[base ^ first] or used_as_base[base] or any(taken[base ^ label] for label in others):
                        continue
                    used_as_base[base] = True
                    self.free[block] -= len(labels)
                    for label in labels:
                        taken[base ^ label] = True
                    return base
            if block == self.first_block and len(labels) == 1:
                self.first_block += 1
            block += 1

    def _grow(self) -> None:
        self.taken.extend([False] * BLOCK)
        self.used_as_base.extend([False] * BLOCK)
        self.free.append(BLOCK if self.taken[0] else BLOCK - 1)
        self.taken[0] = True  # the root
