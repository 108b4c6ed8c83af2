"""The ablations of the paper as data: what is pre-trained otherwise, what is fine-tuned otherwise, what it reached.

Sources: Devlin et al. 2018, section 5 and appendix C; Peters et al. 2018 and Radford et al. 2018 for what BERT is
compared with. The paper's figures are those of its development sets, in per cent.
"""

import dataclasses
from collections.abc import Mapping

PAPER_TASKS = ("MNLI", "QNLI", "MRPC accuracy", "SST-2", "SQuAD")
SCORES = {"mrpc": "accuracy"}  # of a task: what is shown, where the paper's tables have not what decides
MASKING_TASKS = ("MNLI", "NER", "NER, feature-based")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """One row of a table.

    pretraining, fine_tuning: {flag: value} beside those that all have. model: (layers, hidden size, attention heads) of
    another size. share: of the steps of pre-training after which its weights are taken; curve: the line that it is a
    point of. paper: {task: per cent}, and "perplexity".
    """

    name: str
    pretraining: Mapping[str, object] = dataclasses.field(default_factory=dict)
    fine_tuning: Mapping[str, object] = dataclasses.field(default_factory=dict)
    model: tuple = ()
    share: float = 1.0
    curve: str = ""
    paper: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def trained(self):
        """What its pre-training depends on: variants for which this is equal share one run."""
        return tuple(sorted(self.pretraining.items())), self.model


@dataclasses.dataclass(frozen=True)
class Table:
    """What is run for one table. published: variants that are not run, for what the paper says of them."""

    title: str
    variants: tuple
    published: tuple = ()


# The paper compares on "exactly the same pretraining data": in rows of two texts their embeddings are trained too.
NO_NSP = {"next_sentence_weight": 0, "keep_pairs": True}
LEFT_TO_RIGHT = {**NO_NSP, "left_to_right": True}


def _paper(tasks, *figures):
    return dict(zip(tasks, figures, strict=True))


def _masking(mix, *figures):
    """A row of table 8; MASK / SAME / RND."""
    pretraining = {} if mix == "80/10/10" else {"masking_mix": mix}
    return Variant(name=mix, pretraining=pretraining, paper=_paper(MASKING_TASKS, *figures))


OBJECTIVES = (
    Variant(name="BERT", paper=_paper(PAPER_TASKS, 84.4, 88.4, 86.7, 92.7, 88.5)),
    Variant(name="no NSP", pretraining=NO_NSP, paper=_paper(PAPER_TASKS, 83.9, 84.9, 86.5, 92.6, 87.9)),
    Variant(name="LTR & no NSP", pretraining=LEFT_TO_RIGHT, paper=_paper(PAPER_TASKS, 82.1, 84.3, 77.5, 92.1, 77.8)),
    Variant(
        name="LTR & no NSP + BiLSTM",
        pretraining=LEFT_TO_RIGHT,
        fine_tuning={"encoder": "bilstm_on_top"},
        paper=_paper(PAPER_TASKS, 82.1, 84.1, 75.7, 91.6, 84.9),
    ),
)
MASKING = (
    _masking("80/10/10", 84.2, 95.4, 94.9),
    _masking("100/0/0", 84.3, 94.9, 94.0),
    _masking("80/0/20", 84.1, 95.2, 94.6),
    _masking("80/20/0", 84.4, 95.2, 94.7),
    _masking("0/20/80", 83.7, 94.8, 94.6),
    _masking("0/0/100", 83.6, 94.9, 94.6),
)
ENCODERS = (
    Variant(name="static word pieces", fine_tuning={"encoder": "static"}),
    Variant(name="ELMo-like: two LSTMs", pretraining={"encoder": "lstm", **NO_NSP}),
    Variant(name="GPT-like: left to right", pretraining=LEFT_TO_RIGHT),
    Variant(name="BERT"),
)
# Layers, hidden size, heads of table 6, and their perplexity and what they reached on MNLI, MRPC and SST-2.
PUBLISHED_SIZES = {
    (3, 768, 12): (5.84, 77.9, 79.8, 88.4),
    (6, 768, 3): (5.24, 80.6, 82.2, 90.7),
    (6, 768, 12): (4.68, 81.9, 84.8, 91.3),
    (12, 768, 12): (3.99, 84.4, 86.7, 92.9),
    (12, 1024, 16): (3.54, 85.7, 86.9, 93.3),
    (24, 1024, 16): (3.23, 86.6, 87.8, 93.7),
}
STEPS = (0.125, 0.25, 0.5, 1.0)


def sizes(shapes):
    """Table 6, of models of these (layers, hidden size, heads)."""
    tasks = ("perplexity", "MNLI", "MRPC accuracy", "SST-2")
    return tuple(
        Variant(
            name=_named(*shape),
            model=shape,
            paper=_paper(tasks, *PUBLISHED_SIZES[shape]) if shape in PUBLISHED_SIZES else {},
        )
        for shape in shapes
    )


def _named(layers, width, heads):
    layers, heads = (f"{count} {word}{'s' * (count > 1)}" for count, word in ((layers, "layer"), (heads, "head")))
    return f"{layers}, {width} wide, {heads}"


def steps(shares=STEPS):
    """Figure 5: masked LM and left to right, after these shares of their steps."""
    kinds = (("masked LM", {}), ("left to right", LEFT_TO_RIGHT))
    return tuple(
        Variant(name=f"{name}, {100 * share:g}% of the steps", pretraining=flags, share=share, curve=name)
        for name, flags in kinds
        for share in shares
    )


def tables(shapes):
    """{name: Table} of everything that can be run."""
    published = sizes(shape for shape in PUBLISHED_SIZES if shape not in shapes)
    return {
        "objectives": Table("Pre-training tasks (table 5)", OBJECTIVES),
        "sizes": Table("Model size (table 6)", sizes(shapes), published),
        "masking": Table("Masked pieces shown as [MASK] / as they are / as a random piece (table 8)", MASKING),
        "steps": Table("Steps of pre-training (figure 5)", steps()),
        "encoders": Table("With and without context", ENCODERS),
    }
