"""Measures time and memory of writing pre-training records for texts of increasing size.

    python benchmarks/input_growth.py --input_file=texts/ --vocab_file=vocab.txt --dupe_factor=1

Texts of 1, 10, 100 and 1000 MB, or --sizes: the lines of the input documents, repeated, one document per file.
Prints a table, writes it to benchmarks/README.md, and plots docs/input_growth.png.
"""

import itertools
import pathlib
import tempfile

import race
import records

SIZES = "1,10,100,1000"
DOCUMENT = 500_000  # bytes of a document, at most
PICTURE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "input_growth.png"


def main():
    parser = records.parser_of(__doc__)
    parser.add_argument("--sizes", default=SIZES, help="megabytes, comma-separated")
    flags = parser.parse_args()
    sentences = read_documents(flags.input_file)
    measurements = []
    for size in map(float, flags.sizes.split(",")):
        with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
            text = pathlib.Path(folder, "text")
            write(sentences, 1e6 * size, text)
            flags.input_file = str(text)
            measurements.append(records.measured(flags, str(pathlib.Path(folder, "records"))))
        print(row(*measurements[-1]), flush=True)
    table = "\n".join(["| MB | seconds | MB/s | instances | peak memory, MB |", "|" + "---:|" * 5])
    table = "\n".join([table, *(row(*each) for each in measurements)])
    draw(measurements)
    race.save_section(f"Records by size of the text, {flags.num_workers} workers", table)


def row(size, seconds, peak, instances):
    rate = f"{size / 1e6 / seconds:,.2f}"
    return f"| {size / 1e6:,.1f} | {seconds:,.1f} | {rate} | {instances:,} | {peak / 1e6:,.0f} |"


def read_documents(pattern):
    """Documents of sentences, none of more than DOCUMENT bytes."""
    from bert_tf.text import corpus

    documents = []
    for document in itertools.chain.from_iterable(map(corpus.read_documents, corpus.find_sources(pattern))):
        size = DOCUMENT
        for sentence in document:
            size += len(sentence.encode())
            if size >= DOCUMENT:
                documents.append([])
                size = 0
            documents[-1].append(sentence)
    return documents


def write(documents, size, folder):
    """Files of one document each, `size` bytes in all or a document more."""
    folder.mkdir(parents=True)
    for number, document in enumerate(itertools.cycle(documents)):
        if size <= 0:
            return
        text = "\n".join(document) + "\n"
        (folder / f"{number:06}.txt").write_text(text[: int(size) + 1], encoding="utf-8")
        size -= len(text.encode())


def draw(measurements):
    """Seconds and memory over megabytes, both axes logarithmic: what grows as the text does is a straight line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes, seconds, peaks, _ = zip(*measurements, strict=True)
    sizes = [size / 1e6 for size in sizes]
    picture, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), constrained_layout=True)
    left.loglog(sizes, seconds, "o-", label="measured")
    left.loglog(sizes, [seconds[-1] * size / sizes[-1] for size in sizes], ":", color="grey", label="as the text grows")
    left.set(xlabel="text, MB", ylabel="seconds")
    left.legend(frameon=False)
    right.semilogx(sizes, [peak / 1e6 for peak in peaks], "o-", color="tab:orange")
    right.set(xlabel="text, MB", ylabel="peak memory of all processes, MB", ylim=(0, None))
    for axes in (left, right):
        axes.grid(alpha=0.3)
    picture.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
