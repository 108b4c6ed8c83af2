"""Messages on rows that have no text or no label, in tables and in the data of programs. Free of TensorFlow."""

import logging
from collections.abc import Sequence

from bert_tf.errors import UserError

MAX_NAMED = 5  # bad rows that are listed
log = logging.getLogger("bert_tf")


def report(source: str, reasons: Sequence[str], *, stops: bool, flag: str = "--bad_rows") -> None:
    """Warns of the rows that are left out; if it `stops`, raises UserError. Nothing without reasons.

    source: what the rows are of. reasons: for each row, such as "line 5 of reviews.csv has no label".
    flag: what `stops`, as the user writes it; "" if nothing does.
    """
    if not reasons:
        return
    more = len(reasons) - MAX_NAMED
    named = "; ".join(reasons[:MAX_NAMED]) + (f"; and {more} more" if more > 0 else "")
    rows, are = ("row", "is") if len(reasons) == 1 else ("rows", "are")
    if stops:
        raise UserError(f"{len(reasons)} {rows} {are} bad: {named}. Fix them or pass {flag}=skip.")
    refuses = f" ({flag}=stop refuses them)" if flag else ""
    log.warning("%d %s of %s %s left out%s: %s.", len(reasons), rows, source, are, refuses, named)
