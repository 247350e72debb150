"""Cases, metrics and the simulated user of a description, and the cases of a stored run."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias, cast

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, PriceUnknown, Problem
from burnish.core.protocols import Metric, Role
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.columns import columns_words
from burnish.datasets.formats import read_cases, read_some_cases
from burnish.metrics.eval_metrics import MetricItem
from burnish.metrics.files import AgentMetric, MetricsRead, make_agent_metrics, read_metric_file
from burnish.metrics.judged import check_judges
from burnish.metrics.judges import MetricMaking
from burnish.metrics.turns import ROLE as USER_SIMULATOR
from burnish.metrics.turns import NextRemark, TalkSoFar, user_simulator
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import in_force
from burnish.runs.directory import RunRecord, known_runs
from burnish.runs.plugins import Building, StrategyPlugin
from burnish.runs.spec import CaseSet
from burnish.system.config import near


def stored_cases(run: RunRecord) -> Dataset | None:
    """The cases as their files have them now; None if the run names no file that can be read.

    Nothing is built or run for this. A folder from elsewhere may name any file of this machine,
    so only runs of its index are looked up.
    """
    spec = run.header.project.spec
    if not spec or run.folder.resolve() not in {folder.resolve() for folder in known_runs()}:
        return None
    data, source = _mapping(spec.get("data")), _mapping(spec.get("source"))
    home = Path(str(source.get("folder") or run.folder))
    columns = {name: str(data.get(name) or "") for name in ("input", "expected")}
    splits = {split: _read(data.get(split.value), home, columns) for split in Split}
    if not splits[Split.TRAIN]:
        # Agent files have their cases inside, unless they name a file.
        splits[Split.TRAIN] = _read(data.get("cases") or source.get("file"), home, columns)
    if not any(splits.values()):
        return None
    return Dataset(
        train=splits[Split.TRAIN], holdout=splits[Split.HOLDOUT], test=splits[Split.TEST]
    )


def _read(sets: Json, home: Path, columns: Mapping[str, str]) -> tuple[Case, ...]:
    named: Sequence[Json] = sets if isinstance(sets, list) else [sets]
    cases: list[Case] = []
    for each in named:
        file = each.get("file") if isinstance(each, dict) else each
        if isinstance(file, str) and file:
            with suppress(BurnishError, OSError):
                cases += read_cases(home / file, **columns).cases
    return tuple(cases)


def _mapping(value: Json) -> Mapping[str, Json]:
    return cast("Mapping[str, Json]", value) if isinstance(value, dict) else {}


def trajectory_problems(blocks: Sequence[AgentMetric]) -> list[Problem]:
    """Problems with metrics that need tools nobody can see."""
    kinds = ("tool_trajectory_avg_score", "llm_rubric_knowledge_recall")
    return [
        Problem(
            where=block.metric_name,
            message=f"{block.kind} needs the tools an agent used, but only replies are visible",
            remedy="measure replies: final_response_avg_score, llm_final_response, "
            "llm_rubric_response",
        )
        for block in blocks
        if isinstance(block, MetricItem) and block.kind in kinds
    ]


User: TypeAlias = Role[TalkSoFar, NextRemark]
"""Who plays the user in scenarios."""
_SPLITS = {Split.TRAIN: "train", Split.HOLDOUT: "holdout", Split.TEST: "test"}


def read_splits(building: Building, strategy: StrategyPlugin) -> Dataset | None:
    """The cases that the description names; None if some are missing, with the problems recorded.

    A strategy that only measures needs no holdout: it gets the cases to measure.
    """
    if not strategy.proposes:
        return Dataset(train=measured_cases(building))
    problems, data = building.problems, building.spec.data
    if (live := building.live.dataset) is not None:
        problems.found += list(unfit_cases(live, scenarios=_plays_users(building)))[:3]
        return live
    sets = {split: getattr(data, name) for split, name in _SPLITS.items()}
    for split in (Split.TRAIN, Split.HOLDOUT):
        if not sets[split]:
            key = _SPLITS[split]
            ways = problems.ways(f"data.{key}", key=f"{key}: {key}.jsonl", flag=f"--{key} FILE")
            remedy = f"name a file of cases: {ways}"
            problems.add(f"data.{key}", f"there are no cases for {key}", remedy)
    if not (sets[Split.TRAIN] and sets[Split.HOLDOUT]):
        return None
    scenarios = _plays_users(building)
    return problems.as_raised(lambda: _dataset(building, sets, scenarios=scenarios), None)


def _plays_users(building: Building) -> bool:
    return building.spec.metrics.user_simulator is not None


def measured_cases(building: Building, key: str = "train") -> tuple[Case, ...]:
    """The cases to measure: those named for it, otherwise those of train.

    `key` is the key of the file that names them.
    """
    if building.live.dataset is not None:
        return building.live.dataset.train
    problems, data = building.problems, building.spec.data
    named = next((name for name in ("cases", "train") if getattr(data, name)), None)
    if named is None:
        remedy = f"name a file of cases: {key}: {key}.jsonl, or --cases FILE"
        problems.add(f"data.{key}", "there are no cases", remedy)
        return ()
    return read_case_sets(building, f"data.{named}", getattr(data, named))


def read_case_sets(building: Building, at: str, sets: Sequence[CaseSet]) -> tuple[Case, ...]:
    """The cases of some files, in order; problems are recorded."""

    def read() -> tuple[Case, ...]:
        return tuple(case for each in sets for case in _read_case_set(building, each))

    return building.problems.attempt(at, read, ())


def _dataset(
    building: Building, sets: dict[Split, tuple[CaseSet, ...]], *, scenarios: bool
) -> Dataset:
    homes = {split: building.path(each[0].file) for split, each in sets.items() if len(each) == 1}
    problems = list(_same_files(homes))
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
        # Where many cases have a problem, they mostly have the same one.
        more = len(problems) - 3
        rest = [Problem(message=f"{more} more problems of this kind")] if more > 0 else []
        raise ConfigError([*problems[:3], *rest])
    return dataset


def read_case_file(building: Building, path: Path) -> tuple[Case, ...]:
    """The cases of a file; which columns were taken is noted."""
    file = read_some_cases(path, **building.spec.data.columns)
    note_columns(building, file, path.name)
    return file.cases


def note_columns(building: Building, file: CaseFile, name: str) -> None:
    """Note which columns of a file were taken, if their names alone do not tell."""
    if file.columns is not None and (words := columns_words(file, name)):
        # Most often all files of a run have the same ones.
        building.columns.setdefault(file.columns, words)


def _read_case_set(building: Building, cases: CaseSet) -> tuple[Case, ...]:
    path = building.path(cases.file)
    by_name = {case.id: case for case in read_case_file(building, path)}
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
    """The simulated user, if a case is a scenario."""
    scenarios = [case for case in cases if case.scenario is not None and case.recorded is None]
    block = building.spec.metrics.user_simulator
    if block is None:
        from burnish.targets.callables.target import no_player

        building.problems.found += [no_player(case) for case in scenarios[:1]]
        return None
    return named_user(building) if scenarios else None


def named_user(building: Building) -> User | None:
    """The simulated user that the description names, if any."""
    block = building.spec.metrics.user_simulator
    if block is None:
        return None

    def user() -> User:
        ref, prompt = block.reference(), in_force(USER_SIMULATOR, building.folder)
        client = building.models.client(ref, prompt.settings, role=USER_SIMULATOR)
        client.check()
        if building.spec.budget.max_usd is not None and not client.priced:
            raise PriceUnknown(f"max_usd is set, but the price of {ref.label} is unknown")
        return user_simulator(client, prompt)

    return building.problems.attempt("metrics.user_simulator", user, None)


def player_for(cases: Sequence[Case], named: ModelRef | None, models: Models) -> User | None:
    """The simulated user, if a case is a scenario."""
    scenarios = [case for case in cases if case.scenario is not None and case.recorded is None]
    if not scenarios:
        return None
    if named is None:
        from burnish.targets.callables.target import no_player

        raise ConfigError([no_player(scenarios[0])])
    prompt = in_force(USER_SIMULATOR, Path.cwd())
    client = models.client(named, prompt.settings, role=USER_SIMULATOR)
    client.check()
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

    `own` are those of the target's own file, at `own_at`, used if the description has none.
    `replies_only` rejects those that look at tools; `folder` is where graders are, if not next to
    the file. It is a problem if there are no metrics.
    """
    if building.live.metrics:
        return building.live.metrics
    problems, spec = building.problems, building.spec.metrics
    described = own is None or spec.blocks or spec.file is not None
    at, read = "metrics.blocks" if described else own_at, metric_blocks(building, own)
    if replies_only:
        problems.attempt(at, lambda: _refuse_trajectories(read.blocks), None)
    before = len(problems.found)

    def metrics() -> tuple[Metric, ...]:
        judge = read.judge or (own.judge if own else None)
        making = MetricMaking(
            models=building.models,
            folder=folder or building.folder,
            judge=judge if spec.judge is None else spec.judge.reference(),
        )
        return make_agent_metrics(read.blocks, cases, making)

    made = problems.attempt(at, metrics, ())
    for metric in made:
        problems.attempt(at, partial(check_judges, [metric]), None)
    if not made and not read.blocks and len(problems.found) == before:
        remedy = "add one: metrics: [{type: standard, metric: equality}]"
        problems.add("metrics.blocks", "there are no metrics", remedy)
    return made


