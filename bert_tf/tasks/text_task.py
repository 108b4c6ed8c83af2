"""TextTask: a task on texts, whose model can be exported."""

from __future__ import annotations

from bert_tf.heads.base.servable import Servable
from bert_tf.text.tokenizer import Tokenizer
from bert_tf.training.task import Batch, Task


class TextTask(Servable, Task):
    """A task on texts. tokenizer: cuts them into tokens."""

    tokenizer: Tokenizer

    def row_texts(self, batch: Batch) -> list[str]:
        """The tokens of each row of a batch as one text; [] if it contains no tokens."""
        if "token_ids" not in batch:
            return []
        token_ids = batch["token_ids"].numpy()
        return list(self.tokenizer.detokenize(token_ids.reshape(len(token_ids), -1)))
