"""A plugin of pytest that keeps what tests/training/test_compiled_graphs.py compiles; see ../programs.py."""

import os
import pathlib
import re


def pytest_collection_modifyitems():
    """Replaces the function with which these tests compile, on what they take for a GPU."""
    import test_compiled_graphs as tests

    from bert_tf.runtime import backend

    own_platform, own_assertion = backend.platform, tests.assert_compiles
    folder, kept = pathlib.Path(os.environ["PROGRAMS"]), []

    def assert_compiles(function, *arguments):
        own_assertion(function, *arguments)
        test = os.environ["PYTEST_CURRENT_TEST"].split("::")[1].split(" ")[0].removeprefix("test_")
        kept.append(re.sub(r"\W+", "_", test).strip("_"))
        (folder / f"{kept[-1]}_{kept.count(kept[-1])}.hlo").write_bytes(lowered(function, *arguments))

    backend.platform = lambda: "gpu" if own_platform() == "cpu" else own_platform()
    tests.assert_compiles = assert_compiles


def lowered(function, *arguments):
    """The HLO of a function, as bytes, before XLA has optimized it."""
    import tensorflow as tf
    from tensorflow.compiler.xla.service import hlo_pb2

    compiled = tf.function(function, jit_compile=True, autograph=False)
    module = hlo_pb2.HloModuleProto()
    module.ParseFromString(compiled.experimental_get_compiler_ir(*arguments)(stage="hlo_serialized"))
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode == "copy":  # StableHLO has none; a conversion to the same type is the same
                instruction.opcode = "convert"
    return module.SerializeToString()
