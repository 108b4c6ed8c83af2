"""The end of every recipe: report, model card, and what to do next."""

import os
import shlex

from bert_tf.reports import model_card, report
from bert_tf.runtime import files
from bert_tf.training.run_directory import RunFolder

PRETRAINED = ("bert-tf finetune --init_checkpoint={run} --task_name=table --data_dir=DATA", "on your labels")
SERVE = ("bert-tf serve {run}", "an HTTP server with a page to try it")


def finish(folder: RunFolder) -> None:
    """Writes report and model card of a finished run, and prints where they are and which commands come next."""
    folder.finish()
    model_card.write_of_run(folder.path, [folder.file("export")])
    print(f"Results are in {folder.path}; the report is {report.write_report(folder.path)}.")
    print(*next_commands(folder.path), sep="\n", flush=True)


def next_commands(path: str) -> list[str]:
    """Lines with commands for a model in the folder of a run, ready to type; [] if it has no export."""
    if not files.exists(os.path.join(path, "export", "saved_model.pb")):
        return [f"Next: {_command('bert-tf export {run}', path)}"]
    kind = model_card.kind_of(path)
    use = model_card.USES.get(kind or "", model_card.MASK_FILLING)
    commands = [(f"bert-tf predict {{run}} {use.options}", f"it {use.phrase}"), SERVE]
    if kind is None:
        commands.append(PRETRAINED)
    typed = [(_command(command, path), purpose) for command, purpose in commands]
    width = max(len(command) for command, _ in typed)
    return ["Next:", *(f"  {command:{width}}  # {purpose}" for command, purpose in typed)]


def _command(command: str, path: str) -> str:
    return command.format(run=shlex.quote(path))
