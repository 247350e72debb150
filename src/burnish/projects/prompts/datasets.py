"""The cases of a search over prompts: train, holdout and the sealed test."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from burnish.core.cases import Case, Dataset, Split
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.evaluation.datasets.formats import read_some_cases
from burnish.targets.calling.target import no_player

_SHOWN = 3
"""Cases that are named where many are amiss: they mostly are in the same way."""


def read_dataset(
    train: Path, holdout: Path, test: Path | None = None, *, scenarios: bool = False
) -> Dataset:
    """The cases of these files, in any format; everything that is wrong is said at once.

    `scenarios` says that there is somebody to play the user of a case.
    """
    paths = {Split.TRAIN: train, Split.HOLDOUT: holdout, Split.TEST: test}
    cases: dict[Split, tuple[Case, ...]] = dict.fromkeys(Split, ())
    problems = list(same_files({split: path for split, path in paths.items() if path}))
    for split, path in paths.items():
        try:
            cases[split] = () if path is None else read_some_cases(path)
        except ConfigError as error:
            problems += error.problems
        except BurnishError as error:
            told = Problem(where=split.value, message=error.message, remedy=error.remedy)
            problems.append(told)
    dataset = Dataset(
        train=cases[Split.TRAIN], holdout=cases[Split.HOLDOUT], test=cases[Split.TEST]
    )
    if not problems:
        problems = list(unfit_cases(dataset, scenarios=scenarios))
    if problems:
        raise ConfigError(_few(problems))
    return dataset


def unfit_cases(dataset: Dataset, *, scenarios: bool) -> Iterator[Problem]:
    """What makes these cases unfit for a search over prompts."""
    if not dataset.holdout:
        yield Problem(where=Split.HOLDOUT.value, message="there are no cases")
    yield from dataset.problems()
    for split in Split:
        for case in dataset.cases(split):
            if case.recorded is not None:
                told = "this case is a recording, which no prompt can change"
                yield Problem(where=case.id, message=told, remedy="remove it")
            elif case.scenario is not None and not scenarios:
                yield no_player(case)


def same_files(paths: Mapping[Split, Path]) -> Iterator[Problem]:
    """One file twice, links followed: its cases would be in two splits."""
    homes: dict[str, Split] = {}
    for split, path in paths.items():
        first = homes.setdefault(os.path.realpath(path), split)
        if first is not split:
            told = f"both are the same file, {path}"
            remedy = "a case may be in one split only: `burnish data split` makes two files of one"
            yield Problem(where=f"{first.value}, {split.value}", message=told, remedy=remedy)


def _few(problems: list[Problem]) -> list[Problem]:
    kept = problems[:_SHOWN]
    if len(problems) > _SHOWN:
        more = f"{len(problems) - _SHOWN} more problems of this kind"
        kept.append(Problem(message=more))
    return kept
