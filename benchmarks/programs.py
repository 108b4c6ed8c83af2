"""What XLA makes of the encoder and of training steps for an H100 or a TPU v5e, compiled without having one.

    python benchmarks/programs.py --work_dir=FOLDER [--target=v5e] [--only=fine_tune] [--source=ANOTHER_CHECKOUT]
    python benchmarks/programs.py --work_dir=FOLDER --tasks

TensorFlow lowers the programs, and XLA for the described device compiles them, in an environment of its own with JAX.
A step is two programs: its gradients, and the update of the weights. "moved" is the size of all that kernels read and
write, "temporary" the memory beside arguments and results. On a GPU XLA would also measure which of several kernels is
the fastest for each product; here it takes a default, so this shows what is computed, and no time.

With --tasks the training, evaluation and answers of every task, small, as tests/training/test_compiled_graphs.py has
them, are compiled for both.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import encoder
import hlo_kernels
import race

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = [("pool", "base", 1, 128), ("pool", "base", 128, 128), ("fine_tune", "base", 32, 128)]
PROGRAMS += [("pretrain", "base", 64, 128), ("fine_tune", "large", 32, 384)]
TINY = [("pool", "tiny", 2, 16), ("fine_tune", "tiny", 2, 16), ("pretrain", "tiny", 2, 32)]
PLATFORMS = {"h100": "gpu", "v5e": "tpu"}
HEAD = "| | to compile, s | kernels | moved, MB | temporary, MB |\n|---|---:|---:|---:|---:|"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work_dir", required=True, help="for the environment, the programs and what they become")
    parser.add_argument("--target", default="h100", choices=PLATFORMS)
    parser.add_argument("--only", default="", help="a part of the names of programs, such as 'pretrain base'")
    parser.add_argument("--source", default=str(HERE.parent), help="the checkout that is measured")
    parser.add_argument("--kernels", type=int, default=0, help="how many kinds of kernels are shown")
    parser.add_argument("--excess_precision", action="store_true", help="XLA's default, which bert_tf turns off")
    parser.add_argument("--tasks", action="store_true", help="small programs of every task, for all targets")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to try the script")
    arguments = parser.parse_args()
    os.environ["XLA_FLAGS"] = f"--xla_allow_excess_precision={str(arguments.excess_precision).lower()}"
    folder = pathlib.Path(arguments.work_dir)
    folder.mkdir(parents=True, exist_ok=True)
    python = race.python_of("xla", folder)
    if arguments.tasks:
        return compile_tasks(folder, python)
    rows = []
    for kind, size, count, width in TINY if arguments.tiny else PROGRAMS:
        name = f"{kind} {size} {count} x {width}"
        if arguments.only not in name:
            continue
        for part in ("encoder",) if kind == "pool" else ("gradients", "update"):
            file = folder / f"{name} {part}.hlo".replace(" ", "_")
            program = [kind, size, count, width, part, PLATFORMS[arguments.target]]
            run([sys.executable, "lower_program.py", arguments.source, file, *program])
            result = compiled(python, file, arguments.target)
            kernels = hlo_kernels.kernels_of(file.with_suffix(".txt").read_text(encoding="utf-8"))
            moved = sum(kernel.bytes for kernel in kernels) / 1e6
            numbers = f"{result['seconds']:.1f} | {len(kernels)} | {moved:,.0f} | {result['temporary'] / 1e6:,.0f}"
            rows.append(f"| {name}: {part} | {numbers} |")
            print(rows[-1], flush=True)
            print(hlo_kernels.table(kernels, arguments.kernels), end="", flush=True)
    print("\n".join([f"\n{arguments.target}", HEAD, *rows]))


def compile_tasks(folder, python):
    """Prints how long each program takes to compile for each target."""
    programs = (folder / "tasks").absolute()
    programs.mkdir(exist_ok=True)
    for file in programs.glob("*.hlo"):
        file.unlink()
    tests = "tests/training/test_compiled_graphs.py"
    options = ["-q", "-m", "", "-p", "no:xdist", "-o", "addopts=", "-p", "keep_programs"]
    environment = {**os.environ, "PROGRAMS": str(programs), "PYTHONPATH": str(HERE / "peers")}
    command = [sys.executable, "-m", "pytest", *options, tests]
    subprocess.run(command, check=True, env=environment, cwd=HERE.parent)
    print("\n" + "\n".join([f"| | {' | '.join(f'{target}, s' for target in PLATFORMS)} |", "|---|---:|---:|"]))
    for file in sorted(programs.glob("*.hlo")):
        seconds = [f"{compiled(python, file, target)['seconds']:.1f}" for target in PLATFORMS]
        print(f"| {file.stem} | {' | '.join(seconds)} |", flush=True)


def compiled(python, file, target):
    """Compiles a program; what compile_program.py tells of it."""
    return json.loads(run([python, "compile_program.py", file, target]).splitlines()[-1])


def run(command):
    """The standard output of a script of `peers`; on failure its errors, and the end of this one."""
    script = [command[0], HERE / "peers" / command[1], *command[2:]]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "VOCAB_SIZE": str(encoder.VOCAB_SIZE)}
    done = subprocess.run(list(map(str, script)), capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{command[1]} failed:\n{done.stderr[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
