"""`bert-tf launch`: processes that print, fail, hang and stop; small ones in place of training."""

import asyncio
import json
import os
import signal
import sys

import pytest

from bert_tf.cli import main
from bert_tf.extras.commands import launch
from bert_tf.runtime import cluster
from bert_tf.runtime.cluster import Place

REPORT = "import json, os; print('number', json.loads(os.environ['TF_CONFIG'])['task']['index'])"
WAIT = "import time; print('at work'); time.sleep(60)"


@pytest.fixture
def programs(monkeypatch):
    """Replaces the command of the next workers by the given Python programs, in order."""
    for name in ("TF_CONFIG", "RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    waiting = []
    monkeypatch.setattr(launch, "python_command", lambda words: [sys.executable, "-S", "-c", waiting.pop(0)])
    return waiting


@pytest.fixture
def no_grace(monkeypatch):
    """Workers that do not end with the others are killed nearly at once."""
    monkeypatch.setattr(launch, "GRACE", 0.3)


def launched(capfd, *arguments):
    """The exit code and the sorted lines of output of the command."""
    try:
        code = main.main(["launch", *arguments, "--", "pretrain", "--output_dir=x"])
    except SystemExit as end:
        code = end.code
    output = capfd.readouterr()
    return code, sorted(output.out.splitlines()), output.err


def test_workers_of_a_machine_know_their_numbers_and_their_lines_tell_them(programs, capfd):
    programs += [REPORT, REPORT + "; print('no newline', end='')"]
    assert launched(capfd, "--workers=2") == (0, ["[0] number 0", "[1] no newline", "[1] number 1"], "")


def test_killed_worker_ends_the_others_with_a_line_each(programs, no_grace, capfd):
    programs += [WAIT, "import os; os.kill(os.getpid(), 9)"]
    code, lines, _ = launched(capfd, "--workers=2")
    assert code == 1
    assert [line for line in lines if "at work" not in line] == [
        "[0] bert-tf: stopped because worker 1 of 2 was killed (SIGKILL); start the same command again to continue.",
        "[1] bert-tf: was killed (SIGKILL); start the same command again to continue.",
    ]


def test_worker_that_said_why_but_is_slow_to_end_has_one_line(programs, no_grace, capfd, tmp_path):
    noticed, said = "bert-tf: worker 1 of this job has ended.", str(tmp_path / "said")
    programs += [f"import time; print({noticed!r}, flush=True); open({said!r}, 'w'); time.sleep(60)"]
    programs += [f"import os, time\nwhile not os.path.exists({said!r}): time.sleep(0.01)\nos.kill(os.getpid(), 9)"]
    code, lines, _ = launched(capfd, "--workers=2")
    assert code == 1 and len(lines) == 2 and lines[0] == f"[0] {noticed}"


def test_worker_that_says_why_it_ends_is_not_talked_over(programs, capfd):
    programs += [
        "print('No such file.'); raise SystemExit(2)",
        "import time; time.sleep(0.3); print('Lost.'); raise SystemExit(1)",
    ]
    assert launched(capfd, "--workers=2") == (2, ["[0] No such file.", "[1] Lost."], "")


def test_signal_reaches_all_and_they_may_save(programs, capfd):
    save = "import signal, sys, time; signal.signal(15, lambda *_: (print('saved'), sys.exit(143)))\n"
    parent = f"import os; os.kill({os.getpid()}, {int(signal.SIGTERM)})"
    programs += [save + "time.sleep(30)", f"{save}time.sleep(0.5); {parent}; time.sleep(30)"]
    assert launched(capfd, "--workers=2") == (143, ["[0] saved", "[1] saved"], "")


def test_signal_ends_workers_that_cannot_save_yet_with_its_exit_code(programs, capfd):
    parent = f"import os; os.kill({os.getpid()}, {int(signal.SIGTERM)})"
    programs += [WAIT, f"import time; time.sleep(0.5); {parent}; time.sleep(30)"]
    code, lines, _ = launched(capfd, "--workers=2")
    said = "bert-tf: was killed (SIGTERM); start the same command again to continue."
    assert code == 143 and {f"[0] {said}", f"[1] {said}"} & set(lines)


def test_workers_of_several_machines_meet_and_end_together(programs, no_grace, capfd):
    """Two launchers in one process, as if on two machines: worker 1 is killed."""
    by_number = f"{REPORT}\nif json.loads(os.environ['TF_CONFIG'])['task']['index']: os.kill(os.getpid(), 9)\n{WAIT}"
    programs += [by_number] * 2  # either launcher may be the first to start its worker
    address = f"localhost:{cluster.free_ports(1)[0]}"

    async def both():
        return await asyncio.gather(*(launch._one(Place(number, 2, address), [], 10) for number in range(2)))

    assert asyncio.run(both()) == [1, 1]
    lines = sorted(line for line in capfd.readouterr().out.splitlines() if "bert-tf" in line)
    assert len(lines) == 2 and "[0] bert-tf: stopped because worker 1 of 2 (localhost:" in lines[0]
    assert lines[1] == "[1] bert-tf: was killed (SIGKILL); start the same command again to continue."


def test_worker_of_a_scheduler_starts_alone(programs, capfd, monkeypatch):
    port = cluster.free_ports(1)[0]
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "localhost", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    programs.append("import json, os; print(os.environ['TF_CONFIG'])")
    code, lines, _ = launched(capfd)
    assert code == 0 and json.loads(lines[0].removeprefix("[0] "))["task"] == {"type": "worker", "index": 0}


@pytest.mark.parametrize(
    "arguments, environ, message",
    [
        (["--", "pretrain"], {}, "workers=0: expected 1 or more unless Slurm or torchrun"),
        (["--workers=2"], {}, "Nothing cannot be launched: pass pretrain, finetune or squad after --"),
        (["--workers=2", "--", "predict"], {}, "predict cannot be launched"),
        (["--workers=2", "--worker_index=0", "--", "pretrain"], {}, "worker_index requires coordinator"),
        *(
            ([f"--timeout={value}", "--workers=2", "--", "pretrain"], {}, "invalid positive value")
            for value in ("nan", "inf", "-1", "0", "soon")
        ),
        (["--workers=2", "--", "pretrain"], {"TF_CONFIG": "{}"}, "TF_CONFIG is set and already names the workers"),
    ],
)
def test_impossible_job_is_one_line(programs, capfd, monkeypatch, arguments, environ, message):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    try:
        code = main.main(["launch", *arguments])
    except SystemExit as end:  # argparse's
        code = end.code
    assert code == 2
    error = capfd.readouterr().err
    assert message in error and error.count("\n") == 1


def test_workers_of_a_machine_share_its_gpus(with_gpus):
    with_gpus(*[None] * 4)
    second = Place(1, 2, "localhost", (1, 2))
    assert launch.gpus_of(second, {}) == {"CUDA_VISIBLE_DEVICES": "2,3"}
    assert launch.gpus_of(second, {"CUDA_VISIBLE_DEVICES": "7"}) == {}
    assert launch.gpus_of(Place(1, 2, "first"), {}) == {} and launch.cores_of(second) == []
