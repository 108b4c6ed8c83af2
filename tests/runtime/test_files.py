"""Files by path: the same on a disk and in a store, for which TensorFlow's file system in memory (ram://) stands in."""

import itertools
import json
import os
import time

import faults
import pytest

from bert_tf.checkpoints import checkpoint_files, torch_pickle
from bert_tf.errors import UserError
from bert_tf.runtime import atomic_files, files, folder_lock
from bert_tf.runtime.json_files import read_json

NUMBERS = itertools.count()


@pytest.fixture(params=["disk", "store"])
def folder(request, tmp_path):
    """An empty folder; those of ram:// live as long as the process."""
    return str(tmp_path) if request.param == "disk" else f"ram://files-{next(NUMBERS)}/folder"


@pytest.fixture
def store():
    return f"ram://files-{next(NUMBERS)}/folder"


def write(path, text):
    files.make_folder(os.path.dirname(path))
    atomic_files.write_lines(path, [text])


def test_only_store_schemes_are_remote():
    paths = (
        "gs://b/a",
        "s3://b",
        "hdfs://h/a",
        "RAM://a",
        "hf://owner/name",
        "kaggle://a/b",
        "/a",
        "a",
        r"C:\a",
        "a://",
    )
    assert [files.is_remote(path) for path in paths] == [True] * 4 + [False] * 5 + [True]
    assert files.absolute("gs://b/a/") == "gs://b/a" and files.absolute("a") == os.path.abspath("a")


def test_files_are_written_read_listed_renamed_and_removed(folder):
    path = os.path.join(folder, "sub", "a.txt")
    write(path, "é\r\ntwo\n")
    assert files.is_file(path) and files.is_folder(os.path.dirname(path)) and not files.is_file(folder)
    assert files.size(path) == 8 and files.names(folder) == ["sub"] and files.walk(folder) == [path]
    with files.open_text(path, newline="") as file:
        assert list(file) == ["é\r\n", "two\n"]
    with files.open_binary(path) as file:
        file.seek(-4, os.SEEK_END)
        assert file.read() == b"two\n" and file.tell() == 8
    files.append(path, "three\n")
    other = os.path.join(folder, "b.txt")
    files.copy(path, other)
    files.rename(other, path)
    assert files.size(path) == 14 and not files.exists(other) and files.exists_with_prefix(path[:-2])
    assert files.same(path, path) and not files.same(path, other)
    files.copy_folder(os.path.join(folder, "sub"), os.path.join(folder, "copy"))
    assert files.names(os.path.join(folder, "copy")) == ["a.txt"]
    files.remove(os.path.join(folder, "sub"))
    files.remove(os.path.join(folder, "sub"))
    assert not files.exists(path) and files.names(os.path.join(folder, "sub")) == []


def test_patterns_match_the_same_on_disk_and_store(folder):
    for name in ("a.txt", "b.txt", "c.csv", ".hidden.txt", "sub/d.txt", "sub/deep/e.txt", ".git/f.txt"):
        write(os.path.join(folder, name), "x")
    expected = {
        "*.txt": "a.txt b.txt",
        "[ab].txt": "a.txt b.txt",
        "?.csv": "c.csv",
        "*/*.txt": "sub/d.txt",
        "**/*.txt": "a.txt b.txt sub/d.txt sub/deep/e.txt",
        "sub/**/e.txt": "sub/deep/e.txt",
        "a.txt": "a.txt",
        "none": "",
    }
    for pattern, names in expected.items():
        matched = files.glob(os.path.join(folder, pattern))
        assert matched == [os.path.join(folder, name) for name in names.split()], pattern


def test_local_copy_is_removed_after_its_block(store):
    write(os.path.join(store, "sub", "a.txt"), "text")
    with files.local_copy(store) as local:
        assert files.walk(local) == [os.path.join(local, "sub", "a.txt")]
    assert not os.path.exists(local)
    with pytest.raises(FileNotFoundError), files.local_copy(f"{store}/none"):
        pass


