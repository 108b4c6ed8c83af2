"""Prints the files with skipped tests: python .ci/skipped.py tests.xml, which pytest --junitxml (xunit1) wrote."""

import sys
from xml.etree import ElementTree

cases = ElementTree.parse(sys.argv[1]).iter("testcase")  # noqa: S314, pytest has written it
print(*sorted({str(case.get("file")) for case in cases if case.find("skipped") is not None}), sep="\n")
