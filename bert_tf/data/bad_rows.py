"""Messages about rows without a text or label, in tables and in data from programs. Free of TensorFlow."""

import logging
from collections.abc import Sequence

from bert_tf.errors import UserError

MAX_NAMED = 5  # bad rows to list
log = logging.getLogger("bert_tf")


def report(source: str, reasons: Sequence[str], *, stops: bool, flag: str = "--bad_rows") -> None:
    """Warns about skipped rows or, if `stops`, raises UserError. Does nothing without reasons.

    source: the source of the rows. reasons: one per row, such as "line 5 of reviews.csv has no label".
    flag: the flag for `stops` as the user writes it; "" if there is none.
    """
    if not reasons:
        return
    more = len(reasons) - MAX_NAMED
    named = "; ".join(reasons[:MAX_NAMED]) + (f"; and {more} more" if more > 0 else "")
    rows, are = ("row", "is") if len(reasons) == 1 else ("rows", "are")
    if stops:
        raise UserError(f"{len(reasons)} {rows} {are} bad: {named}. Fix them or pass {flag}=skip.")
    refuses = f" ({flag}=stop refuses them)" if flag else ""
    log.warning("%d %s of %s %s skipped%s: %s.", len(reasons), rows, source, are, refuses, named)
