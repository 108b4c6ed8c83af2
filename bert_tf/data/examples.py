"""Example: one row of a labelled table, as the tasks on whole texts see it. Free of TensorFlow."""

import dataclasses

from bert_tf.data import tables
from bert_tf.errors import UserError


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """Its texts, and the label as the file writes it (None where the file has none); `place` is for errors."""

    id: str
    texts: tuple
    label: object = None
    place: str = ""

    def encoded(self):
        """The texts as UTF-8, list of bytes; UserError where one holds half a surrogate pair, as JSON may."""
        try:
            return [text.encode() for text in self.texts]
        except UnicodeEncodeError:
            raise UserError(f"In {self.place} a text is not Unicode: it holds half a surrogate pair.") from None


def read(path, *, texts, label=None, id_column=None, columns=None, broken=None):
    """The examples of a table, in its order: list of Example.

    texts: the columns with the texts. label: the column with the label, None leaves it unread.
    id_column: the column with the id; without it, the number of the row, from 0.
    columns, broken: as `tables.read` takes them.
    Raises UserError for a missing column, a text that is none, and where `tables.read` does.
    """
    examples = []
    for line, row in tables.read(path, columns, broken=broken):
        if not examples:
            tables.expect_columns(path, row, [*texts, *filter(None, [label, id_column])])
        place = f"line {line} of {path}"
        number = str(len(examples)) if id_column is None else tables.identifier(row, id_column, place)
        found = tuple(row.get(name) for name in texts)
        if not all(isinstance(text, str) for text in found):
            raise UserError(f"In {place} a text is {found!r}; expected strings in {', '.join(texts)}.")
        examples.append(Example(number, found, row.get(label) if label else None, place))
    return examples
