"""Files of cases as project files name them: train, holdout and the sealed test."""

from pathlib import Path

from burnish.core.cases import Dataset
from burnish.projects.agent_blocks import CalledFile, Text
from burnish.projects.gathering import Gathering
from burnish.projects.loading import Given
from burnish.projects.prompts.datasets import read_dataset


class SplitFile(CalledFile):
    """A project file that learns from some cases and decides on others."""

    train: Text | None = None
    """Files of cases, in any format, from the folder of the file."""
    holdout: Text | None = None
    sealed: Text | None = None


def splits_of(given: Given, file: SplitFile, wrong: Gathering) -> Dataset | None:
    """The cases that flags or the file name; None, with what is wrong kept, where some lack."""
    flags = given.flags
    sealed = flags.choose("sealed_cases", _beside(given, file.sealed), given.environment, None)
    said = {
        "train": flags.train_cases or _beside(given, file.train),
        "holdout": flags.holdout_cases or _beside(given, file.holdout),
        "sealed": sealed,
    }
    for key, flag in (("train", "--train"), ("holdout", "--val")):
        if said[key] is None:
            remedy = f"name a file of cases: {key}: {key}.jsonl, or {flag} FILE"
            wrong.add((key,), f"there are no cases for {key}", remedy)
    train, holdout, test = (None if path is None else Path(path) for path in said.values())
    if train is None or holdout is None:
        return None
    players = file.user_simulator is not None
    return wrong.as_told(lambda: read_dataset(train, holdout, test, scenarios=players), None)


def _beside(given: Given, name: str | None) -> str | None:
    return None if name is None else str(given.folder / name)
