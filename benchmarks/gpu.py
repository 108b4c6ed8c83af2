"""Speed on a GPU: encoder, strings to labels, training steps and first steps, beside torch; a step by kernel; scripts.

    python benchmarks/gpu.py --work_dir=FOLDER [--sentences=SST-2/dev.tsv] [--glue_dir=GLUE --init_checkpoint=MINILM]

Random weights; inference in float16, from ids to pooled vectors and from strings to labels on the host, training in
bfloat16. bert_tf is compiled whole by XLA in static shapes; torch runs eagerly and compiled (with CUDA graphs in
inference), in this environment, where torch and transformers are installed. Rounds are interleaved. The first call of
"bert_tf again" finds what XLA stored for the call before. Then run_classifier.py runs its demonstration, and with
--glue_dir MRPC for three epochs and 1,000 steps of SST-2. Writes gpu.md and gpu.json into FOLDER. Exits with 2 where
there is no GPU; --device=cpu --tiny tries everything on one.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import encoder
import gpu_scripts
import race
import time_by_op

VOCAB_SIZE = encoder.VOCAB_SIZE
AGAIN = "bert_tf again"  # a second process, for the time of its first call
RATE = 800e12  # operations per second of an H100's or H200's bfloat16 products
ENCODERS = [("base", 1, 128), ("base", 32, 128), ("base", 128, 128), ("base", 32, 384)]
ENCODERS += [("large", 1, 128), ("large", 128, 128)]
TRAININGS = [("fine_tune", "base", 32, 128), ("fine_tune", "base", 128, 128), ("fine_tune", "large", 32, 384)]
TRAININGS += [("pretrain", "base", 64, 128), ("pretrain", "base", 256, 128), ("pretrain", "large", 16, 512)]
LABELS = [("label", "base", 1, 128), ("label", "base", 10_000, 128)]  # texts of at most 128 tokens
TINY = [("pool", "tiny", 2, 16), ("label", "tiny", 3, 16), ("fine_tune", "tiny", 2, 16), ("pretrain", "tiny", 2, 32)]
WORKS = [("pool", *each) for each in ENCODERS] + LABELS + TRAININGS
KERNELS = 20  # of a profile that are shown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work_dir", required=True)
    parser.add_argument("--device", default="gpu", choices=("gpu", "cpu"))
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to try the script")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=10, help="of the work in a round")
    parser.add_argument("--only", default="", help="a part of the names of works, such as 'pretrain base'")
    parser.add_argument("--sentences", help="a table with a column sentence; by default sentences of random words")
    parser.add_argument("--glue_dir", help="a folder with MRPC and SST-2")
    parser.add_argument("--init_checkpoint", help="what MRPC and SST-2 start from")
    arguments = parser.parse_args()
    if arguments.device == "gpu" and not has_gpu():
        print("There is no GPU here; --device=cpu --tiny tries the script without one.", file=sys.stderr)
        return 2
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"  # contenders share the memory of the GPU
    folder = pathlib.Path(arguments.work_dir)
    folder.mkdir(parents=True, exist_ok=True)
    results, tables = {}, []

    def add(name, result, text):
        results[name] = result
        tables.append(f"## {name}\n\n{text}")
        print(tables[-1], flush=True)
        (folder / "gpu.md").write_text("\n\n".join([f"{machine()}\n", *tables]) + "\n", encoding="utf-8")
        (folder / "gpu.json").write_text(json.dumps({"machine": machine(), "results": results}, indent=1))

    for kind, size, rows, width in TINY if arguments.tiny else WORKS:
        name = f"{kind} {size} {rows} x {width}"
        if arguments.only in name:
            result = compare(workload(kind, rows, width, arguments), size, folder, arguments.rounds)
            add(name, result, table(result))
    for name, flags in gpu_scripts.runs(arguments).items():
        if arguments.only in name:
            result = gpu_scripts.run(flags, folder / name.replace(" ", "_"))
            add(name, result, gpu_scripts.table(result))
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
    work = {"kind": kind, "vocab_size": VOCAB_SIZE, "seq_length": width, "repeats": arguments.repeats}
    work |= {"jit_compile": "true", "device": arguments.device}
    if kind == "label":
        vocabulary, texts = gpu_scripts.sentences(arguments.sentences, rows, VOCAB_SIZE)
        file = pathlib.Path(arguments.work_dir, "vocab.txt").absolute()
        file.write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8")
        return work | {"vocab_file": str(file), "texts": texts, "repeats": 1 if rows > 100 else arguments.repeats}
    ids = encoder.random_ids([width] * rows)
    if kind == "pool":
        return work | {"texts": ids}
    return work | {"batches": [ids], "num_predictions": min(77 if width > 128 else 20, width // 2)}


def contenders(work, size, file):
    """bert_tf, and torch eagerly and compiled where it is installed."""
    is_trained = work["kind"] in ("fine_tune", "pretrain")
    precision = "float16" if not is_trained and work["device"] == "gpu" else "bfloat16"
    flags = (f"--work={file}", f"--size={size}", f"--precision={precision}")
    yield race.Contender("profile of bert_tf", "profile_bert_tf.py", flags)
    yield race.Contender("bert_tf", "race_bert_tf.py", flags)
    yield race.Contender(AGAIN, "race_bert_tf.py", flags)
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"torch is left out, as {' and '.join(missing)} cannot be imported here.")
        return
    for name in ("eager", "compiled"):
        yield race.Contender(f"torch {name}", "race_torch_gpu.py", (*flags, f"--mode={name}"))


def compare(work, size, folder, rounds):
    """{contender: {"first_s", "ms": of each round}}, with "floor_ms" (None: unknown) and "kernels" of bert_tf."""
    file, cache = folder / "work.json", folder / "xla"
    file.write_text(json.dumps(work))
    shutil.rmtree(cache, ignore_errors=True)
    os.environ["TF_XLA_FLAGS"] = f"--tf_xla_persistent_cache_directory={cache.absolute()}"
    results, runners = {}, []
    try:
        for contender in contenders(work, size, file):
            if contender.script.startswith("profile"):
                continue
            runner = race.Runner(contender, sys.executable)
            results[contender.name] = {"first_s": runner.once()["seconds"], "ms": []}
            runner.close() if contender.name == AGAIN else runners.append(runner)
        for _ in range(rounds):
            for runner in runners:
                results[runner.contender.name]["ms"].append(1000 * runner.once()["seconds"] / work["repeats"])
    finally:
        for runner in runners:
            runner.close()
    profiler = race.Runner(next(contenders(work, size, file)), sys.executable)
    results["kernels"] = profiler.once()["kernels"]
    profiler.close()
    return results | {"floor_ms": floor_ms(work, size)}


def floor_ms(work, size):
    """The time of the products alone; None for strings, whose tokens are not known."""
    if work["kind"] == "label":
        return None
    kind = "encode" if work["kind"] == "pool" else work["kind"]
    return 1000 * time_by_op.operations_of({**work, "kind": kind}, size) / RATE


def table(results):
    """Markdown: times of each contender, and the kernels of bert_tf."""
    floor = results["floor_ms"]
    lines = [] if floor is None else [f"Floor of the products at {RATE / 1e12:.0f} TFLOP/s: {floor:.2f} ms.", ""]
    lines += ["| | median, ms | best, ms | first, s |", "|---|---:|---:|---:|"]
    for name, result in results.items():
        if isinstance(result, dict):
            times = f"{statistics.median(result['ms']):.2f} | {min(result['ms']):.2f}" if result["ms"] else " | "
            lines.append(f"| {name} | {times} | {result['first_s']:.1f} |")
    lines += ["", "| kernel of bert_tf | ms | calls |", "|---|---:|---:|"]
    lines += [f"| `{name}` | {ms:.3f} | {calls:.0f} |" for name, ms, calls in results["kernels"][:KERNELS]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
