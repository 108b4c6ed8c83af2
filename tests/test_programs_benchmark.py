"""benchmarks/programs.py: what it gives to compilers."""

from pathlib import Path

import tensorflow as tf


def test_lowered_programs_have_what_stablehlo_has(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks/peers")
    from keep_programs import lowered
    from tensorflow.compiler.xla.service import hlo_pb2

    variable = tf.Variable([1.0, 2.0])
    program = lowered(lambda x: variable.assign(variable * x), tf.constant(2.0))
    module = hlo_pb2.HloModuleProto.FromString(program)
    kinds = {each.opcode for computation in module.computations for each in computation.instructions}
    assert "multiply" in kinds and "copy" not in kinds
