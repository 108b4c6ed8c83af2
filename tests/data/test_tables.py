"""Tables: all rows of valid files, one sentence with the line for invalid ones."""

import datetime
import json
import os
import zipfile

import openpyxl
import pyarrow.parquet
import pytest

from bert_tf.data import examples, tables
from bert_tf.errors import UserError


@pytest.fixture
def write_table(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.mark.parametrize(
    "name, content, expected",
    [
        ("a.tsv", "x\ty\n1\ttwo\n", [(2, {"x": "1", "y": "two"})]),
        ("a.tsv", "x\ty\r\n1\ttwo\r\n", [(2, {"x": "1", "y": "two"})]),
        ("a.csv", "\ufeff\ufeffx,y\n1,two\n", [(2, {"x": "1", "y": "two"})]),
        ("a.csv", '\ufeff"\ufeffx",y\n1,two\n', [(2, {"x": "1", "y": "two"})]),
        ("a.csv", "\ufeffx,y\n1,two\n".encode("utf-16"), [(2, {"x": "1", "y": "two"})]),
        ("a.jsonl", '\ufeff\ufeff{"x": 1}\n', [(1, {"x": 1})]),
        ("no_end.tsv", "x\ty\n1\ttwo", [(2, {"x": "1", "y": "two"})]),
        ("mark.tsv", "\ufeffx\ty\n\ufeff1\ttwo\n", [(2, {"x": "\ufeff1", "y": "two"})]),
        ("quotes.tsv", 'x\ty\n"a\tb"c\n"\t"\n', [(2, {"x": '"a', "y": 'b"c'}), (3, {"x": '"', "y": '"'})]),
        (
            "signs.tsv",
            "x\n1\x08\x12\x85\u2028\u200b\x0b\x0c2\n3\n",
            [(2, {"x": "1\x08\x12\x85\u2028\u200b\x0b\x0c2"}), (3, {"x": "3"})],
        ),
        ("empty_field.tsv", "x\ty\n\t\n", [(2, {"x": "", "y": ""})]),
        ("a.csv", 'x,y\n"a, ""b""\nc",2\nd,3\n', [(3, {"x": 'a, "b"\nc', "y": "2"}), (4, {"x": "d", "y": "3"})]),
        ("semicolons.csv", 'x;y\n"a;b";"c,d"\n1,5;2\n', [(2, {"x": "a;b", "y": "c,d"}), (3, {"x": "1,5", "y": "2"})]),
        ("tabs.csv", "x\ty\na,b\tc\n", [(2, {"x": "a,b", "y": "c"})]),
        ("excel.csv", "x\ty\r\nä\u2028ö\t2\r\n".encode("utf-16"), [(2, {"x": "ä\u2028ö", "y": "2"})]),
        ("bars.csv", "x|y\na,b|c\n", [(2, {"x": "a,b", "y": "c"})]),
        ("excel_says.csv", "sep=;\r\nx,z;y\r\na,b;c\r\n", [(3, {"x,z": "a,b", "y": "c"})]),
        ("excel_says_tab.csv", '\ufeff"sep=\t"\nx\ty\na;b\tc\n', [(3, {"x": "a;b", "y": "c"})]),
        ("empty.csv", "sep=\r\nx;y\r\na,b;c\r\n", [(3, {"x": "a,b", "y": "c"})]),
        ("quote.csv", '"sep="\nx,y\na,b\n', [(3, {"x": "a", "y": "b"})]),
        ("spelled_tab.csv", "sep=\\t\nx\ty\na;b\tc\n", [(3, {"x": "a;b", "y": "c"})]),
        ("one_column.csv", "sep=,\nx\na;b\n", [(3, {"x": "a;b"})]),
        ("mac.csv", 'x,y\r"a, b",c\rd,e', [(2, {"x": "a, b", "y": "c"}), (3, {"x": "d", "y": "e"})]),
        ("mac.tsv", "x\ty\ra\tb\r", [(2, {"x": "a", "y": "b"})]),
        ("mac.jsonl", '{"x": "a"}\r{"x": "b"}\r', [(1, {"x": "a"}), (2, {"x": "b"})]),
        (
            "nan.jsonl",
            '{"x": NaN, "y": [1.5, NaN], "z": {"NaN": null}}',
            [(1, {"x": None, "y": [1.5, None], "z": {"NaN": None}})],
        ),
        ("lines.json", '{"x": "a"}\n{"x": "b"}\n', [(1, {"x": "a"}), (2, {"x": "b"})]),
        ("commas.csv", "x;y,z\na;b,c\n", [(2, {"x;y": "a;b", "z": "c"})]),
        ("space.csv", " my text ,y \n a ,b\n", [(2, {"my text": " a ", "y": "b"})]),
        ("unnamed.csv", ",x,,\n0,a,,\n1,b,,,,\n", [(2, {"": "", "x": "a"}), (3, {"": "", "x": "b"})]),
        ("a.CSV", "x\r\na\r\n\r\n", [(2, {"x": "a"})]),
        ("a.jsonl", '{"x": "a\\tb", "y": 1}\n\n{"x": ["c"]}\n', [(1, {"x": "a\tb", "y": 1}), (3, {"x": ["c"]})]),
    ],
)
def test_rows_have_line_numbers_and_exact_values(write_table, name, content, expected):
    path = write_table(name, content)
    assert list(tables.read(path)) == [(f"line {number} of {path}", row) for number, row in expected]


@pytest.mark.parametrize(
    "content",
    ['[{"x": "a\\nb", "y": 1},\n {"x": "c"}]', '{"version": 1,\n "data": [{"x": "a\\nb", "y": 1}, {"x": "c"}]}\n'],
)
def test_list_of_json_objects_is_a_table(write_table, content):
    path = write_table("a.json", content)
    assert list(tables.read(path)) == [(f"row 1 of {path}", {"x": "a\nb", "y": 1}), (f"row 2 of {path}", {"x": "c"})]
    assert [row for _, row in tables.read(write_table("one.json", '{"x": "a"}'))] == [{"x": "a"}]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_windows_1252_is_read_and_said_once(write_table, name, caplog):
    texts = ["plain", "Grün – “schön” für 5 €", "Façade, œuvre créée"]
    lines = {"a.csv": ["text", *(f'"{text}"' for text in texts)], "a.tsv": ["text", *texts]}
    lines["a.jsonl"] = [f'{{"text": "{text}"}}' for text in texts]
    path = write_table(name, "\n".join(lines[name]).encode("cp1252"))
    for _ in range(2):
        assert [row["text"] for _, row in tables.read(path)] == texts
    (message,) = caplog.messages
    assert message.startswith(f"{path} is not UTF-8 (byte ") and message.endswith("): read as Windows-1252.")


@pytest.mark.parametrize(
    "content",
    [
        "text\nпривет мир\n".encode("cp1251"),
        "text\n你好世界，今天天气很好\n".encode("gb18030"),
        "text\n今日は、良い天気です。\n".encode("shift-jis"),
        "text\ngrün\n".encode() + "schön\n".encode("cp1252"),
        "text\ngrün\n".encode("cp1252") + "schön\n".encode(),
    ],
    ids=["cp1251", "gb18030", "shift-jis", "utf-8 first", "utf-8 later"],
)
def test_other_encodings_are_refused(write_table, content):
    with pytest.raises(UserError, match="a.csv (is not UTF-8: byte|mixes encodings: line 3)"):
        list(tables.read(write_table("a.csv", content)))


def test_many_columns_are_read_at_once_and_not_all_named(write_table):
    names = [f"c{number}" for number in range(200_000)]
    path = write_table("wide.csv", ",".join(names) + "\n" + ",".join("x" * len(names)) + "\n")
    ((_, row),) = tables.read(path)
    assert len(row) == len(names)
    with pytest.raises(UserError, match="its columns: c0, .*, c29 and 199,970 more[.]"):
        tables.check_columns(path, row, ["text"])


def test_headerless_file_uses_given_columns(write_table):
    path = write_table("a.tsv", "gj04\t1\n\tx\n")
    assert list(tables.read(path, ("source", "label"))) == [
        (f"line 1 of {path}", {"source": "gj04", "label": "1"}),
        (f"line 2 of {path}", {"source": "", "label": "x"}),
    ]


def test_malformed_rows_are_skipped_only_on_request(write_table):
    path, malformed = write_table("a.tsv", "x\ty\n1\n2\t3\n4\t5\t6\n"), []
    assert list(tables.read(path, malformed=malformed)) == [(f"line 3 of {path}", {"x": "2", "y": "3"})]
    assert malformed == [f"line 2 of {path}", f"line 4 of {path}"]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.tsv", "x\ty\n1\t2\n3\n", r"Line 3 of .*a.tsv has 1 fields; expected 2 \(x, y\)"),
        ("a.tsv", "x\ty\n1\t2\t3\n", "Line 2 of .* has 3 fields; expected 2"),
        ("a.tsv", "", "no rows"),
        ("a.tsv", "x\ty\n", "no rows; expected at least one below the header"),
        (
            "a.csv",
            b"x\nab\x81c\n",
            "is not UTF-8: byte 3 of line 2 is 0x81; save it as UTF-8, which Excel calls CSV UTF-8\\.",
        ),
        ("a.tsv", b"x\n\0\n", "line 2 contains NUL"),
        ("a.csv", 'x\na\n"b\nc\n', "is not CSV at line 4"),
        ("a.csv", 'x\n"a"b\n', "is not CSV at line 2"),
        ("a.csv", "x,y\r\n1,2\r\na\rb,c\r\n", r"line 3 \(a carriage return outside quotes\): quote that text"),
        ("a.csv", "x,y\n1\n", "Line 2 of .* has 1 fields"),
        ("a.csv", "x,y\n1,2,3\n", "Line 2 of .* has 3 fields; expected 2"),
        ("a.csv", "x,y,x,y,z\n", "a.csv has several columns 'x', 'y'; pass each a name of its own"),
        ("a.tsv", "x\tx \n", "a.tsv has several columns 'x'"),
        ("a.csv", "x,y\n1,2\n".encode("utf-16")[:-1], "a.csv .* UTF-16 .*: truncated data"),
        ("a.jsonl", '{"x": 1}\n{"x": \n', "Line 2 of .* is not JSON"),
        ("deep.jsonl", '{"x": 1}\n' + "[" * 100_000, "Line 2 of .* is not JSON .it is nested too deeply."),
        ("a.jsonl", '{"x": 1}\n{"x": 1, "y": 2, "x": 3}\n', "Line 2 of .* is not JSON .it has several 'x'."),
        ("a.json", '[{"x": 1, "x": 2}]', "a.json is not JSON .it has several 'x'.; expected a list of objects"),
        ("a.json", '[{"x": 1}', "a.json is not JSON"),
        ("a.json", '{"x": 1}\n{"x": \n', "Line 2 of .* is not JSON"),
        ("a.json", '[{"x": 1}, 2]', "Row 2 of .* is a JSON int; expected an object"),
        ("a.json", "3", "a.json is a JSON int; expected a list of objects"),
        ("a.jsonl", "[1]\n", "Line 1 of .* is a JSON list; expected an object"),
        ("a.txt", "x", "expected a name that ends in .tsv, .csv, .jsonl, .json, .xlsx, .parquet, or a folder"),
    ],
)
def test_error_names_its_line(write_table, name, content, message):
    with pytest.raises(UserError, match=message):
        list(tables.read(write_table(name, content)))


