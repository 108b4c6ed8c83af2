"""The end of every recipe: report, model card, and what to do next."""

import shlex

from bert_tf.reports import model_card, report
from bert_tf.training.run_directory import RunFolder


def finish(folder: RunFolder) -> None:
    """Writes report and model card of a finished run, and prints where they are and which commands come next."""
    folder.finish()
    model_card.write_of_run(folder.path, [folder.file("export")])
    print(f"Results are in {folder.path}; the report is {report.write_report(folder.path)}.")
    print(*next_commands(folder.path), sep="\n", flush=True)


def next_commands(path: str) -> list[str]:
    """Lines with commands for the model in the folder of a run, ready to type."""
    run = shlex.quote(path)
    commands = model_card.commands_of(path, path) or [(f"bert-tf export {run}", "writes a model that takes strings")]
    if model_card.kind_of(path) is None:
        commands.append((f"bert-tf finetune --init_checkpoint={run} ...", "trains it on your labels"))
    width = max(len(command) for command, _ in commands)
    return ["Next:", *(f"  {command:{width}}  # {purpose}" for command, purpose in commands)]
