"""Flags from a dataclass, and the frame of a script: each case is a process, as absl's flags are global."""

import dataclasses
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bert_tf.config import entry_point
from bert_tf.config.options import Options, changed, flag

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = '''"""A script to try flags with."""

import dataclasses
import json

from bert_tf.config import entry_point
from bert_tf.config.options import Group, Options, flag, group
from bert_tf.errors import Interrupted, TrainingError, UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Paint(Group):
    """Paint."""

    colour: str = flag("blue", "Colour of it.", ("red", "blue"))
    do_paint: bool = flag(True, "Paint it.", aliases=("paint",))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size(Options):
    """A size."""

    MOST_USED = ("colour",)

    width: int = flag(4, "Width in metres.", aliases=("breadth",))
    tool: str = flag("auto", "What to paint with.", ("auto",), members_of="tools")
    share: float = flag(0.5, "Share of it.")
    coats: int = flag(0, "Coats of it.", words={"auto": 0})
    thickness: float = flag(-1.0, "Of a coat.", words={"auto": -1.0, "none": 0.0})
    notes: tuple = ()  # no help, so no flag
    paint: Paint = group(Paint)


def main(options):
    options = options.with_defaults({"width": 9, "share": 0.25}, "the room is small")
    ends = {
        1: UserError("The width is 1; expected 2 or more."),
        2: TrainingError("The loss is not a number."),
        3: Interrupted("Stopped after step 3."),
        5: KeyboardInterrupt(),
        6: MemoryError(),
        7: ValueError("a mistake of ours"),
    }
    if options.width in ends:
        raise ends[options.width]
    paint = dataclasses.asdict(options.paint)
    print(json.dumps([options.values(), paint, "width" in options.given, "share" in options.given]))


if __name__ == "__main__":
    entry_point.run(Size, main)
'''


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("script") / "paint.py"
    path.write_text(SCRIPT)
    for name in ("tools/__init__", "tools/brush", "tools/roller", "my_lab/sponge"):
        module = path.parent / f"{name}.py"
        module.parent.mkdir(exist_ok=True)
        module.write_text("raise AssertionError('checking a choice imports nothing')")
    return path