def test_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="nothing.tsv cannot be read"):
        list(tables.read(str(tmp_path / "nothing.tsv")))


def test_table_is_found_by_any_extension_unless_ambiguous(write_table, tmp_path):
    assert tables.find_table(str(tmp_path), "train") is None
    path = write_table("train.jsonl", "{}")
    assert tables.find_table(str(tmp_path), "train") == path
    write_table("train.csv", "x")
    with pytest.raises(UserError, match="several files for 'train'"):
        tables.find_table(str(tmp_path), "train")


def test_examples_have_texts_label_id_and_location(write_table):
    path = write_table("a.tsv", "n\tone\ttwo\ty\n7\ta\tb\tyes\n8\tc\td\tno\n")
    rows = examples.read(path, texts=("one", "two"), label="y", id_column="n")
    assert [(e.id, e.texts, e.label) for e in rows] == [("7", ("a", "b"), "yes"), ("8", ("c", "d"), "no")]
    assert rows[1].location == f"line 3 of {path}"
    assert [(e.id, e.label) for e in examples.read(path, texts=("two",))] == [("0", None), ("1", None)]


def test_missing_column_error_lists_existing_columns(write_table):
    path = write_table("a.tsv", "one\ty\na\tyes\n")
    with pytest.raises(UserError, match="has no column 'two', 'z'; its columns: one, y"):
        examples.read(path, texts=("one", "two"), label="z")


