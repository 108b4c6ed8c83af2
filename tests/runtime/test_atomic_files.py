"""Files and folders that appear whole or not at all."""

import errno
import json
import os
import pathlib
import subprocess
import sys
import threading

import faults
import pytest

from bert_tf.errors import UserError, describe_os_error
from bert_tf.runtime import atomic_files


@pytest.mark.parametrize("shared", [False, True])
def test_old_content_stays_until_new_content_is_complete(tmp_path, shared):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_files.atomic_write(path, shared=shared) as partial:
        with open(partial, "w") as file:
            file.write("new")
        assert path.read_text() == "old" and os.path.dirname(partial) == str(tmp_path)
        assert (str(os.getpid()) in os.path.basename(partial)) == shared
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_failed_write_leaves_no_file(tmp_path, error):
    def lines():
        yield "half\n"
        raise error

    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(error):
        atomic_files.write_lines(tmp_path / "a.txt", lines())
    assert (tmp_path / "a.txt").read_text() == "old" and os.listdir(tmp_path) == ["a.txt"]


def test_symbolic_link_stays_and_its_target_is_written(tmp_path):
    for name in ("there", "here"):
        (tmp_path / name).mkdir()
    (tmp_path / "there" / "a.txt").write_text("old")
    for name in ("a.txt", "new.txt", "model"):
        (tmp_path / "here" / name).symlink_to(f"../there/{name}")
    for name in ("a.txt", "new.txt"):
        for shared in (False, True):
            atomic_files.write_lines(tmp_path / "here" / name, [f"{name} {shared}"], shared=shared)
        assert (tmp_path / "there" / name).read_text() == f"{name} True"
    (tmp_path / "there" / "model").mkdir()
    with atomic_files.atomic_folder(tmp_path / "here" / "model") as partial:
        (pathlib.Path(partial) / "x").write_text("y")
    assert (tmp_path / "there" / "model" / "x").read_text() == "y"
    assert all(path.is_symlink() for path in (tmp_path / "here").iterdir())
    assert len(list((tmp_path / "there").iterdir())) == 3


def test_error_of_a_full_disk_names_what_is_written(tmp_path):
    def lines():
        yield "a"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError) as raised:
        atomic_files.write_lines(tmp_path / "a.txt", lines())
    assert describe_os_error(raised.value)[0].startswith(f"no space left on the disk ({tmp_path}/a.txt): free some")
    with pytest.raises(OSError) as raised, atomic_files.atomic_folder(tmp_path / "b"):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")
    assert raised.value.filename == str(tmp_path / "b")


def test_file_can_be_written_in_another_folder_first(tmp_path):
    (tmp_path / "work").mkdir()
    with atomic_files.atomic_write(tmp_path / "a.txt", folder=tmp_path / "work") as partial:
        assert os.path.dirname(partial) == str(tmp_path / "work")
        with open(partial, "w") as file:
            file.write("all")
    assert (tmp_path / "a.txt").read_text() == "all" and not os.listdir(tmp_path / "work")


def test_files_of_killed_processes_are_removed_and_no_others(tmp_path):
    names = ["a.npz.12.partial", "a.npz.partial", "a.npz", "ba.npz.12.partial", "c.npz.7.partial"]
    for name in [*names, "a.npz.13.partial"]:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 1000))
    os.utime(tmp_path / names[0])  # still written
    atomic_files.remove_abandoned(tmp_path, ["a.npz", "b"], seconds=3600)
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    atomic_files.remove_abandoned(tmp_path, ["a.npz", "b"])
    assert sorted(os.listdir(tmp_path)) == sorted(names[1:])


def test_lines_and_json_are_written_exactly(tmp_path):
    atomic_files.write_lines(tmp_path / "a.txt", ["é\r\n", "two\n"])
    assert (tmp_path / "a.txt").read_bytes() == "é\r\ntwo\n".encode()
    atomic_files.write_json(tmp_path / "a.json", {"ü": [1, None]}, indent=4)
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"ü": [1, None]} and "ü" in text and text.endswith("}\n")


def write_folder(folder, *names, **options):
    with atomic_files.atomic_folder(folder, **options) as partial:
        for name in names:
            pathlib.Path(partial, name).write_text(name)