def test_store_error_is_one_sentence(store):
    with pytest.raises(UserError, match="s3://bucket/a cannot be reached .*no file system for s3.*tensorflow-io"):
        files.exists("s3://bucket/a")
    with pytest.raises(UserError, match="none.txt cannot be reached .No such file.*: check the path and the name"):
        files.open_binary(f"{store}/none.txt")
    with pytest.raises(UserError, match="no file system for s3"):
        read_json("s3://bucket/run.json")
    assert read_json(f"{store}/none.json") is None


def test_store_file_keeps_old_content_until_new_is_complete(store):
    path = os.path.join(store, "a.txt")
    write(path, "old")
    with pytest.raises(KeyboardInterrupt), atomic_files.atomic_write(path) as partial:
        assert not files.is_remote(partial)
        raise KeyboardInterrupt
    with files.open_text(path) as file:
        assert file.read() == "old"
    write(path, "new")
    with files.open_text(path) as file:
        assert file.read() == "new"
    assert files.names(store) == ["a.txt"]


def write_folder(folder, **options):
    with atomic_files.atomic_folder(folder, **options) as partial:
        for name in ("a", "b"):
            write(os.path.join(partial, "sub", name), name)


def test_unfinished_store_folder_is_refused_and_replaced(store):
    with faults.on_call(files, "copy", KeyboardInterrupt(), at=2), pytest.raises(KeyboardInterrupt):
        write_folder(store)
    assert {os.path.basename(path) for path in files.walk(store)} & {"a", "b"} == {"a"}
    with pytest.raises(UserError, match="is not complete: wait until it is written, or write it again"):
        atomic_files.check_whole(store)
    write_folder(store)
    atomic_files.check_whole(store)
    assert [os.path.basename(path) for path in files.walk(store)] == ["a", "b"]
    with pytest.raises(UserError, match="exists already"):
        write_folder(store)
    write_folder(store, overwrite=True)


def test_store_lock_is_refused_while_fresh_and_taken_over_when_stale(store):
    lock = folder_lock.acquire(store)
    with pytest.raises(BlockingIOError):
        folder_lock.acquire(store)
    lock.release()
    assert not files.exists(os.path.join(store, folder_lock.LOCK))
    owner = {"host": "another", "process": 1, "time": time.time(), "token": "x"}
    files.write_small(os.path.join(store, folder_lock.LOCK), json.dumps(owner).encode())
    with pytest.raises(BlockingIOError):
        folder_lock.acquire(store)
    owner["time"] -= folder_lock.VOID + 1
    files.write_small(os.path.join(store, folder_lock.LOCK), json.dumps(owner).encode())
    folder_lock.acquire(store).release()


def test_disk_lock_is_retried(tmp_path):
    pytest.importorskip("fcntl", reason="locks of folders are those of POSIX")
    first = folder_lock.acquire(tmp_path)
    with faults.on_call(folder_lock.time, "sleep", lambda _: first.release()):  # its process ends meanwhile
        folder_lock.acquire(tmp_path).release()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "preset.weights.h5"])
def test_pipes_and_devices_are_no_files(name, tmp_path):
    (tmp_path / "pipe").mkdir()
    (tmp_path / "device").mkdir()
    os.mkfifo(tmp_path / "pipe" / name)
    os.symlink("/dev/zero", tmp_path / "device" / name)
    for folder, kind in (("pipe", "a named pipe"), ("device", "a device")):
        path = tmp_path / folder / name
        with pytest.raises(OSError, match=f"it is {kind}"):
            files.open_binary(path)
        for part in (path, path.parent):
            with pytest.raises(OSError, match=f"it is {kind}"), files.local_copy(part):
                pass
        read = torch_pickle.read if name.endswith(".bin") else checkpoint_files.read_safetensors
        with pytest.raises(UserError, match=f"{name} cannot be read as .*it is {kind}"):
            read(str(path))
