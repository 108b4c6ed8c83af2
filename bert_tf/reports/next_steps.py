"""The end of a run: report, model card, and suggestions for using the model."""

import shlex

from bert_tf import heads
from bert_tf.reports import model_card, report, usage
from bert_tf.training.run_directory import RunFolder


def finish(folder: RunFolder, *, for_program: bool) -> None:
    """Writes report and model card of a finished run, and prints their places and the next steps.

    These are commands, or for a program calls of the Python API.
    """
    folder.finish()
    model_card.write_of_run(folder.path, [folder.file("export")])
    print(f"Results are in {folder.path}; the report is {report.write_report(folder.path)}.")
    steps = next_calls(folder.path) if for_program else next_commands(folder.path)
    width = max(len(step) for step, _ in steps)
    print("Next:", *(f"  {step:{width}}  # {purpose}" for step, purpose in steps), sep="\n", flush=True)


def next_commands(path: str) -> list[tuple[str, str]]:
    """[(command, its purpose)] for the model in a run folder, ready to type."""
    run = shlex.quote(path)
    commands = usage.commands_of(path, path) or [(f"bert-tf export {run}", "writes a model that takes strings")]
    if usage.kind_of(path) is None:
        commands.append((f"bert-tf finetune --init_checkpoint={run} ...", "trains it on your labels"))
    return commands


def next_calls(path: str) -> list[tuple[str, str]]:
    """[(call of the Python API, its purpose)] for the model in a run folder."""
    kind = usage.kind_of(path)
    use = heads.shown(kind)
    calls = [
        (f"bert = bert_tf.load({path!r})", "reads the model"),
        (f"bert.{usage.call_of(path)}", f"it {use.wording().phrase}"),
    ]
    if kind is None:
        calls.append((f"bert_tf.fine_tune(..., init_checkpoint={path!r})", "trains it on your labels"))
    return calls