def test_json_value_that_is_not_a_string_is_refused(write_table):
    with pytest.raises(UserError, match="In line 2 of .* a text is"):
        examples.read(write_table("a.jsonl", '{"t": "a"}\n{"t": 3}\n'), texts=("t",))


def test_first_sheet_of_excel_workbook_is_read_as_text(tmp_path):
    book = openpyxl.Workbook()
    rows = [
        [],
        ["Review", "Stars", None, None],
        ["A film.", 3, None],
        [datetime.datetime(2026, 1, 2), 3.0, None],
        [None],
        ["A day.", 4.5, datetime.date(2026, 1, 2)],
    ]
    for row in rows:
        book.worksheets[0].append(row)
    book.create_sheet("other").append(["x"])
    path = str(tmp_path / "reviews.xlsx")
    book.save(path)
    malformed = []
    assert list(tables.read(path, malformed=malformed)) == [
        (f"row {number} of {path}", {"Review": text, "Stars": "3"})
        for number, text in ((3, "A film."), (4, "2026-01-02"))
    ]
    assert malformed == [f"row 6 of {path}"]
    with pytest.raises(UserError, match=r"^Row 6 of .*reviews.xlsx has 3 fields; expected 2 \(Review, Stars\)"):
        list(tables.read(path))


def test_parquet_keeps_numbers_and_lists(tmp_path):
    path = str(tmp_path / "reviews.parquet")
    rows = [{"text": "A film.", "label": 1, "tags": ["a"]}, {"text": None, "label": 0, "tags": []}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert list(tables.read(path)) == [(f"row {number} of {path}", row) for number, row in enumerate(rows, 1)]


def test_parquet_of_datasets_has_the_names_of_its_classes(tmp_path):
    path = str(tmp_path / "a.parquet")
    classes = {"names": ["neg", "pos"], "_type": "ClassLabel"}
    features = {
        "label": classes,
        "tags": {"feature": classes, "_type": "List"},
        "old": [classes],
        "n": {"dtype": "int64"},
    }
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    rows = [
        {"label": 1, "tags": [0, 1], "old": [1], "named": "a"},
        {"label": -1, "tags": [], "old": None, "named": "b"},
        {"label": 2, "tags": [], "old": None, "named": "c"},
    ]
    table = pyarrow.Table.from_pylist(rows[:2]).replace_schema_metadata(metadata)
    pyarrow.parquet.write_table(table, path)
    assert [row for _, row in tables.read(path)] == [
        {"label": "pos", "tags": ["neg", "pos"], "old": ["pos"], "named": "a"},
        {"label": None, "tags": [], "old": None, "named": "b"},
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows).replace_schema_metadata(metadata), path)
    with pytest.raises(UserError, match=r"a.parquet has 2 in the column 'label', whose 2 classes start at 0"):
        list(tables.read(path))


