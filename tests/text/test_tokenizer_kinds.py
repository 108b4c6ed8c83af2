"""The table of kinds of tokenizers: its classes exist, and its names and rows are those of transformers."""

import pytest

from bert_tf.text.host_tokenizer import HostTokenizer
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.text.tokenizer_kinds import KINDS, LIBRARY, WORDPIECE, XLM_ROBERTA, XLNET, class_of


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_has_a_class_for_the_graph_and_one_for_the_host(name):
    kind = KINDS[name]
    assert issubclass(class_of(kind.graph), Tokenizer) and issubclass(class_of(kind.host), HostTokenizer)
    assert len(kind.special_tokens) == 5 * (name != LIBRARY) and bool(kind.rules or kind.model == "WordPiece")


def test_names_and_sequences_are_those_of_transformers():
    assert list(KINDS[XLM_ROBERTA].names) == ["bos", "eos", "unk", "sep", "pad", "cls", "mask"]
    assert KINDS[XLM_ROBERTA].names["sep"] == "</s>" and KINDS[LIBRARY].names == {}
    assert KINDS[WORDPIECE].templates == ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    assert KINDS[XLM_ROBERTA].templates == ("<s> $A </s>", "<s> $A </s> </s> $B </s>")
    assert KINDS[XLNET].templates == ("$A <sep> <cls>:2", "$A <sep> $B:1 <sep>:1 <cls>:2")
