"""A tag for each word, and the entities that the tags are (Devlin et al. 2018, section 5.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.heads.base.answers import Entities, Entity
from bert_tf.heads.base.head import Head, Outputs, as_text


class Tags(Head):
    """Labels the first token of each word, with or without a CRF."""

    kind = "tags"
    model_class = "TokenClassifier"
    is_labelled = reads_tokens = True
    signature_inputs = (frozenset({"text"}),)
    signature_outputs = frozenset({"texts", "labels", "starts", "ends", "scores", "counts"})

    @classmethod
    def model(cls, config: Any, size: int, weights: Mapping[str, Any], **options: Any) -> Any:
        crf = any(name.startswith("crf/") for name in weights)
        return super().model(config, size, weights, **{"crf": crf, **options})

    @classmethod
    def tuned(cls, about: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> Any:
        from bert_tf.heads.tags.tagging import Tagging

        return Tagging.recorded(about, settings)

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