@pytest.mark.parametrize("cell", ["XFD1048576", "A1048576"])
def test_stray_cell_at_the_end_of_a_sheet_is_one_row(tmp_path, cell):
    book = openpyxl.Workbook()
    for row in (["text", "label"], ["A film.", "good"]):
        book.worksheets[0].append(row)
    book.worksheets[0][cell] = "x"
    path = str(tmp_path / "a.xlsx")
    book.save(path)
    malformed = []
    rows = list(tables.read(path, malformed=malformed))
    assert rows[0] == (f"row 2 of {path}", {"text": "A film.", "label": "good"})
    if cell.startswith("A"):
        assert rows[1:] == [(f"row 1048576 of {path}", {"text": "x", "label": ""})]
    else:
        assert malformed == [f"row 1048576 of {path}"]


def test_a_sheet_whose_only_row_ends_in_a_stray_cell_names_the_row(tmp_path):
    sheet = openpyxl.Workbook()
    sheet.active.append(["text", "label"])
    sheet.active.cell(2, 500, "stray")
    sheet.save(tmp_path / "a.xlsx")
    with pytest.raises(UserError, match=r"^No row of .*a.xlsx has as many fields as columns: row 2 of .* has more"):
        list(tables.read(str(tmp_path / "a.xlsx"), malformed=[]))


