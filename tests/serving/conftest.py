"""Exports of all kinds, made and loaded once for all tests of the server."""

import pytest
import quick_exports

from bert_tf.serving.served import Served


@pytest.fixture(scope="session")
def exports(tmp_path_factory):
    """{name: folder of an export}."""
    folder = tmp_path_factory.mktemp("exports")
    return quick_exports.make(folder) | quick_exports.for_the_page(folder)


@pytest.fixture(scope="session")
def served(exports):
    """{name: loaded export}."""
    return {name: Served(name, str(folder)) for name, folder in exports.items()}
