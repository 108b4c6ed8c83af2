"""A plugin of pytest that keeps what tests/training/test_compiled_graphs.py compiles; see ../programs.py."""

import os
import pathlib
import re

from lower_program import lowered


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
