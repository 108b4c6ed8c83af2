"""Reads the kernels of a program that XLA has compiled, from its text."""

import collections
import dataclasses
import re

SIZES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s64": 8, "u64": 8, "f64": 8}
NO_KERNELS = {"parameter", "constant", "get-tuple-element", "bitcast", "tuple"}
INSTRUCTION = re.compile(r"\s+(?:ROOT )?%([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*?)\)(?:,|$)")
ARRAY = re.compile(r"\b(pred|bf16|[suf]\d+)\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An instruction of the entry computation. bytes: of its operands and results; source: TensorFlow's operation."""

    name: str
    bytes: int
    source: str


def kernels_of(text):
    """The kernels of a compiled program in their order; of asynchronous pairs the second alone."""
    shapes, kernels = {}, []
    for line in text[text.index("\nENTRY") :].splitlines()[1:]:
        match = INSTRUCTION.match(line)
        if not match:
            continue
        name, shape, kind, operands = match.groups()
        shapes[name] = shape
        if kind in NO_KERNELS or kind.endswith("-start"):
            continue
        read = sum(size_of(shapes.get(operand, "")) for operand in re.findall(r"%([\w.\-]+)", operands))
        source = re.search(r'op_name="([^"]*)"', line)
        kernels.append(Kernel(name, read + size_of(shape), source[1] if source else ""))
    return kernels


def size_of(shape):
    """The bytes of an array, or of all in a tuple."""
    total = 0
    for kind, sizes in ARRAY.findall(shape):
        count = SIZES.get(kind, 4)
        for size in filter(None, sizes.split(",")):
            count *= int(size)
        total += count
    return total


def table(kernels, rows):
    """The kinds of kernels that move most, a line each."""
    counts, moved = collections.Counter(), collections.Counter()
    for kernel in kernels:
        source = re.sub(r"_\d+\b", "", kernel.source.split("/")[-1])
        kind = re.sub(r"\.?\d+\b", "", kernel.name), source
        counts[kind] += 1
        moved[kind] += kernel.bytes
    lines = (
        f"{counts[kind]:6} {size / 1e6:9,.0f} MB  {kind[0]} ({kind[1]})\n" for kind, size in moved.most_common(rows)
    )
    return "".join(lines)
