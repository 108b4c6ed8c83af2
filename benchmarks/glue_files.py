"""Checks that no row of the GLUE files is lost; exit code 1 if a file has an unexpected number of rows.

python benchmarks/glue_files.py --data_dir=GLUE [--data_dir=MORE]

Reads every .tsv file in folders with GLUE's names (CoLA, SST-2, ...), including samples as train.sample.tsv. Prints one
row per file: lines below the header, counted as bytes; examples; skipped rows, which only QQP has; the published number
of rows, for complete files; labels, or the range of numbers.
"""

import argparse
import logging
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bert_tf.tasks.catalog import glue  # noqa: E402

KNOWN = {
    "CoLA": {"train": 8551, "dev": 1043, "test": 1063},
    "SST-2": {"train": 67349, "dev": 872, "test": 1821},
    "MRPC": {"train": 3668, "dev": 408, "test": 1725},
    "STS-B": {"train": 5749, "dev": 1500, "test": 1379},
    "RTE": {"train": 2490, "dev": 277, "test": 3000},
    "WNLI": {"train": 635, "dev": 71, "test": 146},
}
FEW = 10  # lines of a file that shows a layout and nothing more


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", type=pathlib.Path, action="append", required=True)
    options = parser.parse_args()
    logging.getLogger("bert_tf").setLevel(logging.ERROR)
    layouts = {layout.folder: layout for layout in glue.LAYOUTS.values()}
    print("| file | lines | examples | passed over | known | labels |\n|--|--|--|--|--|--|")
    is_right = True
    for folder in options.data_dir:
        for path in sorted(folder.rglob("*.tsv")):
            layout = next((layouts[part] for part in reversed(path.parts[:-1]) if part in layouts), None)
            if layout is not None:
                is_right &= look_at(path, folder, layout)
    return 0 if is_right else 1


def look_at(path, folder, layout):
    """Prints the row of a file; whether all that is known of it is right."""
    part = path.name.split(".")[0]  # train.sample.tsv
    split = next(split for split, name in layout.files.items() if name.split(".")[0] == part)
    examples = glue.read_file(str(path), layout, split)
    with open(path, "rb") as file:
        lines = sum(1 for line in file if line.strip(b"\r\n"))
    lines -= layout.folder != "CoLA" or part == "test"  # the header
    passed_over = lines - len(examples)
    is_whole = path.name == f"{part}.tsv" and lines > FEW
    known = KNOWN.get(layout.folder, {}).get(split) if is_whole else None
    is_right = known in (None, len(examples)) and (passed_over == 0 or layout.tolerant)
    print(
        f"| {path.relative_to(folder.parent)} | {lines:,} | {len(examples):,} | {passed_over} | "
        f"{'' if known is None else f'{known:,}'} | {labels_of(examples, layout)} |{'' if is_right else ' WRONG'}"
    )
    return is_right


def labels_of(examples, layout):
    """The labels of a file in words."""
    labels = {example.label for example in examples}
    if labels == {None}:
        return "none"
    if layout.labels:
        return ", ".join(sorted(labels))
    numbers = [float(label) for label in labels]
    return f"{min(numbers)} to {max(numbers)}"


if __name__ == "__main__":
    sys.exit(main())
