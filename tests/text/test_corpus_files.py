"""Compressed files, tables, Wikipedia's articles, ranges of files, and what is lost where one is damaged."""

import bz2
import gzip
import json
import re

import pytest

from bert_tf.errors import UserError
from bert_tf.text import corpus, corpus_files, sources, wikipedia
from bert_tf.text.documents import read_documents
from bert_tf.text.sources import Source

TEXT = "The rain had ceased.\nHe rose early.\n\nGold, surely!\nIt glittered in the pool; he stopped.\n"
DOCUMENTS = [["The rain had ceased.", "He rose early."], ["Gold, surely!", "It glittered in the pool; he stopped."]]
ARTICLE = """<doc id="12" url="https://en.wikipedia.org/wiki?curid=12" title="Rain &amp; gold">
Rain &amp; gold

Rain ( , ) is <b>water</b>. It falls&nbsp;() on everybody.
History
It was found in 1849 &lt;ref&gt;.
</doc>
<doc id="13" url="https://en.wikipedia.org/wiki?curid=13" title="List">
List

Lists of rain
</doc>
"""
CLEANED = [["Rain is water.", "It falls on everybody.", "It was found in 1849 ."]]


def read(path, **options):
    (source,) = corpus.find_sources(path, **options)
    return list(read_documents(source))


def zstd(data):
    return pytest.importorskip("zstandard", reason="pip install 'bert-tf[zstd]'").ZstdCompressor().compress(data)


@pytest.mark.parametrize("extension, compress", [(".gz", gzip.compress), (".bz2", bz2.compress), (".zst", zstd)])
def test_compressed_files_are_read_and_cut_ones_are_named(tmp_path, extension, compress):
    path = tmp_path / f"a.txt{extension}"
    path.write_bytes(compress(TEXT.encode()))
    assert read(path, text_layout="sentences") == DOCUMENTS
    path.write_bytes(path.read_bytes()[:-6] if extension != ".zst" else b"no such file")
    with pytest.raises(UserError, match=rf"a.txt{extension} is not a whole \w+ file"):
        read(path, text_layout="sentences")


def test_column_of_parquet_is_read(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pip install 'bert-tf[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"body": ["He rose. He left.", None, "Gold!"], "id": [1, 2, 3]})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", text_field="body") == [["He rose.", "He left."], ["Gold!"]]
    with pytest.raises(UserError, match='has no column "text" \\(its columns: body, id\\)'):
        read(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(UserError, match="Cannot read .*b.parquet as Parquet"):
        read(tmp_path / "b.parquet")


@pytest.mark.parametrize("is_json", [False, True])
def test_articles_are_cleaned(tmp_path, is_json):
    content = ARTICLE
    if is_json:
        articles = wikipedia.articles(ARTICLE.splitlines())
        content = "".join(json.dumps({"title": title, "text": "\n".join(lines)}) + "\n" for title, lines in articles)
    (tmp_path / "wiki_00").write_text(content)
    (tmp_path / "wiki_01.bz2").write_bytes(bz2.compress(content.encode()))
    for name in ("wiki_00", "wiki_01.bz2"):
        assert read(tmp_path / name) == CLEANED


@pytest.mark.parametrize("layout", ["sentences", "paragraphs", "lines", "wikipedia", "jsonl"])
@pytest.mark.parametrize("size", [1, 50, 333, 5000])
def test_ranges_of_a_file_hold_each_document_once(tmp_path, monkeypatch, layout, size):
    monkeypatch.setattr(corpus_files, "BLOCK", 64)
    texts = [f"This is é {number}.\n" + "It goes on.\n" * (number % 4) for number in range(30)]
    content = "\n".join(texts)
    if layout == "lines":
        content = content.replace(".\n", ". ").replace(" \n", "\n")
    elif layout == "jsonl":
        content = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    elif layout == "wikipedia":
        content = "".join(f'<doc id="1" title="{number}">\n{text}</doc>\n' for number, text in enumerate(texts))
    path = tmp_path / ("a.jsonl" if layout == "jsonl" else "a.txt")
    path.write_text(content, encoding="utf-8")
    (source,) = corpus.find_sources(path, text_layout="auto" if layout == "jsonl" else layout)
    parts = list(sources.parts([source], size))
    assert len(parts) == -(-len(content.encode()) // size)
    whole = list(read_documents(source))
    assert len(whole) == 30
    assert [document for part in parts for each in part for document in read_documents(each)] == whole


def test_small_files_share_a_part(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("x" * 40)
    assert [len(part) for part in sources.parts(corpus.find_sources(tmp_path), 100)] == [2, 2, 1]


@pytest.mark.parametrize(
    "name, content, documents, lost",
    [
        ("a.txt", TEXT.encode() + b"\n\xff\n", [], r"a.txt is not UTF-8: byte 90 is 0xff; .*0 documents could be read"),
        (
            "a.jsonl",
            b'{"text": "One."}\n{"text"\n{"text": "Two."}\n',
            [["One."], ["Two."]],
            "line 2 .*One document is lost",
        ),
    ],
)
def test_what_is_lost_is_listed(tmp_path, name, content, documents, lost):
    (tmp_path / name).write_bytes(content)
    source = Source(path=str(tmp_path / name), layout="sentences", language="en")
    damage = []
    assert list(read_documents(source, damage)) == documents
    (sentence,) = damage
    assert re.search(lost, sentence)
    with pytest.raises(UserError):
        list(read_documents(source))
