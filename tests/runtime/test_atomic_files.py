"""Files that appear whole or not at all."""

import json
import os

import pytest

from bert_tf.runtime import atomic_files


@pytest.mark.parametrize("shared", [False, True])
def test_a_file_keeps_what_it_held_until_all_of_the_new_is_written(tmp_path, shared):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_files.atomic_write(path, shared=shared) as partial:
        with open(partial, "w") as file:
            file.write("new")
        assert path.read_text() == "old" and os.path.dirname(partial) == str(tmp_path)
        assert (str(os.getpid()) in os.path.basename(partial)) == shared
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_nothing_is_left_of_a_file_whose_writing_fails(tmp_path, error):
    def lines():
        yield "half\n"
        raise error

    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(error):
        atomic_files.write_lines(tmp_path / "a.txt", lines())
    assert (tmp_path / "a.txt").read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_a_file_can_be_written_in_another_folder_first(tmp_path):
    (tmp_path / "work").mkdir()
    with atomic_files.atomic_write(tmp_path / "a.txt", folder=tmp_path / "work") as partial:
        assert os.path.dirname(partial) == str(tmp_path / "work")
        with open(partial, "w") as file:
            file.write("all")
    assert (tmp_path / "a.txt").read_text() == "all" and not os.listdir(tmp_path / "work")


def test_lines_and_json_are_written_as_they_are(tmp_path):
    atomic_files.write_lines(tmp_path / "a.txt", ["é\r\n", "two\n"])
    assert (tmp_path / "a.txt").read_bytes() == "é\r\ntwo\n".encode()
    atomic_files.write_json(tmp_path / "a.json", {"ü": [1, None]}, indent=4)
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"ü": [1, None]} and "ü" in text and text.endswith("}\n")
