"""How much memory a function needs beyond what the process has: Linux counts it."""

import gc
import pathlib

import pytest

PROCESS = pathlib.Path("/proc/self")


def growth(function):
    """Calls a function; returns the largest growth of the resident memory of this process meanwhile, in MB."""
    gc.collect()
    try:
        (PROCESS / "clear_refs").write_text("5")  # the peak becomes what is used now
    except OSError:
        pytest.skip("needs Linux, which counts the peak of the resident memory")
    before = _peak()
    function()
    return _peak() - before


def _peak():
    (line,) = [line for line in (PROCESS / "status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1000
