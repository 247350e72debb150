"""What a request says in the place of a graph file: settings, and which cases of which files."""

from pathlib import Path

from burnish.core.cases import Case, Dataset
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.datasets.formats import read_cases
from burnish.projects.backprop_checks import near
from burnish.projects.graph.graph_file import AskedBlock, GraphFile, NamedSet
from burnish.projects.loading import Given
from burnish.projects.overrides import Overrides
from burnish.projects.prompts.datasets import unfit_cases
from burnish.system import validate_config

SOURCE = "--request"


def asked_of(flags: Overrides) -> AskedBlock:
    """What the request says; nothing where there is none."""
    return validate_config(flags.asked or {}, AskedBlock, source=SOURCE)


def with_asked(data: Json, asked: AskedBlock) -> Json:
    """The file's data with the request's settings in it."""
    if not isinstance(data, dict) or not asked.optimizer:
        return data
    own = data.get("optimizer")
    block: dict[str, Json] = {**(own if isinstance(own, dict) else {}), **asked.optimizer}
    return {**data, "optimizer": block}


def asked_dataset(given: Given, file: GraphFile, asked: AskedBlock) -> Dataset:
    """The cases that the request names, in its order; everything that is wrong is said at once."""
    problems: list[Problem] = []
    sealed = given.flags.sealed_cases or (file.sealed and str(given.folder / file.sealed))
    dataset = Dataset(
        train=_cases(asked.train, problems),
        holdout=_cases(asked.holdout, problems),
        test=read_cases(Path(sealed)).cases if sealed else (),
    )
    if not problems:
        problems += unfit_cases(dataset, scenarios=file.user_simulator is not None)
    if problems:
        raise ConfigError(problems)
    return dataset


def _cases(sets: tuple[NamedSet, ...], problems: list[Problem]) -> tuple[Case, ...]:
    found: list[Case] = []
    for each in sets:
        cases = {case.id: case for case in read_cases(Path(each.file)).cases}
        wanted = each.cases or tuple(cases)
        problems += [
            Problem(where=each.file, message=f"no case '{name}'", remedy=near(name, list(cases)))
            for name in wanted
            if name not in cases
        ]
        found += [cases[name] for name in wanted if name in cases]
    return tuple(found)
