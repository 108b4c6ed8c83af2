"""Compiles the programs of every task for an H100 and a TPU v5e, without having one.

    python benchmarks/programs.py --work_dir=FOLDER

Training, evaluation and answers of every task, small, as tests/training/test_compiled_graphs.py has them: TensorFlow
lowers them, and XLA for the described device compiles them, in an environment of its own with JAX. Prints the seconds
that each takes to compile.
"""

import argparse
import os
import pathlib
import subprocess
import sys

import race

HERE = pathlib.Path(__file__).resolve().parent
TARGETS = ("h100", "v5e")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work_dir", required=True, help="for the environment and the programs")
    parser.add_argument("--only", default="", help="as pytest's -k")
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.work_dir).absolute()
    python, programs = race.python_of("xla", folder), folder / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    for file in programs.glob("*.hlo"):
        file.unlink()
    options = ["-q", "-m", "", "-p", "no:xdist", "-o", "addopts=", "-p", "keep_programs", "-k", arguments.only]
    flags = {"XLA_FLAGS": "--xla_allow_excess_precision=false", "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment = os.environ | flags | {"PROGRAMS": str(programs), "PYTHONPATH": str(HERE / "peers")}
    command = [sys.executable, "-m", "pytest", *options, "tests/training/test_compiled_graphs.py"]
    subprocess.run(command, check=True, env=environment, cwd=HERE.parent)
    print("\n" + "\n".join([f"| | {' | '.join(f'{target}, s' for target in TARGETS)} |", "|---|---:|---:|"]))
    for file in sorted(programs.glob("*.hlo")):
        seconds = [_compile(python, file, target, environment) for target in TARGETS]
        print(f"| {file.stem} | {' | '.join(seconds)} |", flush=True)


def _compile(python, file, target, environment):
    """The seconds that peers/compile_program.py prints; on failure its errors, and the end of this program."""
    command = [python, HERE / "peers/compile_program.py", file, target]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{file.name} does not compile for {target}:\n{done.stderr[-4000:]}")
    return done.stdout.split()[-1]


if __name__ == "__main__":
    main()