def test_parquet_bytes_are_text_nan_is_none_and_times_are_text(tmp_path):
    path = str(tmp_path / "a.parquet")
    columns = {
        "text": pyarrow.array(["Süß".encode(), None], pyarrow.binary()),
        "fixed": pyarrow.array([b"abc", b"def"], pyarrow.binary(3)),
        "words": pyarrow.array([[b"a", b"b"], []], pyarrow.list_(pyarrow.large_binary())),
        "label": pyarrow.array([float("nan"), 1.0]),
        "scores": pyarrow.array([[float("nan"), 0.5], []], pyarrow.list_(pyarrow.float32())),
        "day": pyarrow.array([[datetime.date(2026, 1, 2)], None]),
        "exact": pyarrow.array([1_000_000_001, 0], pyarrow.timestamp("ns")),
        "zone": pyarrow.array([0, None], pyarrow.timestamp("s", "+02:00")),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path, store_schema=True)
    first, second = (row for _, row in tables.read(path))
    assert first == {
        "text": "Süß",
        "fixed": "abc",
        "words": ["a", "b"],
        "label": None,
        "scores": [None, 0.5],
        "day": ["2026-01-02"],
        "exact": "1970-01-01 00:00:01.000000001",
        "zone": first["zone"],
    }
    assert first["zone"].startswith("1970-01-01 02:00:00") and (second["label"], second["text"]) == (1.0, None)


@pytest.mark.parametrize(
    "names, values, message",
    [
        (
            ["text", "image"],
            [["a", "b"], [b"\x01", b"\xff\xd8"]],
            "Row 2 of .* bytes that are not UTF-8 in the column 'image'",
        ),
        (["text", "label", "text"], [["a"], ["b"], ["c"]], "a.parquet has several columns 'text'"),
        (
            ["time"],
            [pyarrow.array([0], pyarrow.timestamp("ms", "No/Where"))],
            "The values in the column 'time' .* No/Where",
        ),
    ],
)
def test_parquet_columns_that_are_no_text_are_named(tmp_path, names, values, message):
    table = pyarrow.Table.from_arrays([pyarrow.array(each) for each in values], names=names)
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UserError, match=message):
        list(tables.read(str(tmp_path / "a.parquet")))


@pytest.mark.parametrize("name, kind", [("a.xlsx", "an Excel workbook"), ("a.parquet", "Parquet")])
def test_other_contents_under_these_names_are_refused(write_table, name, kind):
    with pytest.raises(UserError, match=f"Cannot read .*a[.][a-z]+ as {kind}"):
        list(tables.read(write_table(name, "text,label\n")))


DAMAGED = [
    ("sheet1.xml", lambda part: part[:300], "unclosed token"),
    ("sheet1.xml", lambda part: part.replace(b'r="B1"', b'r="ZZZZZZ1"'), "not a valid column name"),
    ("styles.xml", lambda part: part.replace(b'"0"', b'"x"'), "expected <class 'int'>|invalid literal|convert"),
    ("workbook.xml", lambda part: b"", "no element found"),
    ("sheet1.xml", lambda part: part + b" " * 40_000_000, "it unpacks to 40,01"),
]


