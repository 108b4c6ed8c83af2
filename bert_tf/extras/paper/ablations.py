"""The ablations of the BERT paper as data: changes to pre-training and fine-tuning, and the published scores.

Sources: Devlin et al. 2018, section 5 and appendix C; Peters et al. 2018 and Radford et al. 2018 for the models that
BERT is compared with. Published scores are percentages on validation sets.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

PAPER_TASKS = ("MNLI", "QNLI", "MRPC accuracy", "SST-2", "SQuAD")
SCORES = {"mrpc": "accuracy"}  # {task: score shown}, if the paper's tables do not use the task's criterion
MASKING_TASKS = ("MNLI", "NER", "NER, feature-based")

Shape = tuple[int, int, int]  # layers, hidden size, attention heads


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """One row of a table.

    pretraining, fine_tuning: {flag: value}, added to the flags of all rows. model: its shape, if it differs from the
    others. share: its weights are taken after this fraction of the pre-training steps. curve: the curve in the
    plot that contains its point. paper: {task: percentage}, and "perplexity".
    """

    name: str
    pretraining: Mapping[str, object] = dataclasses.field(default_factory=dict)
    fine_tuning: Mapping[str, object] = dataclasses.field(default_factory=dict)
    model: Shape | None = None
    share: float = 1.0
    curve: str = ""
    paper: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def pretraining_key(self) -> tuple[tuple[tuple[str, object], ...], Shape | None]:
        """Variants with equal keys share one pre-training run."""
        return tuple(sorted(self.pretraining.items())), self.model


@dataclasses.dataclass(frozen=True)
class Table:
    """The variants of one table. published: variants that are not run, only listed with the paper's scores."""

    title: str
    variants: Sequence[Variant]
    published: Sequence[Variant] = ()


# The paper compares on "exactly the same pretraining data": sequences of two segments also train segment embeddings.
NO_NSP = {"next_sentence_weight": 0, "keep_pairs": True}
LEFT_TO_RIGHT = {**NO_NSP, "left_to_right": True}


def _paper(tasks: Iterable[str], *scores: float) -> dict[str, float]:
    return dict(zip(tasks, scores, strict=True))


def _masking(mix: str, *scores: float) -> Variant:
    """A row of table 8: MASK / SAME / RND."""
    pretraining = {} if mix == "80/10/10" else {"masking_mix": mix}
    return Variant(name=mix, pretraining=pretraining, paper=_paper(MASKING_TASKS, *scores))


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
    Variant(name="static embeddings", fine_tuning={"encoder": "static"}),
    Variant(name="ELMo-like: two LSTMs", pretraining={"encoder": "lstm", **NO_NSP}),
    Variant(name="GPT-like: left to right", pretraining=LEFT_TO_RIGHT),
    Variant(name="BERT"),
)
# Table 6: perplexity, MNLI, MRPC and SST-2 by shape.
PUBLISHED_SIZES: dict[Shape, tuple[float, ...]] = {
    (3, 768, 12): (5.84, 77.9, 79.8, 88.4),
    (6, 768, 3): (5.24, 80.6, 82.2, 90.7),
    (6, 768, 12): (4.68, 81.9, 84.8, 91.3),
    (12, 768, 12): (3.99, 84.4, 86.7, 92.9),
    (12, 1024, 16): (3.54, 85.7, 86.9, 93.3),
    (24, 1024, 16): (3.23, 86.6, 87.8, 93.7),
}
STEP_SHARES = (0.125, 0.25, 0.5, 1.0)


def sizes(shapes: Iterable[Shape]) -> tuple[Variant, ...]:
    """Table 6, for models of these shapes."""
    tasks = ("perplexity", "MNLI", "MRPC accuracy", "SST-2")
    return tuple(
        Variant(
            name=_shape_name(*shape),
            model=shape,
            paper=_paper(tasks, *PUBLISHED_SIZES[shape]) if shape in PUBLISHED_SIZES else {},
        )
        for shape in shapes
    )


def _shape_name(layers: int, width: int, heads: int) -> str:
    return f"{layers} layer{'s' * (layers > 1)}, {width} wide, {heads} head{'s' * (heads > 1)}"


def steps(shares: Iterable[float] = STEP_SHARES) -> tuple[Variant, ...]:
    """Figure 5: masked LM and left-to-right LM, after fractions of the pre-training steps."""
    objectives: tuple[tuple[str, Mapping[str, object]], ...] = (("masked LM", {}), ("left to right", LEFT_TO_RIGHT))
    return tuple(
        Variant(name=f"{name}, {100 * share:g}% of the steps", pretraining=flags, share=share, curve=name)
        for name, flags in objectives
        for share in shares
    )


def tables(shapes: Sequence[Shape]) -> dict[str, Table]:
    """All tables by name; `shapes` are the models of the table of sizes."""
    published = sizes(shape for shape in PUBLISHED_SIZES if shape not in shapes)
    return {
        "objectives": Table("Pre-training tasks (table 5)", OBJECTIVES),
        "sizes": Table("Model size (table 6)", sizes(shapes), published),
        "masking": Table("Masked tokens replaced by [MASK] / unchanged / by a random token (table 8)", MASKING),
        "steps": Table("Pre-training steps (figure 5)", steps()),
        "encoders": Table("With and without context", ENCODERS),
    }
