"""Speed on a GPU: BERT's encoder, training steps and first steps, beside torch; a training step by kernel.

    python benchmarks/gpu.py --work_dir=FOLDER

Random weights; inference in float16 from ids to pooled vectors on the host, training in bfloat16. bert_tf is compiled
whole by XLA in static shapes; torch runs eagerly and compiled (with CUDA graphs in inference), in this environment,
where torch and transformers are installed. Rounds are interleaved. Writes gpu.md and gpu.json into FOLDER. Exits with
2 where there is no GPU; --device=cpu --tiny tries everything on one.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys

import encoder
import race
import time_by_op

VOCAB_SIZE = encoder.VOCAB_SIZE
RATE = 800e12  # operations per second of an H100's or H200's bfloat16 products
ENCODERS = [("base", 1, 128), ("base", 32, 128), ("base", 128, 128), ("base", 32, 384)]
ENCODERS += [("large", 1, 128), ("large", 128, 128)]
TRAININGS = [("fine_tune", "base", 32, 128), ("fine_tune", "base", 128, 128), ("fine_tune", "large", 32, 384)]
TRAININGS += [("pretrain", "base", 64, 128), ("pretrain", "base", 256, 128), ("pretrain", "large", 16, 512)]
TINY = [("pool", "tiny", 2, 16), ("fine_tune", "tiny", 2, 16), ("pretrain", "tiny", 2, 32)]
KERNELS = 20  # of a profile that are shown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work_dir", required=True)
    parser.add_argument("--device", default="gpu", choices=("gpu", "cpu"))
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to try the script")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=10, help="of the work in a round")
    parser.add_argument("--only", default="", help="a part of the names of works, such as 'pretrain base'")
    arguments = parser.parse_args()
    if arguments.device == "gpu" and not has_gpu():
        print("There is no GPU here; --device=cpu --tiny tries the script without one.", file=sys.stderr)
        return 2
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"  # contenders share the memory of the GPU
    folder = pathlib.Path(arguments.work_dir)
    folder.mkdir(parents=True, exist_ok=True)
    results, tables = {}, []
    for kind, size, rows, width in TINY if arguments.tiny else [("pool", *each) for each in ENCODERS] + TRAININGS:
        name = f"{kind} {size} {rows} x {width}"
        if arguments.only in name:
            results[name] = compare(workload(kind, rows, width, arguments), size, folder, arguments.rounds)
            tables.append(f"## {name}\n\n{table(results[name])}")
            print(tables[-1], flush=True)
            (folder / "gpu.md").write_text("\n\n".join([f"{machine()}\n", *tables]) + "\n", encoding="utf-8")
            (folder / "gpu.json").write_text(json.dumps({"machine": machine(), "results": results}, indent=1))
    return 0


def has_gpu():
    """Whether the driver's own tool lists one; TensorFlow is left to the contenders."""
    try:
        return "GPU" in subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    except OSError:
        return False


def machine():
    """The GPU, or the processor where there is none."""
    if not has_gpu():
        return race.machine()
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True).stdout.strip()


def workload(kind, rows, width, arguments):
    """The workload as plain data; see peers/race_bert_tf.py."""
    ids = encoder.random_ids([width] * rows)
    work = {"kind": kind, "vocab_size": VOCAB_SIZE, "seq_length": width, "repeats": arguments.repeats}
    work |= {"jit_compile": "true", "device": arguments.device}
    if kind == "pool":
        return work | {"texts": ids}
    return work | {"batches": [ids], "num_predictions": min(77 if width > 128 else 20, width // 2)}


def contenders(work, size, file):
    """bert_tf, and torch eagerly and compiled where it is installed."""
    precision = "float16" if work["kind"] == "pool" and work["device"] == "gpu" else "bfloat16"
    flags = (f"--work={file}", f"--size={size}", f"--precision={precision}")
    yield race.Contender("profile of bert_tf", "profile_bert_tf.py", flags)
    yield race.Contender("bert_tf", "race_bert_tf.py", flags)
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"torch is left out, as {' and '.join(missing)} cannot be imported here.")
        return
    for name in ("eager", "compiled"):
        yield race.Contender(f"torch {name}", "race_torch_gpu.py", (*flags, f"--mode={name}"))


def compare(work, size, folder, rounds):
    """{contender: {"first_s", "ms": of each round}}, with "floor_ms" and "kernels" of bert_tf."""
    file = folder / "work.json"
    file.write_text(json.dumps(work))
    kind = "encode" if work["kind"] == "pool" else work["kind"]
    floor = time_by_op.operations_of({**work, "kind": kind}, size) / RATE
    results, runners = {}, []
    try:
        for contender in contenders(work, size, file):
            runner = race.Runner(contender, sys.executable)
            if contender.script.startswith("profile"):
                results["kernels"] = runner.once()["kernels"]
                runner.close()
                continue
            runners.append(runner)
            results[contender.name] = {"first_s": runner.once()["seconds"], "ms": []}
        for _ in range(rounds):
            for runner in runners:
                results[runner.contender.name]["ms"].append(1000 * runner.once()["seconds"] / work["repeats"])
    finally:
        for runner in runners:
            runner.close()
    return results | {"floor_ms": 1000 * floor}


def table(results):
    """Markdown: times of each contender, and the kernels of bert_tf."""
    lines = [f"Floor of the products at {RATE / 1e12:.0f} TFLOP/s: {results['floor_ms']:.2f} ms.", ""]
    lines += ["| | median, ms | best, ms | first, s |", "|---|---:|---:|---:|"]
    for name, result in results.items():
        if isinstance(result, dict):
            times = f"{statistics.median(result['ms']):.2f} | {min(result['ms']):.2f}"
            lines.append(f"| {name} | {times} | {result['first_s']:.1f} |")
    lines += ["", "| kernel of bert_tf | ms | calls |", "|---|---:|---:|"]
    lines += [f"| `{name}` | {ms:.3f} | {calls:.0f} |" for name, ms, calls in results["kernels"][:KERNELS]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