@pytest.mark.parametrize("name, change, reason", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_workbook_is_refused(tmp_path, name, change, reason):
    book = openpyxl.Workbook()
    book.worksheets[0].append(["text", "label"])
    book.save(tmp_path / "good.xlsx")
    with (
        zipfile.ZipFile(tmp_path / "good.xlsx") as good,
        zipfile.ZipFile(tmp_path / "a.xlsx", "w", zipfile.ZIP_DEFLATED) as bad,
    ):
        for part in good.namelist():
            bad.writestr(part, change(good.read(part)) if part.endswith(name) else good.read(part))
    with pytest.raises(UserError, match=f"a.xlsx as an Excel workbook .*({reason})"):
        list(tables.read(str(tmp_path / "a.xlsx")))


@pytest.mark.parametrize(
    "values, reason",
    [
        (pyarrow.array([2**62], pyarrow.timestamp("ms")), "too large"),
        (pyarrow.array([b"\xff"], pyarrow.binary()).cast(pyarrow.string(), safe=False), "can't decode byte 0xff"),
    ],
)
def test_parquet_values_that_python_lacks_are_refused(tmp_path, values, reason):
    pyarrow.parquet.write_table(pyarrow.table({"text": values}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=f"The values in the column 'text' of .*a.parquet cannot be read .*{reason}"):
        list(tables.read(str(tmp_path / "a.parquet")))


def test_carriage_return_in_the_header_of_csv_is_refused(write_table):
    with pytest.raises(UserError, match="is not CSV at line 1"):
        list(tables.read(write_table("a.csv", "te\rxt,label\na,b\n")))


def test_folder_with_a_folder_for_each_class_is_a_table(tmp_path):
    folder = tmp_path / "train"
    texts = {"pos/2.txt": "Good.\n", "pos/10.txt": "\ufeffFine.", "neg/1.txt": "Bad.", "neg/x.md": "?"}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "empty").mkdir()
    expected = [("neg/1.txt", "Bad.", "neg"), ("pos/10.txt", "Fine.", "pos"), ("pos/2.txt", "Good.", "pos")]
    paths = [f"{folder}/{file}" for file, _, _ in expected]
    assert list(tables.read(str(folder))) == [
        (path, {"text": text, "label": label, "file": path})
        for path, (_, text, label) in zip(paths, expected, strict=True)
    ]
    assert tables.find_table(str(tmp_path), "train") == str(folder) and not tables.is_table(str(tmp_path))
    for content, reason in ((b"\x81", "is not UTF-8: byte 1 of line 1 is 0x81"), (b"a\0b", "line 1 contains NUL")):
        (folder / "neg/1.txt").write_bytes(content)
        with pytest.raises(UserError, match=f"neg/1.txt .*{reason}"):
            list(tables.read(str(folder)))
    (folder / "neg/1.txt").unlink()
    unnamed = os.fsencode(folder / "neg") + b"/\xff.txt"
    with open(unnamed, "wb"):
        pass
    with pytest.raises(UserError, match="is not UTF-8: rename the file or its folder"):
        list(tables.read(str(folder)))
    os.remove(unnamed)
    os.mkfifo(folder / "neg/1.txt")
    with pytest.raises(UserError, match="neg/1.txt cannot be read .it is a named pipe"):
        list(tables.read(str(folder)))


def test_text_that_is_a_list_of_words_is_joined(write_table):
    path = write_table("a.jsonl", '{"t": ["EU", "rejects", "."]}\n{"t": "one text"}\n{"t": []}\n')
    assert [example.texts for example in examples.read(path, texts=["t"])] == [("EU rejects .",), ("one text",), ("",)]
    with pytest.raises(UserError, match=r"In line 1 of .* a text is \(\['EU', 1\],\); expected strings in t"):
        examples.read(write_table("b.jsonl", '{"t": ["EU", 1]}\n'), texts=["t"])


def test_label_in_several_columns_is_the_list_of_those_that_hold():
    row = {"text": "a", "sport": "1", "news": "0", "art,music": "x"}
    assert examples.label_of("sport, news", row) == ["sport"]
    assert examples.label_of("art,music", row) == "x" and examples.label_of(None, row) is None
    assert examples.label_of("sport,news", {"sport": "", "news": None}) is None