def metric_blocks(building: Building, own: MetricsRead | None = None) -> MetricsRead:
    """The metrics as written: in the description, in the file that it names, or `own`.

    Only those that the description names, if it names some.
    """
    problems, spec = building.problems, building.spec.metrics
    read = own if own is not None and not spec.blocks else MetricsRead(blocks=list(spec.blocks))
    if spec.file is not None:
        file = building.path(spec.file)
        if spec.blocks:
            problems.add("metrics.file", "give metrics or metrics_file, not both")
        read = problems.attempt("metrics.file", lambda: read_metric_file(file), read)
    return problems.attempt("metrics.names", lambda: read.only(spec.names), read)


def _refuse_trajectories(blocks: Sequence[AgentMetric]) -> None:
    if problems := trajectory_problems(blocks):
        raise ConfigError(problems)


def unfit_cases(dataset: Dataset, *, scenarios: bool) -> Iterator[Problem]:
    """What makes these cases unfit for a search over prompts."""
    from burnish.targets.callables.target import no_player  # other targets do without

    if not dataset.holdout:
        yield Problem(where=Split.HOLDOUT.value, message="there are no cases")
    yield from dataset.problems()
    for case in (case for split in Split for case in dataset.cases(split)):
        if case.recorded is not None:
            message = "this case is a recording, so prompts cannot change it"
            yield Problem(where=case.id, message=message, remedy="remove it")
        elif case.scenario is not None and not scenarios:
            yield no_player(case)


def _same_files(paths: Mapping[Split, Path]) -> Iterator[Problem]:
    """One file in two splits, links followed."""
    homes: dict[str, Split] = {}
    for split, path in paths.items():
        first = homes.setdefault(os.path.realpath(path), split)
        if first is not split:
            message = f"both name the same file, {path}"
            remedy = "a case can be in one split only: `burnish data split` splits a file in two"
            yield Problem(where=f"{first.value}, {split.value}", message=message, remedy=remedy)
