"""Named pre-training recipes: default flags, in one phase or in several that one command runs in turn.

A recipe is an entry of RECIPES. Flags on the command line override it in every phase; num_train_steps is then the sum
over the phases, and records_dir a comma-separated list with a folder for each.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.errors import UserError
from bert_tf.runtime import files


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Settings that belong together.

    Attributes:
        summary: description and source.
        phases: {flag: value} for each; each starts from the weights of the previous one.
    """

    summary: str
    phases: tuple[Mapping[str, Any], ...]


def _lamb(**settings: Any) -> dict[str, Any]:
    """A phase with NVIDIA's schedule: decay from step 0, with power 0.5."""
    return {"optimizer": "lamb", "continuous_schedule": False, "decay_power": 0.5, "weight_decay": 0.01, **settings}


RECIPES = {
    "lamb_large_batch": Recipe(
        "LAMB with 65,536 rows of 128 tokens, then 32,768 of 512 (You et al. 2020; numbers of NVIDIA's "
        "PyTorch/LanguageModeling/BERT/scripts/configs/pretrain_config.sh)",
        (
            _lamb(
                max_seq_length=128,
                max_predictions_per_seq=20,
                train_batch_size=65536,
                learning_rate=6e-3,
                num_train_steps=7038,
                warmup_proportion=0.2843,
            ),
            _lamb(
                max_seq_length=512,
                max_predictions_per_seq=80,
                train_batch_size=32768,
                learning_rate=4e-3,
                num_train_steps=1563,
                warmup_proportion=0.128,
            ),
        ),
    ),
    "google": Recipe(
        "the defaults of google-research/bert",
        (
            {
                "train_batch_size": 32,
                "learning_rate": 5e-5,
                "optimizer": "adamw",
                "max_seq_length": 128,
                "dropout_prob": 0.1,
            },
        ),
    ),
    "budget": Recipe(
        "An hour on a few cores: the best settings in docs/results_history.md, masked LM only, no dropout, small "
        "batches, half of the tokens in the middle layers",
        (
            {
                "budget_minutes": 60.0,
                "next_sentence_weight": 0.0,
                "keep_pairs": True,
                "dropout_prob": 0.0,
                "token_dropping": 0.5,  # for three layers or more
                "train_batch_size": 16,
                "learning_rate": 1e-3,
                "warmup_proportion": 0.1,
                "optimizer": "adamw_corrected",
            },
        ),
    ),
}


def settings(name: str, scale: float) -> list[dict[str, Any]]:
    """{flag: value} of each phase of a recipe; [{}] without one.

    scale: factor of the batch sizes; the learning rate changes with its square root (You et al. 2020, section 4).
    """
    if not 0 < scale < math.inf:
        raise UserError(f"recipe_scale is {scale}; expected a number above 0.")
    if not name:
        return [{}]
    return [
        {
            **phase,
            "train_batch_size": max(1, round(phase["train_batch_size"] * scale)),
            "learning_rate": phase["learning_rate"] * math.sqrt(scale),
        }
        for phase in RECIPES[name].phases
    ]


def in_turn(phases: Sequence[Any]) -> list[Any]:
    """The flags of a run's phases, each with its own folders and steps, and the checkpoint of the previous one.

    phases: the flags of each phase as parsed. The last phase is the run in output_dir, the others are in subfolders
    phase_1 and so on.
    """
    if len(phases) == 1:
        return list(phases)
    records = _records_folders(phases[0].records_dir, len(phases))
    steps = _steps(phases)
    result, before = [], ""
    for number, options in enumerate(phases, 1):
        last = number == len(phases)
        folder = options.output_dir if last else f"{files.absolute(options.output_dir)}/phase_{number}"
        changes: dict[str, Any] = {"output_dir": folder, "records_dir": records[number - 1]}
        changes |= {"num_train_steps": steps[number - 1]}
        changes |= {} if last else {"do_export": False, "export_attention": False}
        options = options.replace(**changes)
        result.append(options.decided({"init_checkpoint": before}, "the phase before") if before else options)
        before = folder
    return result


def _records_folders(given: str, count: int) -> list[str]:
    folders = [part.strip() for part in given.split(",")] if given else [""] * count
    if len(folders) != count or (given and len(set(folders)) < count):
        raise UserError(
            f"records_dir is {given!r}; expected {count} comma-separated folders, one per phase of the recipe."
        )
    return folders


def _steps(phases: Sequence[Any]) -> list[int]:
    """The steps of each phase; if num_train_steps is specified, it is divided in their proportions."""
    own = [phase["num_train_steps"] for phase in RECIPES[phases[0].recipe].phases]
    if "num_train_steps" not in phases[0].given:
        return own
    total = phases[0].training.num_train_steps
    if total < len(phases):
        raise UserError(f"num_train_steps is {total}; expected a step for each of {len(phases)} phases.")
    ends = [min(total - len(own) + n, max(n, round(total * sum(own[:n]) / sum(own)))) for n in range(1, len(own))]
    return [end - start for start, end in zip([0, *ends], [*ends, total], strict=True)]
