"""Folders whose tokenizer.json has steps of its own: the tokens of the library `tokenizers` everywhere."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf
import tiny
from checkpoint_cases import checkpoint
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import bert_tf
from bert_tf.checkpoints import formats
from bert_tf.checkpoints.checkpoint import Checkpoint
from bert_tf.errors import UserError
from bert_tf.export import tokenizer_parity
from bert_tf.export.host import rows
from bert_tf.model import heads
from bert_tf.text import vocabulary_learning
from bert_tf.text.host_tokenizer import create_host_tokenizer
from bert_tf.text.special_tokens import SETTING
from bert_tf.text.tokenizer import create_tokenizer
from bert_tf.text.tokenizer_kinds import BYTE_BPE, LIBRARY, MPNET, WORDPIECE
from bert_tf.text.vocabulary import kind_of

CORPUS = [
    "The fox ran 42 miles to Ulm.",
    "Él año está, y no se va.",
    "A fox is no ox; the ox ran too.",
    "don't say naïve",
]
SPECIAL = {"pad_token": "<p>", "unk_token": "<u>", "cls_token": "<c>", "sep_token": "<e>", "mask_token": "<m>"}
HARD = [*tokenizer_parity.hard_texts(()), "The fox <m> ran 42 Ulm naïve", "ÉL Año"]


def word_level():
    tokenizer = Tokenizer(models.WordLevel(unk_token="<u>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer, trainers.WordLevelTrainer


def bpe_of_words():
    tokenizer = Tokenizer(models.BPE(unk_token="<u>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return tokenizer, trainers.BpeTrainer


def bytes_after_a_blank():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer, trainers.BpeTrainer


def unigram_of_plain_letters():
    tokenizer = Tokenizer(models.Unigram())
    steps = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Replace(Regex("x"), "y")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer, lambda **options: trainers.UnigramTrainer(unk_token="<u>", **options)


def wordpiece_of_digits():
    tokenizer = Tokenizer(models.WordPiece(unk_token="<u>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True)])
    return tokenizer, trainers.WordPieceTrainer


MODELS = {
    "classes": lambda config: heads.Classifier(config, 2),
    "tags": lambda config: heads.TokenClassifier(config, 3),
    "span": heads.SpanFinder,
}
LABELS = {"classes": ["bad", "good"], "tags": ["O", "B-X", "I-X"]}
KINDS = [word_level, bpe_of_words, bytes_after_a_blank, unigram_of_plain_letters, wordpiece_of_digits]


def folder_of(path, made=wordpiece_of_digits, *, separators=1, settings=None, kind="classes"):
    """Writes a Hugging Face folder with such a tokenizer, which is returned."""
    tokenizer, trainer = made()
    tokenizer.train_from_iterator(CORPUS * 3, trainer(vocab_size=400, special_tokens=[*SPECIAL.values()]))
    ends = [(name, tokenizer.token_to_id(name)) for name in ("<c>", "<e>")]
    pair = f"<c> $A {'<e> ' * separators}$B:1 <e>:1"
    tokenizer.post_processor = processors.TemplateProcessing("<c> $A <e>", pair, ends)
    config = dataclasses.replace(checkpoint().config, vocab_size=tokenizer.get_vocab_size())
    model, labels = MODELS[kind](config), LABELS.get(kind)
    source = Checkpoint(config=config, weights=tiny.random_weights(model), kind=kind, labels=labels)
    formats.write(source, path, "huggingface")
    tokenizer.save(str(path / "tokenizer.json"))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", **SPECIAL, **(settings or {})}
    (path / "tokenizer_config.json").write_text(json.dumps({name: x for name, x in about.items() if x is not None}))
    return tokenizer


def both_of(read):
    options = {"special_tokens_in_strings": read.special_tokens}
    return (create(read.vocabulary, False, **options) for create in (create_tokenizer, create_host_tokenizer))


@pytest.mark.parametrize("made", KINDS)
@pytest.mark.parametrize("separators", [1, 2])
def test_tokens_and_rows_are_the_makers_through_every_format(made, separators, tmp_path):
    theirs = folder_of(tmp_path / "source", made, separators=separators)
    read = formats.read(tmp_path / "source")
    for number, name in enumerate(("huggingface", "native", "huggingface")):
        graph, own = both_of(read)
        assert read.vocabulary.kind == LIBRARY and read.vocabulary == [
            theirs.id_to_token(number) for number in range(theirs.get_vocab_size())
        ]
        tokenizer_parity.check(graph, own)
        for text, second in zip(HARD, reversed(HARD), strict=True):
            expected = theirs.encode(text, add_special_tokens=False)
            assert own(text) == expected.ids
            for start, end, (first, last) in zip(*own.with_offsets(text)[1:], expected.offsets, strict=True):
                assert text[start:end] == text[first:last].strip() and first <= start <= end <= last
            row = rows.pack(own, [own(text), own(second)], 10**6)
            assert row.ids == theirs.encode(text, second).ids
        formats.write(read, tmp_path / f"{number}", name)
        read = formats.read(tmp_path / f"{number}")


@pytest.mark.parametrize("made", KINDS)
def test_words_of_lists_are_tokenized_as_transformers_does(made, tmp_path):
    theirs = folder_of(tmp_path, made)
    graph, own = both_of(formats.read(tmp_path))
    words = ["The", "fox", "añ", "42", ""]
    expected = [theirs.encode([word], is_pretokenized=True, add_special_tokens=False).ids for word in words]
    assert [own.inside_text(word) for word in words] == expected
    assert graph.inside_text(tf.constant(words)).to_list() == expected


def test_offsets_in_bytes_and_parts_of_words(tmp_path):
    folder_of(tmp_path)
    graph, own = both_of(formats.read(tmp_path))
    text = "naïve 42, Él"
    ids, starts, ends = (each.to_list()[0] for each in graph.with_offsets([text], "byte"))
    assert ids == own(text)
    parts = [text.encode()[start:end].decode() for start, end in zip(starts, ends, strict=True)]
    assert "".join(parts) == "naïve42,Él" and starts[-1] > len(text) - 2
    tokens = own.with_offsets(text)
    first = np.array([text[start - 1 : start] in ("", " ") or text[start] == "," for start in tokens.starts])
    assert own.continues_word(tokens).tolist() == (~first).tolist()
    flags = graph.continues_word(*map(tf.constant, (tokens.ids, *(np.array(x, np.int64) for x in tokens[1:]))))
    assert flags.numpy().tolist() == (~first).tolist()


def test_tokens_that_tokenizer_config_adds_are_found_as_their_flags_say(tmp_path):
    flags = {"lstrip": True, "rstrip": False, "single_word": False, "normalized": False, "special": False}
    number = folder_of(tmp_path / "first").get_vocab_size()
    decoder = {str(number): {"content": "[E1]", **flags}}
    theirs = folder_of(tmp_path / "second", settings={"added_tokens_decoder": decoder})
    theirs.add_tokens([AddedToken("[E1]", lstrip=True, normalized=False)])
    _, own = both_of(formats.read(tmp_path / "second"))
    text = "the fox  [E1]ran"
    assert own(text) == theirs.encode(text, add_special_tokens=False).ids and number in own(text)
    decoder = {str(number + 1): {"content": "[E1]", **flags}}
    folder_of(tmp_path / "third", settings={"added_tokens_decoder": decoder})
    with pytest.raises(UserError, match=rf"id of the token '\[E1\]', which .* adds, is {number + 1}, but {number} in"):
        formats.read(tmp_path / "third")


@pytest.mark.parametrize(
    "settings, reason",
    [
        (
            {"mask_token": None, "cls_token": None},
            r"does not name cls_token, mask_token, which the steps of tokenizer\.json need",
        ),
        ({"mask_token": "<other>", "added_tokens_decoder": {}}, None),
        ({"padding_side": "left"}, "padding_side is 'left'"),
        ({"tokenizer_class": "BertTokenizer"}, "unk_token is '<u>'"),
    ],
)
def test_folders_that_do_not_say_it_all_are_errors(settings, reason, tmp_path):
    folder_of(tmp_path, settings=settings)
    if reason is None:  # transformers adds a token that the files name
        assert formats.read(tmp_path).vocabulary[-1] == "<other>"
        return
    with pytest.raises(UserError, match=reason):
        formats.read(tmp_path)


def test_other_rows_are_errors_that_name_them(tmp_path):
    tokenizer = folder_of(tmp_path)
    tokenizer.post_processor = processors.TemplateProcessing("$A <e>", "$A <e> $B <e>", [("<e>", 3)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(
        UserError, match="post_processor makes the rows A <e>, A <e> B <e>; supported are <c> A <e> and"
    ):
        formats.read(tmp_path)


@pytest.mark.parametrize("kind", MODELS)
def test_exports_answer_as_the_folder_and_say_why_they_take_no_strings(kind, tmp_path):
    folder_of(tmp_path / "source", kind=kind)
    model, texts = bert_tf.load(str(tmp_path / "source")), ["The fox ran 42 miles.", "Él no se va", ""]

    def answers(model):
        if kind == "tags":
            return model.entities(texts)
        return [model.answer("Who ran?", text) for text in texts] if kind == "span" else model.predict(texts)

    model.export(str(tmp_path / "export"), engines="none")
    found = answers(bert_tf.load(str(tmp_path / "export")))
    assert [*map(str, found)] == [*map(str, answers(model))] and len(found) == len(texts)
    if kind != "classes":
        return
    signature = tf.saved_model.load(str(tmp_path / "export")).signatures["serving_default"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="its SavedModel takes no strings: .* bert_tf"):
        signature(text_a=tf.constant(["a"]))


def changed_folder(path, change, made=wordpiece_of_digits, **options):
    """A folder with a changed tokenizer.json."""
    folder_of(path, made, **options)
    content = json.loads((path / "tokenizer.json").read_text())
    change(content)
    (path / "tokenizer.json").write_text(json.dumps(content))
    return path


WRONG = [  # changes of tokenizer.json, and the error
    (lambda content: content.update(padding={"direction": "Left"}), r"tokenizer\.json: padding.direction is 'Left'"),
    (lambda content: content["model"]["vocab"].update(zq=9), "two tokens with the same id"),
    (
        lambda content: content["post_processor"]["special_tokens"]["<c>"].update(ids=[7]),
        "the ids in post_processor are not those of <c> and <e>",
    ),
    (lambda content: content["model"].update(unk_token="<none>"), "cannot tokenize unknown words"),
    (lambda content: content["model"]["vocab"].update(zq=4_000_000_000), "ids up to 4000000000: number them from 0"),
]
PADDING = {"strategy": "BatchLongest", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "<p>"}


@pytest.mark.parametrize("change, reason", WRONG)
def test_tokenizers_that_would_differ_are_errors(change, reason, tmp_path):
    def with_padding(content):
        change(content)
        if content["padding"]:
            content["padding"] |= PADDING

    with pytest.raises(UserError, match=reason):
        formats.read(changed_folder(tmp_path, with_padding))


def test_rows_may_be_made_beside_other_processors_and_names_come_from_padding(tmp_path):
    def change(content):
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        content["post_processor"] = {"type": "Sequence", "processors": [level, content["post_processor"]]}
        content["padding"] = {"direction": "Right", **PADDING}

    read = formats.read(changed_folder(tmp_path, change, settings={"pad_token": None}))
    assert read.vocabulary.settings.special_tokens == tuple(SPECIAL.values())


def test_ends_of_texts_that_files_name_are_added_as_transformers_does(tmp_path):
    size = folder_of(tmp_path, settings={"bos_token": "<bos>"}).get_vocab_size()
    assert formats.read(tmp_path).vocabulary[size] == "<bos>"


def test_recognized_tokens_need_not_be_added_ones(tmp_path):
    folder_of(tmp_path)
    tokenizer = bert_tf.load(str(tmp_path), special_tokens_in_strings=["fox"]).tokenizer
    assert "fox" in tokenizer.tokenize("xfoxx") and "fox" not in bert_tf.load(str(tmp_path)).tokenizer.tokenize("xfoxx")


@pytest.mark.parametrize("made", [bpe_of_words, bytes_after_a_blank, unigram_of_plain_letters])
def test_words_and_characters_of_several_tokens_are_whole(made, tmp_path):
    folder_of(tmp_path, made)
    _, own = both_of(formats.read(tmp_path))
    text = "Ulm ran 漢 naïve ﬁx, The"
    tokens = own.with_offsets(text)
    begins = [place for place, inside in zip(tokens.starts, own.continues_word(tokens), strict=True) if not inside]
    assert begins == [text.index(word) for word in ("Ulm", "ran", "漢", "naïve", "ﬁx", ",", "The")]


def folder_of_a_class(path, kind, **settings):
    """Writes a Hugging Face folder whose tokenizer has a class; returns that of the library."""
    learned = vocabulary_learning.learn(CORPUS * 3, 330, kind=kind)
    config = dataclasses.replace(checkpoint().config, vocab_size=len(learned) + 2)
    weights = tiny.random_weights(heads.Classifier(config, 2))
    source = Checkpoint(config=config, weights=weights, vocabulary=learned, lower_case=kind == WORDPIECE)
    formats.write(source, path, "huggingface")
    about = json.loads((path / "tokenizer_config.json").read_text()) | settings
    about.pop(SETTING)
    (path / "tokenizer_config.json").write_text(json.dumps(about))
    return Tokenizer.from_file(str(path / "tokenizer.json"))


SPACED = [" fox ", "Ulm\n", "the ox"]


def assert_tokens_are(theirs, path, texts):
    read = formats.read(path)
    assert read.vocabulary.kind == LIBRARY
    for number in range(2):
        graph, own = both_of(read)
        expected = [theirs.encode(text, add_special_tokens=False).ids for text in texts]
        assert [own(text) for text in texts] == expected == graph(texts).to_list()
        row = rows.pack(own, [own(texts[0]), own(texts[1])], 10**6)
        assert row.ids == theirs.encode(texts[0], texts[1]).ids
        formats.write(read, path.parent / f"again{number}", ["native", "huggingface"][number])
        read = formats.read(path.parent / f"again{number}")


@pytest.mark.parametrize("files", [["tokenizer.json"], ["vocab.json", "merges.txt"]])
def test_spaces_that_a_class_puts_before_texts(files, tmp_path):
    theirs = folder_of_a_class(tmp_path / "a", BYTE_BPE, add_prefix_space=True)
    for name in {"tokenizer.json", "vocab.json", "merges.txt"} - set(files):
        (tmp_path / "a" / name).unlink()
    without = [theirs.encode(text, add_special_tokens=False).ids for text in CORPUS]
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    assert without != [theirs.encode(text, add_special_tokens=False).ids for text in CORPUS]
    texts = [text for text in (*CORPUS, *HARD) if "<mask>" not in text]  # only tokenizer.json gives it a space
    assert_tokens_are(theirs, tmp_path / "a", texts)
    _, own = both_of(formats.read(tmp_path / "a"))
    assert own.with_offsets("The fox").starts[0] == 0 and own.inside_text("fox") == own("fox") == own(" fox")


def test_the_setting_changes_no_other_class_and_may_not_contradict_a_file(tmp_path):
    folder_of_a_class(tmp_path / "wordpiece", WORDPIECE, add_prefix_space=True)
    assert kind_of(formats.read(tmp_path / "wordpiece").vocabulary) == WORDPIECE
    folder_of(tmp_path / "same", bytes_after_a_blank, settings={"add_prefix_space": True})
    assert formats.read(tmp_path / "same").vocabulary.kind == LIBRARY
    folder_of_a_class(tmp_path / "other", BYTE_BPE, add_prefix_space=True, tokenizer_class="PreTrainedTokenizerFast")
    with pytest.raises(UserError, match="add_prefix_space is true, but false in the pre_tokenizer of"):
        formats.read(tmp_path / "other")


@pytest.mark.parametrize("kind", [WORDPIECE, BYTE_BPE, MPNET])
def test_added_tokens_with_white_space_around_them_in_folders_of_a_class(kind, tmp_path):
    path = tmp_path / "a"
    theirs = folder_of_a_class(path, kind)
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": False}
    size = theirs.get_vocab_size()
    about = json.loads((path / "tokenizer_config.json").read_text())
    about["added_tokens_decoder"] = {str(size + i): {"content": text, **flags} for i, text in enumerate(SPACED)}
    (path / "tokenizer_config.json").write_text(json.dumps(about))
    theirs.add_tokens([AddedToken(text, normalized=False) for text in SPACED])
    texts = ["a fox and the ox in Ulm\n\n", " fox  fox fox", "The ox"]
    assert_tokens_are(theirs, path, [text for text in (*texts, *HARD) if "<mask>" not in text])  # as above
    assert size in theirs.encode(texts[0]).ids and size + 1 in theirs.encode(texts[0]).ids


def test_added_tokens_with_white_space_around_them_in_folders_of_a_file(tmp_path):
    theirs = folder_of(tmp_path / "a")
    theirs.add_tokens([AddedToken(text, normalized=False) for text in SPACED])
    theirs.save(str(tmp_path / "a" / "tokenizer.json"))
    assert_tokens_are(theirs, tmp_path / "a", ["a fox and the ox in Ulm\n\n", " fox  fox fox"])


@pytest.mark.parametrize("name", ["library_tokenizer.json", "tokenizer_settings.json", "vocab.txt"])
def test_native_folders_without_a_part_of_the_tokenizer_are_errors(name, tmp_path):
    folder_of(tmp_path / "source")
    formats.write(formats.read(tmp_path / "source"), tmp_path / "native", "native")
    file = tmp_path / "native" / name
    whole = file.read_text()
    if name == "vocab.txt":
        file.write_text("\n".join(file.read_text().splitlines()[5:]))
    else:
        file.unlink()
    with pytest.raises(UserError, match="write the (whole )?folder again|write its folder again"):
        formats.read(tmp_path / "native")
    if name == "library_tokenizer.json":
        for content in ("{}", whole[: len(whole) // 2], "[]", '{"model": 1}'):
            file.write_text(content)
            with pytest.raises(UserError, match=r"library_tokenizer\.json is damaged"):
                formats.read(tmp_path / "native")
