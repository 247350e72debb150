"""Cases, metrics and the simulated user of a description."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from burnish.core.cases import Case, Dataset, Split
from burnish.core.errors import BurnishError, ConfigError, PriceUnknown, Problem
from burnish.core.protocols import Metric, Role
from burnish.datasets.formats import read_some_cases
from burnish.metrics.eval_metrics import MetricItem
from burnish.metrics.factory import MetricMaking
from burnish.metrics.files import AgentMetric, MetricsRead, make_agent_metrics, read_metric_file
from burnish.metrics.judged import check_judges
from burnish.metrics.turns import ROLE as USER_SIMULATOR
from burnish.metrics.turns import NextRemark, TalkSoFar, user_simulator
from burnish.models.references import ModelRef
from burnish.models.roles import in_force
from burnish.runs.plugins import Building, StrategyPlugin
from burnish.runs.spec import CaseSet
from burnish.system.config_errors import near

_NEEDS_A_TRAJECTORY = ("tool_trajectory_avg_score", "llm_rubric_knowledge_recall")


def trajectory_problems(blocks: Sequence[AgentMetric]) -> list[Problem]:
    """The metrics that would look for tools nobody can know of."""
    return [
        Problem(
            where=block.metric_name,
            message=f"{block.kind} needs the tools an agent used, and here only replies are seen",
            remedy="measure replies: final_response_avg_score, llm_final_response, "
            "llm_rubric_response",
        )
        for block in blocks
        if isinstance(block, MetricItem) and block.kind in _NEEDS_A_TRAJECTORY
    ]


# -- Cases, metrics and the simulated user of a description ---------------------------------------


User: TypeAlias = Role[TalkSoFar, NextRemark]
"""Who plays the user in scenarios."""
_SHOWN = 3
"""Cases that are named where many are amiss: they mostly are in the same way."""
_SPLITS = {Split.TRAIN: "train", Split.HOLDOUT: "holdout", Split.TEST: "test"}
_FLAGS = {Split.TRAIN: "--train", Split.HOLDOUT: "--holdout"}


def read_splits(building: Building, strategy: StrategyPlugin) -> Dataset | None:
    """The cases that the description names; None, with what is wrong kept, where some lack.

    A strategy that only measures needs no holdout: it gets the cases to measure.
    """
    if not strategy.proposes:
        return Dataset(train=measured_cases(building))
    problems, data = building.problems, building.spec.data
    sets = {split: getattr(data, name) for split, name in _SPLITS.items()}
    for split, flag in _FLAGS.items():
        if not sets[split]:
            key = _SPLITS[split]
            ways = problems.ways(f"data.{key}", key=f"{key}: {key}.jsonl", flag=f"{flag} FILE")
            remedy = f"name a file of cases: {ways}"
            problems.add(f"data.{key}", f"there are no cases for {key}", remedy)
    if not (sets[Split.TRAIN] and sets[Split.HOLDOUT]):
        return None
    scenarios = building.spec.metrics.user_simulator is not None
    return problems.as_raised(lambda: _dataset(building, sets, scenarios=scenarios), None)


def measured_cases(building: Building, key: str = "train") -> tuple[Case, ...]:
    """What a measurement is over: the cases that are named for it, else those of train.

    `key` is where such a file has cases of its own. They are not read where others are named.
    """
    if building.cases is not None:
        return building.cases
    problems, data = building.problems, building.spec.data
    named = next((name for name in ("cases", "train") if getattr(data, name)), None)
    if named is None:
        remedy = f"name a file of cases: {key}: {key}.jsonl, or --cases FILE"
        problems.add(f"data.{key}", "there are no cases", remedy)
        return ()
    return read_case_sets(building, f"data.{named}", getattr(data, named))


def read_case_sets(building: Building, at: str, sets: Sequence[CaseSet]) -> tuple[Case, ...]:
    """The cases of some files, in the order in which they are named; what is wrong is kept."""

    def read() -> tuple[Case, ...]:
        return tuple(case for each in sets for case in _read_case_set(building, each))

    return building.problems.attempt(at, read, ())


def _dataset(
    building: Building, sets: dict[Split, tuple[CaseSet, ...]], *, scenarios: bool
) -> Dataset:
    """The cases of these files, in any format; everything that is wrong is said at once."""
    from burnish.projects.prompts.datasets import same_files, unfit_cases

    homes = {split: building.path(each[0].file) for split, each in sets.items() if len(each) == 1}
    problems = list(same_files(homes))
    cases: dict[Split, tuple[Case, ...]] = {}
    for split, files in sets.items():
        try:
            cases[split] = tuple(case for each in files for case in _read_case_set(building, each))
        except ConfigError as error:
            cases[split] = ()
            problems += error.problems
        except BurnishError as error:
            cases[split] = ()
            problem = Problem(where=split.value, message=error.message, remedy=error.remedy)
            problems.append(problem)
    dataset = Dataset(
        train=cases[Split.TRAIN], holdout=cases[Split.HOLDOUT], test=cases[Split.TEST]
    )
    problems = problems or list(unfit_cases(dataset, scenarios=scenarios))
    if problems:
        more = len(problems) - _SHOWN
        rest = [Problem(message=f"{more} more problems of this kind")] if more > 0 else []
        raise ConfigError([*problems[:_SHOWN], *rest])
    return dataset


def _read_case_set(building: Building, cases: CaseSet) -> tuple[Case, ...]:
    """The cases of a file, or those of them that are named, in that order."""
    path = building.path(cases.file)
    by_name = {case.id: case for case in read_some_cases(path)}
    names = cases.cases or tuple(by_name)
    problems = [
        Problem(where=str(path), message=f"no case '{name}'", remedy=near(name, list(by_name)))
        for name in names
        if name not in by_name
    ]
    if problems:
        raise ConfigError(problems)
    return tuple(by_name[name] for name in names)


def simulated_user(building: Building, cases: Sequence[Case]) -> User | None:
    """Who plays the user, where a case is a scenario."""
    scenarios = [case for case in cases if case.scenario is not None and case.recorded is None]
    block = building.spec.metrics.user_simulator
    if block is None:
        from burnish.targets.callables.target import no_player

        building.problems.found += [no_player(case) for case in scenarios[:1]]
        return None
    return named_user(building) if scenarios else None


def named_user(building: Building) -> User | None:
    """Who plays the user, where the description names somebody."""
    block = building.spec.metrics.user_simulator
    if block is None:
        return None

    def made() -> User:
        return _player(building, block.reference())

    return building.problems.attempt("metrics.user_simulator", made, None)


def _player(building: Building, ref: ModelRef) -> User:
    prompt = in_force(USER_SIMULATOR, building.folder)
    client = building.models.client(ref, prompt.settings)
    client.check()
    if building.spec.budget.max_usd is not None and not client.priced:
        raise PriceUnknown(f"max_usd is set, but the price of {ref.label} is not known")
    return user_simulator(client, prompt)


def read_metrics(
    building: Building,
    cases: Sequence[Case],
    *,
    replies_only: bool = False,
    folder: Path | None = None,
    own: MetricsRead | None = None,
    own_at: str = "metrics.blocks",
) -> tuple[Metric, ...]:
    """The metrics of the description.

    `own` are those of the target's own file, which stand at `own_at`: they count where the
    description has none. `replies_only` refuses those that look at tools, and `folder` is where
    graders lie if not beside the file. With no metric at all there is nothing to measure.
    """
    problems, spec = building.problems, building.spec.metrics
    described = own is None or spec.blocks or spec.file is not None
    at, read = "metrics.blocks" if described else own_at, metric_blocks(building, own)
    if replies_only:
        problems.attempt(at, lambda: _refuse_trajectories(read), None)
    before = len(problems.found)
    if own is not None and read.judge is None:
        read = replace(read, judge=own.judge)
    made = problems.attempt(at, lambda: _made(building, read, cases, folder), ())
    for metric in made:
        problems.attempt(at, partial(check_judges, [metric]), None)
    if not made and not read.blocks and len(problems.found) == before:
        remedy = "add one: metrics: [{type: standard, metric: equality}]"
        problems.add("metrics.blocks", "there are no metrics", remedy)
    return made


def metric_blocks(building: Building, own: MetricsRead | None = None) -> MetricsRead:
    """The metrics as they are written: in the description, in the file that it names, or `own`.

    Some of them, where the description names those that count.
    """
    problems, spec = building.problems, building.spec.metrics
    read = own if own is not None and not spec.blocks else MetricsRead(blocks=list(spec.blocks))
    if spec.file is not None:
        file = building.path(spec.file)
        if spec.blocks:
            problems.add("metrics.file", "give metrics or metrics_file, not both")
        read = problems.attempt("metrics.file", lambda: read_metric_file(file), read)
    return problems.attempt("metrics.names", lambda: read.only(spec.names), read)


def _made(
    building: Building, read: MetricsRead, cases: Sequence[Case], folder: Path | None
) -> tuple[Metric, ...]:
    judge = building.spec.metrics.judge
    ref = read.judge if judge is None else judge.reference()
    making = MetricMaking(models=building.models, folder=folder or building.folder, judge=ref)
    return make_agent_metrics(read.blocks, cases, making)


def _refuse_trajectories(read: MetricsRead) -> None:
    """Refuse metrics that would look for tools nobody can know of."""

    if problems := trajectory_problems(read.blocks):
        raise ConfigError(problems)
