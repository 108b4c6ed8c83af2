"""What 8, 64 and 1,024 accelerators would do with the large-batch recipe: a model on paper of a training step.

python benchmarks/scaling.py
python benchmarks/scaling.py --teraflops=120 --gigabytes=50 --per_host=8 --bytes_per_gradient=2

A step computes the rows of its batch at the rate that one accelerator reaches, then sums gradients over all hosts in a
ring at the rate of their links; the two do not overlap, as gradients are sent once, after accumulation. Both phases of
`--recipe=lamb_large_batch`, BERT-large. Two published runs check it. Nothing here was run on several accelerators.
"""

import argparse
import dataclasses
import math

LAYERS, WIDTH, VOCABULARY, PARAMETERS = 24, 1024, 30522, 336e6  # BERT-large
PHASES = ((65536, 128, 20, 7038), (32768, 512, 80, 1563))  # rows, tokens, predictions, steps
RECORD_BYTES = 2.0  # of a token in a record, about
INPUT_ROWS = 42_201 / 2  # of 128 tokens, read and masked by a core in a second: benchmarks/README.md
LATENCY = 20e-6  # seconds of a message between hosts, in a tree


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Accelerators in hosts: what one computes, and what links of a host carry."""

    name: str
    accelerators: int
    teraflops: float  # that one accelerator reaches in this training
    gigabytes: float  # a second that a host sends
    per_host: int
    bytes_per_gradient: int

    @property
    def hosts(self):
        return max(1, self.accelerators // self.per_host)


def flops_of_row(tokens, predictions):
    """Forward and backward pass of a row: products of weights, of attention, and of the masked LM head."""
    layers = 6 * 12 * LAYERS * WIDTH**2 * tokens
    attention = 12 * LAYERS * WIDTH * tokens**2
    head = 6 * (WIDTH**2 + WIDTH * VOCABULARY) * predictions
    return layers + attention + head


def seconds_of(cluster):
    """Seconds of computing and of summing gradients in both phases; the rows of 128 tokens a host needs a second."""
    computing = summing = 0.0
    rows_per_second = 0.0
    for rows, tokens, predictions, steps in PHASES:
        step = rows * flops_of_row(tokens, predictions) / (cluster.accelerators * cluster.teraflops * 1e12)
        hosts = cluster.hosts
        sent = 2 * (hosts - 1) / hosts * PARAMETERS * cluster.bytes_per_gradient
        reduce = sent / (cluster.gigabytes * 1e9) + 2 * math.log2(hosts) * LATENCY
        computing, summing = computing + steps * step, summing + steps * reduce
        rows_per_second = max(rows_per_second, rows * tokens / 128 / (step + reduce) / hosts)
    return computing, summing, rows_per_second


def line(cluster, published=""):
    computing, summing, rows = seconds_of(cluster)
    total = computing + summing
    megabytes = rows * 128 * RECORD_BYTES / 1e6
    return (
        f"| {cluster.name} | {cluster.accelerators:,} | {total / 3600:,.2f} | {summing / total:.1%} | "
        f"{computing / total:.1%} | {rows:,.0f} | {rows / INPUT_ROWS:.1f} | {megabytes:.1f} | {published} |"
    )


# Rates of one accelerator that others measured with BERT-large: 28.28 rows of 512 a second on a V100 (NVIDIA's
# PyTorch/LanguageModeling/BERT/README.md of March 2019, DGX-2, float16); 81.4 hours on 16 TPU v3 for 1,000,000 steps of
# 512 rows, nine tenths of 128 tokens (You et al. 2020, table 1).
V100 = 28.28 * flops_of_row(512, 80) / 1e12
TPU_V3 = 512 * (9e5 * flops_of_row(128, 20) + 1e5 * flops_of_row(512, 80)) / (16 * 81.4 * 3600) / 1e12


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--teraflops", type=float, default=0, help="a second, of one accelerator of yours in this training"
    )
    parser.add_argument("--gigabytes", type=float, default=12.5, help="a second, that a host sends (100 Gbit/s: 12.5)")
    parser.add_argument("--per_host", type=int, default=8, help="accelerators of a host")
    parser.add_argument("--bytes_per_gradient", type=int, default=4, help="2: --all_reduce_precision=bfloat16")
    options = parser.parse_args()
    print(
        "| | accelerators | hours | summing gradients | efficiency | rows/s of a host | its cores | MB/s | published |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    print(line(Cluster("check: V100, DGX-2H", 1472, V100, 125, 16, 2), "0.88 h (NVIDIA 2019)"))
    print(line(Cluster("check: TPU v3", 1024, TPU_V3, 70, 1, 4), "1.27 h (You et al. 2020)"))
    own = (options.gigabytes, options.per_host, options.bytes_per_gradient)
    for name, rate in (("V100", V100), ("TPU v3", TPU_V3), ("yours", options.teraflops)):
        for count in (8, 64, 1024) if rate else ():
            print(line(Cluster(name, count, rate, *own)))
    print(f"\nA V100 is taken for {V100:.1f} TFLOP/s, a TPU v3 for {TPU_V3:.1f}.")


if __name__ == "__main__":
    main()
