"""The cases of an agent: train, holdout and the sealed test, with the files that go with them."""

from collections.abc import Sequence

from burnish.core.cases import Case, Dataset, Split
from burnish.core.errors import ConfigError, Problem
from burnish.projects.measures import read_case_sets
from burnish.runs.draft import Problems
from burnish.runs.parts import Building
from burnish.runs.spec import CaseSet
from burnish.targets.agent.attachments import check_attachments, pinned
from burnish.targets.agent.loading import LoadedAgent

_SHOWN = 3
"""Cases that are named where many are amiss: they mostly are in the same way."""


def read_dataset(building: Building, agent: LoadedAgent, notes: list[str]) -> Dataset:
    """The cases of each split, their files in view; what is wrong with them is kept."""
    problems, data = building.problems, building.spec.data
    with_holdout = building.spec.strategy.settings.uses_holdout
    before = len(problems.found)
    if with_holdout:
        _require_files(building)
    if data.train or with_holdout:
        train = _read(building, agent, "data.train", data.train)
    else:
        notes.append("train_cases_file is not given: the test cases of the agent are learned from")
        train = problems.as_raised(lambda: _with_files(agent.cases, agent), ())
    unread = len(problems.found) > before
    dataset = Dataset(
        train=train,
        holdout=_read(building, agent, "data.holdout", data.holdout),
        test=_read(building, agent, "data.test", data.test),
    )
    # That train is empty says nothing new where its file could not be read.
    amiss = [p for p in dataset.problems() if train or not unread or p.where != Split.TRAIN.value]
    problems.found += amiss[:_SHOWN]
    if len(amiss) > _SHOWN:
        problems.add("data", f"{len(amiss) - _SHOWN} more cases are amiss in the same way")
    if with_holdout:
        _require_enough(problems, dataset, building.spec.target.min_holdout_cases)
    return dataset


def names_cases(building: Building) -> bool:
    """Whether other cases are measured than the test cases of the agent."""
    return building.cases is not None or bool(building.spec.data.cases)


def read_measured(building: Building, agent: LoadedAgent) -> Dataset:
    """The cases to measure: those that are named for it, else the test cases of the agent."""
    problems, data = building.problems, building.spec.data
    before = len(problems.found)
    if building.cases is not None:
        cases = building.cases
    elif data.cases:
        cases = read_case_sets(building, "data.cases", data.cases)
    else:
        cases = agent.cases
    if not cases and len(problems.found) == before:
        file = agent.block.test_cases_file
        where = f"{agent.path.name} test_cases_file: {file}" if file else agent.path.name
        add = "some" if file else "test_cases or test_cases_file"
        remedy = f"add {add}, or give --cases FILE"
        problems.found.append(Problem(where=where, message="there are no cases", remedy=remedy))
    return Dataset(train=problems.as_raised(lambda: _with_files(cases, agent), ()))


def _require_files(building: Building) -> None:
    data, settings = building.spec.data, building.spec.strategy.settings
    missing = [
        name
        for name, sets in (
            ("train_cases_file", data.train),
            ("holdout_cases_file", data.holdout),
        )
        if not sets
    ]
    if missing:
        message = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not given: "
        message += "one set is learned from, the other decides, and both are needed"
        without = f"; or {settings.without_holdout}" if settings.without_holdout else ""
        building.problems.add(
            "data", message, f"`burnish data split` makes two files of one{without}"
        )


def _read(
    building: Building, agent: LoadedAgent, at: str, sets: Sequence[CaseSet]
) -> tuple[Case, ...]:
    """The cases of some files, in the order in which they are named."""

    read = read_case_sets(building, at, sets)
    return building.problems.attempt(at, lambda: _with_files(read, agent), read)


def _with_files(cases: Sequence[Case], agent: LoadedAgent) -> tuple[Case, ...]:
    """The cases with the content of the files that go with them."""
    if problems := check_attachments(cases, agent.folder):
        raise ConfigError(problems)
    return pinned(cases, agent.folder)


def _require_enough(problems: Problems, dataset: Dataset, least: int) -> None:
    count = len(dataset.holdout)
    if 0 < count < least:
        message = (
            f"{Split.HOLDOUT.value} has {count} cases, and {least} are needed at least: "
            "fewer cannot tell a gain from chance"
        )
        problems.add("data.holdout", message, "add cases, or lower min_holdout_cases")
