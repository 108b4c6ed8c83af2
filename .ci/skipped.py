"""Prints the skipped tests in a file of pytest (--junitxml, junit_family=xunit1): python .ci/skipped.py tests.xml."""

import sys
from xml.etree import ElementTree

for case in ElementTree.parse(sys.argv[1]).iter("testcase"):  # noqa: S314, pytest has written it
    if case.find("skipped") is not None:
        print(f"{case.get('file')}::{case.get('name')}")
