"""benchmarks/programs.py: what it reads from a compiled program, and what it gives to compilers."""

from pathlib import Path

import pytest
import tensorflow as tf

ROOT = Path(__file__).parent.parent
PROGRAM = """HloModule jit_f, is_scheduled=true

%fused (p: bf16[4,8]) -> f32[4] {
  %p = bf16[4,8]{1,0} parameter(0)
}

ENTRY %main (a: bf16[4,8], b: f32[4]) -> (f32[4], pred[3]) {
  %a = bf16[4,8]{1,0} parameter(0)
  %b = f32[4]{0} parameter(1), metadata={op_name="XLA_Args"}
  %fusion.12 = (f32[4]{0}, pred[3]{0}) fusion(%a, %b), metadata={op_name="encoder/layer_3/Sum"}
  %get-tuple-element = f32[4]{0} get-tuple-element(%fusion.12), index=0
  %copy-start.1 = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(%get-tuple-element)
  %copy-done.1 = f32[4]{0} copy-done(%copy-start.1)
  ROOT %fusion.7 = f32[] fusion(%copy-done.1), kind=kLoop, calls=%fused, metadata={op_name="encoder/layer_4/Sum"}
}
"""


@pytest.fixture
def benchmarks(monkeypatch):
    for folder in ("benchmarks", "benchmarks/peers"):
        monkeypatch.syspath_prepend(ROOT / folder)


def test_kernels_and_their_bytes_are_read(benchmarks):
    import hlo_kernels

    kernels = hlo_kernels.kernels_of(PROGRAM)
    assert [(each.name, each.source) for each in kernels] == [
        ("fusion.12", "encoder/layer_3/Sum"),
        ("copy-done.1", ""),
        ("fusion.7", "encoder/layer_4/Sum"),
    ]
    assert kernels[0].bytes == 4 * 8 * 2 + 4 * 4 + 4 * 4 + 3 and kernels[2].bytes == 4 * 4 + 4
    assert hlo_kernels.table(kernels, 1) == "     2         0 MB  fusion (Sum)\n"


def test_lowered_programs_have_what_stablehlo_has(benchmarks):
    from lower_program import lowered
    from tensorflow.compiler.xla.service import hlo_pb2

    variable = tf.Variable([1.0, 2.0])
    program = lowered(lambda x: variable.assign(variable * x), tf.constant(2.0))
    module = hlo_pb2.HloModuleProto.FromString(program)
    kinds = {each.opcode for computation in module.computations for each in computation.instructions}
    assert "multiply" in kinds and "copy" not in kinds