def run(script, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


DEFAULTS = {
    "width": 9, "colour": "blue", "share": 0.25, "coats": 0, "thickness": -1.0, "tool": "auto", "do_paint": True
}  # fmt: skip


@pytest.mark.parametrize(
    "arguments, changes, is_given",
    [
        ("", {}, False),
        (
            "--width=4 --colour red --nodo_paint --coats=auto --thickness=none",
            {"width": 4, "colour": "red", "do_paint": False, "thickness": 0.0},
            True,
        ),
        ("--breadth=4 --colour=blue --nopaint", {"width": 4, "do_paint": False}, True),
    ],
    ids=["defaults", "given, some with their default", "other names"],
)
def test_given_flags_win_over_defaults(script, arguments, changes, is_given):
    code, output, errors = run(script, *arguments.split())
    assert (code, errors) == (0, "")
    options, paint, *explicit_flags = json.loads(output)
    assert options == DEFAULTS | changes
    assert paint == {name: options[name] for name in ("colour", "do_paint")}
    assert explicit_flags == [is_given, False]


@pytest.mark.parametrize(
    "number, path, code, expected",
    [
        (errno.ENOSPC, "a", 1, "no space left on the disk (a)"),
        (errno.EFBIG, None, 1, "a file would be larger than this process may write"),
        (errno.EROFS, "b", 2, "b cannot be used (Read-only file system)"),
        (errno.ENOENT, "c", 2, "c cannot be used (No such file or directory)"),
        (errno.EIO, "d", 1, "d could not be read or written (Input/output error)"),
        (None, None, 1, "a file could not be read or written (of a library)"),
    ],
)
def test_every_error_of_the_system_is_one_line(capsys, number, path, code, expected):
    def main(options):
        raise OSError("of a library") if number is None else OSError(number, os.strerror(number), path)

    with pytest.raises(SystemExit) as ended:
        entry_point._call(Options, main)
    stderr = capsys.readouterr().err
    assert ended.value.code == code and expected in stderr and stderr.count("\n") == 1


@pytest.mark.parametrize("tool", ["roller", "my_lab.sponge"])
def test_open_set_choices_include_outside_modules(script, tool):
    code, output, errors = run(script, f"--tool={tool}")
    assert (code, errors) == (0, "")
    assert json.loads(output)[0]["tool"] == tool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Old:
    width: int = flag(4, "Width in metres.", aliases=("breadth",))
    colour: str = flag("red", "Colour of it.", ("red", "blue"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Changed(Old):
    colour: str = changed(Old, "colour", "blue", help="Colour of the door.")


def test_inherited_group_can_change_a_default():
    assert (Changed().colour, Changed().width, Old().colour) == ("blue", 4, "red")
    field = next(field for field in dataclasses.fields(Changed) if field.name == "colour")
    assert (field.metadata["help"], field.metadata["choices"]) == ("Colour of the door.", ("red", "blue"))


@pytest.mark.parametrize(
    "argument, code, says",
    [
        ("--width=1", 2, "The width is 1; expected 2 or more."),
        ("--width=2", 1, "The loss is not a number."),
        ("--width=3", 143, "Stopped after step 3."),
        ("--width=5", 130, "interrupted; run the same command again to continue."),
        ("--width=6", 1, "memory ran out (MemoryError): raise num_accumulation_steps or pass auto, use"),
        ("--gpu=1", 2, "There is no flag --gpu."),
        ("--widht=4", 2, "There is no flag --widht. Did you mean --width"),
        ("--width=wide", 2, "--width=wide: expected a whole number."),
        ("--width=4.5", 2, "--width=4.5: expected a whole number."),
        ("--coats=some", 2, "--coats=some: expected a whole number or auto."),
        ("--thickness=thin", 2, "--thickness=thin: expected a finite number, auto or none."),
        ("--share=half", 2, "--share=half: expected a finite number."),
        ("--share=nan", 2, "--share=nan: expected a finite number."),
        ("--thickness=-inf", 2, "--thickness=-inf: expected a finite number, auto or none."),
        ("--colour=green", 2, "--colour=green: expected one of red, blue."),
        ("--breadth=1", 2, "The width is 1; expected 2 or more."),
        ("--breadth=wide", 2, "--width=wide: expected a whole number."),
        ("--tool=hammer", 2, "--tool=hammer: expected one of auto, brush, roller, or a module of your own"),
        (
            "--tool=my_lab.hammer",
            2,
            "--tool=my_lab.hammer: expected one of auto, brush, roller, or a module of",
        ),
        ("--tool=..hammer", 2, "--tool=..hammer: expected one of auto, brush, roller, or a module of"),
        ("--do_paint=perhaps", 2, "--do_paint=perhaps: expected true or false."),
        ("--width", 2, "Missing value for flag --width"),
        ("--notes=a", 2, "There is no flag --notes."),
        ("nowhere", 2, "'nowhere' is not a flag"),
        ("width=4", 2, "'width=4' is not a flag: flags begin with --, as in --name=value. Try --help."),
    ],
)
def test_user_error_is_one_line_with_exit_code(script, argument, code, says):
    given, output, errors = run(script, argument)
    assert (given, output) == (code, "")
    assert errors.startswith(f"paint.py: {says}") and errors.count("\n") == 1 and errors.endswith("\n")


def test_programming_error_keeps_its_traceback(script):
    code, _, errors = run(script, "--width=7")
    assert code == 1 and "Traceback" in errors and errors.rstrip().endswith("ValueError: a mistake of ours")


def test_help_shows_flags_choices_and_defaults(script):
    code, output, errors = run(script, "--help")
    assert code == 0
    for expected in (
        "A script to try flags with.\n\nusage: paint.py [--FLAG=VALUE ...]\n\nFlags used most:\n",
        "\n  --colour=<red|blue>\n      Colour of it. (default: blue)\n",
        "\n\nA size:\n  --width=N\n      Width in metres. (default: 4)\n",
        "  --[no]do_paint\n      Paint it. (default: true)\n",
        "  --tool=<auto|brush|roller>\n",
    ):
        assert expected in output
    assert "--notes" not in output and errors == ""


@pytest.mark.parametrize(
    "text, expected",
    [
        ("or from scratch pass model_size=mini instead.", "or from scratch pass --model_size=mini instead."),
        ("choose another output_dir, such as runs/a-2", "choose another --output_dir, such as runs/a-2"),
        ("Pass the file as train_file.", "Pass the file as --train_file."),
        ("Pass --model_size=mini.", "Pass --model_size=mini."),
        ("runs/model_size=mini/a has 'model_size=mini' and `x model_size=mini`", None),
        ("model_size is 'x'; the column other_name=3 is unknown, as is another run", None),
    ],
)
def test_errors_of_commands_name_flags(text, expected):
    names = {"model_size", "output_dir", "train_file", "run"}
    assert entry_point.as_flags(text, names) == (expected or text)
