"""How to use a run's model: commands and calls of the Python API, derived from its files."""

import os
import shlex

from bert_tf import heads
from bert_tf.heads.vectors import Vectors
from bert_tf.reports import report
from bert_tf.runtime import head_records
from bert_tf.runtime.json_files import read_object

# Options of `bert-tf predict` for an export's inputs.
EXAMPLES = {
    "text": '--text="A text."',
    "text_a": '--text="A text."',
    "text_b": '--text_b="Another text."',
    "context": '--text="Ann sings in Ulm."',
    "question": '--question="Where does Ann sing?"',
    "choices": '--choice="A choice."',
}
PAIR = '("A text.")', '(("A text.", "Another text."))'  # arguments for a task with two texts


def commands_of(folder: str, name: str) -> list[tuple[str, str]]:
    """[(command, its purpose)] for a run's model, referred to by `name`; [] if the run has no export."""
    about = read_object(os.path.join(folder, "export", "about.json"))
    if not about:
        return []
    kind, run = kind_of(folder), shlex.quote(name)
    use = heads.shown(kind)
    options: list[str] = []
    for key, count in report.dictionary(about.get("inputs")).items():
        options += [EXAMPLES.get(key, "")] * (count or 1)
    if kind is None:
        options = ['--text="The [MASK] is open."']
    if use is Vectors:
        own = f'bert-tf extract {run} --unit=sentence --text="A text."'
    else:
        own = f"bert-tf predict {run} {' '.join(options)}"
    return [(own, f"it {use.wording().phrase}"), (f"bert-tf serve {run}", "an HTTP server, with a page to try it")]


def call_of(folder: str) -> str:
    """The call of the Python API for a run's model, such as 'predict("A text.").label'."""
    about = read_object(os.path.join(folder, "export", "about.json"))
    call = heads.shown(kind_of(folder)).wording().call
    return call.replace(*PAIR) if "text_b" in report.dictionary(about.get("inputs")) else call


def kind_of(folder: str) -> str | None:
    """The head kind of a run, as in task.json; None if it has only pre-training heads."""
    return head_records.read_task(folder).get("kind")
