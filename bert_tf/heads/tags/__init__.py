"""A tag for each word, and the entities that the tags form (Devlin et al. 2018, section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence

from bert_tf.heads.base.answers import Entities, Entity
from bert_tf.heads.base.head import Head, Outputs, as_text


class Tags(Head):
    """Labels the first token of each word, with or without a CRF."""

    kind = "tags"
    model_class = "TokenClassifier"
    trained_by = "bert_tf.heads.tags.tagging"
    is_labelled = reads_tokens = True
    signature_inputs = (frozenset({"text"}),)
    signature_outputs = frozenset({"texts", "labels", "starts", "ends", "scores", "counts"})

    @classmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> Entities:
        """From the first "counts" [] of "texts", "labels", "starts", "ends" and "scores", [E] with padding."""
        columns = (outputs[name].tolist() for name in ("texts", "labels", "starts", "ends", "scores"))
        rows = list(zip(*columns, strict=True))[: int(outputs["counts"])]
        return Entities(
            entities=[
                Entity(text=as_text(text), label=as_text(label), start=start, end=end, probability=round(score, 6))
                for text, label, start, end, score in rows
            ]
        )


HEAD = Tags
