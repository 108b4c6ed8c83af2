"""Weights that two programs make alike from names and shapes, so that goldens need not hold them. NumPy only."""

import zlib

import numpy as np


def weight(name, shape):
    """Float32 numbers from -0.5 to 0.5, of a LayerNorm's weight from 0.5 to 1.5: a hash of the name and the place."""
    x = np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64(zlib.crc32(name.encode()) << 20)
    with np.errstate(over="ignore"):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    x ^= x >> np.uint64(31)
    is_scale = name.endswith("weight") and len(shape) == 1
    values = (x >> np.uint64(40)).astype(np.float32) / 2**24 - 0.5 + is_scale
    return values.reshape(shape)
