"""What makes cases unfit for a search over prompts."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from burnish.core.cases import Dataset, Split
from burnish.core.errors import Problem
from burnish.targets.callables.target import no_player


def unfit_cases(dataset: Dataset, *, scenarios: bool) -> Iterator[Problem]:
    """What makes these cases unfit for a search over prompts."""
    if not dataset.holdout:
        yield Problem(where=Split.HOLDOUT.value, message="there are no cases")
    yield from dataset.problems()
    for split in Split:
        for case in dataset.cases(split):
            if case.recorded is not None:
                message = "this case is a recording, which no prompt can change"
                yield Problem(where=case.id, message=message, remedy="remove it")
            elif case.scenario is not None and not scenarios:
                yield no_player(case)


def same_files(paths: Mapping[Split, Path]) -> Iterator[Problem]:
    """One file twice, links followed: its cases would be in two splits."""
    homes: dict[str, Split] = {}
    for split, path in paths.items():
        first = homes.setdefault(os.path.realpath(path), split)
        if first is not split:
            message = f"both are the same file, {path}"
            remedy = "a case may be in one split only: `burnish data split` makes two files of one"
            yield Problem(where=f"{first.value}, {split.value}", message=message, remedy=remedy)
