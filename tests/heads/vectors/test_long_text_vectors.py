"""Vectors of texts of many windows: rows pass the encoder in blocks, here and in exports, with the same vectors."""

import faults
import numpy as np
import pytest
import tensorflow as tf
import tiny

from bert_tf.heads.vectors import extraction
from bert_tf.heads.vectors.vector_choice import VectorChoice, choose_layers
from bert_tf.model import heads
from bert_tf.text.tokenizer import Tokenizer

WORDS = "the fox saw paris in new york we met".split()
TOKENIZER = Tokenizer([*tiny.SPECIAL, *WORDS])
TEXTS = ["the fox saw " * 30, "", "in new york " * 20 + "||| we met " + "paris " * 40, "we met"]


@pytest.mark.eager
@pytest.mark.parametrize(
    ("pooling", "signature"), [("mean", "serving_default"), ("pooled", "serving_default"), ("mean", "tokens")]
)
def test_signatures_compute_blocks_of_rows(pooling, signature):
    model = tiny.randomized(heads.BertModel(tiny.CONFIG))
    layers = choose_layers("all" if signature == "tokens" else "last", tiny.CONFIG.num_hidden_layers)
    choice = VectorChoice(layers=layers, unit="sentence", pooling=pooling, max_seq_length=12, stride=5)
    function, shapes = extraction.Extractor(model, TOKENIZER, choice).signatures()[signature].python_function, []
    with faults.on_call(extraction.Extractor, "states", lambda _, rows: shapes.append(rows["token_ids"].shape)):
        expected = function(tf.constant(TEXTS))
        assert len(shapes) == 1 and shapes[0][0] > 25
        actual = function(tf.constant(TEXTS * 30))
    blocks, most = [rows for rows, _ in shapes[1:]], extraction.POSITIONS_AT_ONCE // 12
    assert max(blocks) == most and sum(blocks) == 30 * shapes[0][0]
    for name, values in expected.items():
        repeated = np.concatenate([values] * 30)
        if values.dtype == tf.float32:
            np.testing.assert_allclose(actual[name], repeated, atol=1e-5)
        else:
            np.testing.assert_array_equal(actual[name], repeated)