def test_folder_appears_complete(tmp_path):
    with atomic_files.atomic_folder(f"{tmp_path / 'new'}/") as partial:
        pathlib.Path(partial, "file").write_text("")
        assert os.listdir(tmp_path) == [".new.partial"]
    assert os.listdir(tmp_path) == ["new"] and os.listdir(tmp_path / "new") == ["file"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_interrupted_folder_leaves_nothing_and_leftovers_are_harmless(tmp_path, overwrite):
    with pytest.raises(KeyboardInterrupt), atomic_files.atomic_folder(tmp_path / "new", overwrite=overwrite) as partial:
        pathlib.Path(partial, "half").write_text("half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []
    for remains in ("new", "old"):
        (tmp_path / ".new.partial" / remains).mkdir(parents=True)
        (tmp_path / ".new.partial" / remains / "half").write_text("half")
    write_folder(tmp_path / "new", "whole", overwrite=overwrite)
    assert os.listdir(tmp_path) == ["new"] and os.listdir(tmp_path / "new") == ["whole"]


def test_existing_folder_is_replaced_only_if_allowed_or_empty(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    write_folder(folder, "first")
    with pytest.raises(UserError, match="folder exists already: choose another folder, or remove it first"):
        write_folder(folder, "second")
    assert os.listdir(folder) == ["first"]
    write_folder(folder, "second", overwrite=True)
    assert os.listdir(folder) == ["second"] and os.listdir(tmp_path) == ["folder"]


def test_old_folder_stays_if_the_new_one_cannot_be_renamed(tmp_path):
    write_folder(tmp_path / "folder", "old")

    def fail(source, target):
        if os.path.basename(os.path.dirname(source)) == ".folder.partial" and os.path.basename(source) == "new":
            raise OSError("no room")

    with faults.on_call(os, "rename", fail), pytest.raises(OSError, match="no room"):
        write_folder(tmp_path / "folder", "new", overwrite=True)
    assert os.listdir(tmp_path) == ["folder"] and os.listdir(tmp_path / "folder") == ["old"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_folders_of_the_user_are_never_removed(tmp_path, overwrite):
    for name in ("new.partial", "new.old.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").write_text("mine")
    write_folder(tmp_path / "new", "first")
    (tmp_path / "empty").mkdir()
    write_folder(tmp_path / ("new" if overwrite else "empty"), "second", overwrite=overwrite)
    assert all((tmp_path / name / "mine").exists() for name in ("new.partial", "new.old.partial"))


WRITER = """
import pathlib, sys
from bert_tf.runtime import atomic_files
with getattr(atomic_files, sys.argv[1])(sys.argv[2]) as partial:
    path = pathlib.Path(partial, "first") if sys.argv[1] == "atomic_folder" else pathlib.Path(partial)
    path.write_text("first")
    print("writing", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("kind", ["atomic_folder", "atomic_write"])
def test_second_process_is_told_that_another_one_writes(tmp_path, kind, impatient):
    target = tmp_path / "target"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", WRITER, kind, str(target)], **pipes) as process:
        assert process.stdout.readline() == "writing\n"
        with (
            pytest.raises(UserError, match="target is being written by another process"),
            getattr(atomic_files, kind)(target),
        ):
            raise AssertionError("both write")
        process.communicate("end\n")
    assert process.returncode == 0
    written = target / "first" if kind == "atomic_folder" else target
    assert written.read_text() == "first" and os.listdir(tmp_path) == ["target"]


@pytest.mark.parametrize("kind", ["atomic_folder", "atomic_write"])
def test_what_threads_write_at_once_is_never_mixed(tmp_path, kind):
    options = {"overwrite": True} if kind == "atomic_folder" else {}
    target, failed = tmp_path / "target", []

    def write(number):
        try:
            for _ in range(20):
                with getattr(atomic_files, kind)(target, **options) as partial:
                    for part in range(3):
                        path = pathlib.Path(partial, str(part)) if kind == "atomic_folder" else pathlib.Path(partial)
                        with open(path, "a") as file:
                            file.write(f"{number}\n")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    paths = [target / str(part) for part in range(3)] if kind == "atomic_folder" else [target]
    lines = [line for path in paths for line in path.read_text().splitlines()]
    assert not failed and len(lines) == 3 and len(set(lines)) == 1
    assert os.listdir(tmp_path) == ["target"]


def test_killed_process_leaves_no_lock(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    target = tmp_path / "target"
    with subprocess.Popen([sys.executable, "-c", WRITER, "atomic_folder", str(target)], **pipes) as process:
        process.stdout.readline()
        process.kill()
    assert os.listdir(tmp_path) == [".target.partial"]
    write_folder(target, "second")
    assert os.listdir(tmp_path) == ["target"] and os.listdir(target) == ["second"]
