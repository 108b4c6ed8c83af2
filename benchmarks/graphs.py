r"""Counts the operations of all graphs that a script builds, by the line that adds them.

    python benchmarks/graphs.py run_squad.py --num_train_epochs=0.02 --output_dir=FOLDER

The script's own flags follow its name. Adding an operation takes Python time, before the first step, the first
evaluation and every export. A function that is traced twice counts twice. After the output of the script come the
traced functions, with the number of operations (without those of the functions they call) and of traces, and the lines
of this package that add most.
"""

import argparse
import collections
import pathlib
import runpy
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHOWN = 25


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", choices=("run_pretraining.py", "run_classifier.py", "run_squad.py"))
    script, flags = parser.parse_known_args()
    script = ROOT / script.script
    sys.path.insert(0, str(ROOT))
    from bert_tf.runtime.tensorflow_startup import start_tensorflow

    start_tensorflow()
    counts = count_operations()
    sys.argv = [str(script), *flags]
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        print_counts(*counts)


def count_operations():
    """Starts counting; returns three counters: operations by line, operations by function, traces by function."""
    from tensorflow.python.eager.polymorphic_function import tracing_compilation
    from tensorflow.python.framework import ops

    lines, functions, traces = collections.Counter(), collections.Counter(), collections.Counter()
    tracing = [""]
    create_operation, trace = ops.Graph._create_op_internal, tracing_compilation._create_concrete_function

    def counting(graph, *arguments, **options):
        functions[tracing[-1]] += 1
        lines[line_of_package()] += 1
        return create_operation(graph, *arguments, **options)

    def naming(kind, context, graph, options, *rest):
        traces[options.name] += 1
        tracing.append(options.name)
        try:
            return trace(kind, context, graph, options, *rest)
        finally:
            tracing.pop()

    ops.Graph._create_op_internal, tracing_compilation._create_concrete_function = counting, naming
    return lines, functions, traces


def line_of_package():
    """The innermost line of bert_tf on the stack, "file:line"."""
    frame, package = sys._getframe(2), str(ROOT / "bert_tf")
    while frame and not frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    return f"{pathlib.Path(frame.f_code.co_filename).relative_to(ROOT)}:{frame.f_lineno}" if frame else "elsewhere"


def print_counts(lines, functions, traces):
    print(f"{sum(lines.values()):,} operations")
    print("operations, times traced, function")
    for name, count in functions.most_common(SHOWN):
        print(f"{count:6,} {traces[name]:3} {name or 'none'}")
    print("operations, line")
    for name, count in lines.most_common(SHOWN):
        print(f"{count:6,} {name}")


if __name__ == "__main__":
    main()
