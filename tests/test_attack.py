"""A few of the cases of benchmarks/attack/properties.py, the same in every run: a malformed file is a UserError."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks/attack"))
import properties  # noqa: E402

EXAMPLES = 12
OPTIONAL = {"about.json"}  # without which an export works, so that most damage is ignored


@pytest.mark.parametrize("name", [*properties.READERS, "tf_index"])
def test_malformed_files_are_user_errors_that_leave_nothing(name):
    reader = properties.READERS[name] if name in properties.READERS else properties.tf_index()
    counts = properties.run(reader, EXAMPLES, derandomize=True)
    assert counts.refused or name in OPTIONAL
    assert counts.read + counts.refused >= EXAMPLES // 2


def test_defects_are_found():
    def fails(path):
        if b"\0" in Path(path).read_bytes():
            raise KeyError("a traceback")

    def leaves(path):
        Path(path).with_suffix(".left").write_bytes(b"")

    for read, error in ((fails, KeyError), (leaves, AssertionError), (lambda _: bytes(10**7), AssertionError)):
        with pytest.raises(error):
            properties.run(properties.Reader("a.txt", [b"\0"], read), 30, derandomize=True)
