"""`bert-tf predict --input=pattern`: every row of every file has one answer, in order, whatever was there before."""

import json

import pytest
import quick_exports

from bert_tf.cli import main
from bert_tf.errors import UserError
from bert_tf.extras.beam import bulk_files


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    return str(quick_exports.make(tmp_path_factory.mktemp("exports"))["single"])


@pytest.fixture
def texts(tmp_path):
    """Three files of 1, 2 and 3 rows with ids."""
    (tmp_path / "texts").mkdir()
    for count in (1, 2, 3):
        rows = [json.dumps({"name": f"{count}-{row}", "text": "x" * row}) for row in range(count)]
        (tmp_path / "texts" / f"f{count}.jsonl").write_text("\n".join(rows) + "\n")
    return tmp_path


COLUMNS = ["--id_column=name", "--text_columns=text"]


def command(export, folder, *more):
    flags = [f"--input={folder}/texts/*.jsonl", f"--output={folder}/answers/*.jsonl"]
    return main.main(["predict", export, *flags, *COLUMNS, *more])


def test_each_row_has_one_answer_in_order(export, texts, capsys):
    pytest.importorskip("apache_beam", reason="pip install 'bert-tf[beam]'")
    assert command(export, texts) == 0
    assert capsys.readouterr().out == f"Answered 3 files: {texts}/answers.\n"
    for count in (1, 2, 3):
        lines = (texts / "answers" / f"f{count}.jsonl").read_text().splitlines()
        assert [json.loads(line)["name"] for line in lines] == [f"{count}-{row}" for row in range(count)]
    single = texts / "single.jsonl"
    main.main(
        [
            "predict",
            export,
            f"--file={texts}/texts/f3.jsonl",
            "--id_column=name",
            "--text_columns=text",
            f"--output={single}",
        ]
    )
    assert single.read_text() == (texts / "answers" / "f3.jsonl").read_text()
    (texts / "answers" / "f2.jsonl").unlink()
    (texts / "answers" / "f2.jsonl.123.partial").touch()  # of a worker that was killed
    capsys.readouterr()
    assert command(export, texts) == 0
    assert sorted(path.name for path in (texts / "answers").iterdir()) == [
        *("f1.jsonl", "f2.jsonl", "f3.jsonl", "settings.json")
    ]
    assert capsys.readouterr().out == f"Answered 1 file, 2 existed already: {texts}/answers.\n"
    assert command(export, texts, "--batch_size=3") == 2
    assert "made with other flags" in capsys.readouterr().err


def test_damaged_file_is_named_and_the_same_command_goes_on(export, texts, capsys):
    pytest.importorskip("apache_beam", reason="pip install 'bert-tf[beam]'")
    damaged = texts / "texts" / "f2.jsonl"
    whole = damaged.read_text()
    damaged.write_text(whole[:-4])
    assert command(export, texts) == 2
    error = capsys.readouterr().err
    assert "f2.jsonl" in error and error.count("\n") == 1
    assert not (texts / "answers" / "f2.jsonl").exists()
    damaged.write_text(whole)
    assert command(export, texts) == 0
    assert len((texts / "answers" / "f2.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "pattern, output, message",
    [
        ("texts/*.csv", "a/*.jsonl", "No file matches input=.*csv: pass a pattern"),
        ("texts/*.jsonl", "a/answers.jsonl", "with input it is a pattern such as"),
        ("texts/*.jsonl", None, "output is None; with input"),
        ("*/f1.*", "a/*.jsonl", "would both be written to .*a/f1.jsonl: rename one"),
    ],
)
def test_wrong_patterns_are_named(texts, monkeypatch, pattern, output, message):
    monkeypatch.chdir(texts)
    (texts / "texts" / "f1.csv.txt").write_text("x\n")
    (texts / "texts" / "f1.txt").write_text("x\n")
    with pytest.raises(UserError, match=message):
        bulk_files.pairs(pattern, output)
