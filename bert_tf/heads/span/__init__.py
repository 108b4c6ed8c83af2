"""The part of a text that answers a question (Devlin et al. 2018, sections 4.2 and 4.3)."""

from __future__ import annotations

from collections.abc import Sequence

from bert_tf.heads.base.answers import Answer, Span
from bert_tf.heads.base.head import Head, Outputs, as_text


class SpanHead(Head):
    """Scores every token as the start and as the end of the answer."""

    kind = weights = "span"
    model_class = "SpanFinder"
    trained_by = "bert_tf.heads.span.answering"
    reads_tokens = True
    signature_inputs = (frozenset({"question", "context"}),)
    signature_outputs = frozenset({"answer", "start", "end", "score", "answers", "starts", "ends", "probabilities"})

    @classmethod
    def answer(cls, outputs: Outputs, labels: Sequence[str]) -> Answer:
        """From "answer", "start", "end", "score" [], and "answers", "starts", "ends", "probabilities" [n]."""
        columns = (outputs[name].tolist() for name in ("answers", "starts", "ends", "probabilities"))
        rows = zip(*columns, strict=True)
        n_best = [
            Span(text=as_text(text), start=start, end=end, probability=share)
            for text, start, end, share in rows
            if share > 0  # the rest is padding
        ]
        return Answer(
            text=as_text(outputs["answer"]),
            start=int(outputs["start"]),
            end=int(outputs["end"]),
            probability=float(outputs["score"]),
            n_best=n_best,
            null_score=float(outputs["null_score"]) if "null_score" in outputs else None,
        )


HEAD = SpanHead
