"""What is passed to a call of a program, read: agent, texts, cases, metrics and limits.

The calls are `burnish.optimize`, `burnish.optimize_text` and `burnish.evaluate`.
"""

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeAlias, TypeGuard, TypeVar, cast, get_args, overload

from pydantic import JsonValue

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem, WrongArgument
from burnish.core.formatting import listed
from burnish.core.protocols import Metric, Target
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.columns import cases_of_rows, columns_words
from burnish.datasets.formats import read_cases
from burnish.datasets.splits import divided
from burnish.journal.limits import Budget
from burnish.metrics.eval_factory import metric_kinds
from burnish.metrics.files import (
    MetricList,
    RagBlock,
    StandardName,
    make_agent_metrics,
    read_metric_file,
)
from burnish.metrics.functions import FunctionMetric
from burnish.metrics.judges import MetricMaking, check_names
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.called_agents import KNOWN, FrameworkBlock, loaded_agent, target_for
from burnish.projects.evaluation_setup import User
from burnish.runs.build import RunDescription
from burnish.runs.draft import Places
from burnish.runs.plugins import strategy_plugin, target_plugin
from burnish.runs.spec import DEFAULT_CONCURRENCY, spec_type
from burnish.system import validate_config
from burnish.system.config import near
from burnish.system.shutdown import run_to_end
from burnish.system.user_code import is_reference
from burnish.targets.callables import CallableTarget
from burnish.targets.callables.functions import FunctionTarget
from burnish.targets.frameworks.adapters import FrameworkTarget

P = ParamSpec("P")
T = TypeVar("T")

Texts: TypeAlias = str | Mapping[str, str]
Tracker: TypeAlias = Literal["mlflow", "wandb", "otel"]
Track: TypeAlias = Tracker | Sequence[Tracker]
Cases: TypeAlias = Iterable[Any] | str | Path
MetricChoice: TypeAlias = (
    str | Path | Metric | Mapping[str, Json] | Callable[..., Any] | Sequence[Any]
)


def blocking(
    asynchronous: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """A function with the arguments of an asynchronous one, that waits for it.

    For an argument that is misspelled, the error names the nearest.
    """
    own = signature(asynchronous)
    names = list(own.parameters)

    def decorate(documented: Callable[..., T]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for name in kwargs:
                if name not in names:
                    message = f"{documented.__name__}() has no argument '{name}'"
                    raise WrongArgument([Problem(message=message, remedy=near(name, names))])
            try:
                own.bind(*args, **kwargs)
            except TypeError as error:
                remedy = "all but the first two are passed by name, such as cases=…"
                message = f"{documented.__name__}(): {error}"
                raise WrongArgument([Problem(message=message, remedy=remedy)]) from None
            return run_to_end(asynchronous(*args, **kwargs))

        call.__signature__ = own  # pyright: ignore[reportFunctionMemberAccess]
        call.__name__ = call.__qualname__ = documented.__name__
        call.__module__, call.__doc__ = documented.__module__, documented.__doc__
        return call

    return decorate


# -- Agents and their texts -----------------------------------------------------------------------


def file_of(agent: object, texts: Texts | None) -> Path | None:
    """The file, or `module:name`, that describes the agent; None if the agent is an object."""
    if not isinstance(agent, str | Path):
        return None
    if texts is not None and is_reference(str(agent)):
        return None
    if not Path(agent).exists() and not is_reference(str(agent)):
        remedy = "pass a function, the path of a file, or module:name of an agent"
        raise WrongArgument.of("agent", f"there is no file {agent}", remedy)
    if texts is not None:
        message = f"{agent} is a file, which has its own texts"
        raise WrongArgument.of("texts", message, "leave them out")
    return Path(agent)


def target_of(
    agent: Any,
    texts: Texts | None,
    user: User | None = None,
    *,
    asked: str = "",
    is_rewritten: bool = False,
) -> Target:
    """What an agent is as a target; `user` plays the user in scenarios.

    `asked` is the column of the input. One that `is_rewritten` needs texts.
    """
    name = agent if isinstance(agent, str) else ""
    if isinstance(agent, str):
        if texts is None:
            return FrameworkBlock(call=agent).made(Path.cwd(), user)
        agent, _ = loaded_agent(agent, Path.cwd())
    if is_target(agent):
        return _without_texts(agent, texts)
    if (framework := target_for(agent, user)) is not None:
        return _without_texts(framework, texts)
    if not callable(agent):
        message = f"{type(agent).__module__}.{type(agent).__qualname__} cannot be called"
        raise WrongArgument.of("agent", message, f"pass a function; {KNOWN}, or a file")
    if texts is not None:
        return FunctionTarget.of(agent, texts, asked=asked, user=user)
    if is_rewritten:
        remedy = 'name them: {"instructions": "Answer."}'
        raise WrongArgument.of("texts", "there is nothing that may be rewritten", remedy)
    try:
        return CallableTarget(agent=agent, user=user, name=name)
    except ConfigError as error:
        remedy = 'pass its texts, such as {"instructions": "Answer."}, if it has any'
        raise WrongArgument.of("texts", error.message, remedy) from None


def _without_texts(target: Target, texts: Texts | None) -> Target:
    if texts is not None:
        message = "this agent holds its texts itself"
        names = ", ".join(surface.id for surface in target.surfaces) or "none"
        raise WrongArgument.of("texts", message, f"leave them out; it has: {names}")
    return target


def is_target(agent: object) -> TypeGuard[Target]:
    """Whether an object is a target itself."""
    members = ("description", "surfaces", "baseline", "run", "estimate")
    return not isinstance(agent, type) and all(hasattr(agent, name) for name in members)


@overload
def reference_of(model: str | ModelRef) -> ModelRef: ...
@overload
def reference_of(model: str | ModelRef | None) -> ModelRef | None: ...
def reference_of(model: str | ModelRef | None) -> ModelRef | None:
    """A model from its name."""
    return ModelRef.parse(model) if isinstance(model, str) else model


def cases_in(dataset: Dataset) -> list[Case]:
    """The cases of every split."""
    return [case for split in Split for case in dataset.cases(split)]


def check_columns(target: Target, cases: Sequence[Case]) -> None:
    """Check that every parameter of a function gets something in every case."""
    if isinstance(target, FunctionTarget):
        problems = target.parameters.problems(target.title, cases)
        if problems:
            raise WrongArgument(problems)


# -- Texts, cases and limits -----------------------------------------------------------------------


def read_texts(texts: object) -> Texts | None:
    if texts is None or isinstance(texts, str):
        return texts
    if not isinstance(texts, Mapping):
        message = f"expected a text, or texts by name, found {type(texts).__name__}"
        raise WrongArgument.of("texts", message, "cases are passed by name: cases=…")
    named = cast("Mapping[object, object]", texts)
    are_texts = (isinstance(key, str) and isinstance(text, str) for key, text in named.items())
    if not named or not all(are_texts):
        what = "each must be a text with a name" if named else "there is no text"
        raise WrongArgument.of("texts", what, 'such as {"instructions": "Answer."}')
    return cast("Mapping[str, str]", texts)


@dataclass(frozen=True)
class CallCases:
    """The cases of a call: all together, or already divided."""

    whole: Cases | None
    splits: Mapping[str, Cases | None]
    input: str = ""
    expected: str = ""

    @property
    def any(self) -> bool:
        """Whether the call brings any cases."""
        return bool(self._given)

    @property
    def _given(self) -> dict[str, Cases]:
        every = {"cases": self.whole, **self.splits}
        return {name: cases for name, cases in every.items() if cases is not None}

    def files(self, *, whole: bool) -> dict[str, str]:
        """The files, by the name of their flag; none if others are rows.

        `whole` says whether there is a flag for cases that are not divided.
        """
        paths = {
            n: str(Path(c).absolute()) for n, c in self._given.items() if isinstance(c, str | Path)
        }
        named = self.input or self.expected or ("cases" in paths and not whole)
        return {} if named or len(paths) < len(self._given) else paths

    def dataset(self, seed: int) -> tuple[Dataset, tuple[str, ...]]:
        """The cases by split, and notes about their division."""
        given = {name: cases for name, cases in self.splits.items() if cases is not None}
        if self.whole is not None and given:
            message = f"pass cases, or {listed(list(given))}, not both"
            raise WrongArgument.of("cases", message)
        if self.whole is not None:
            file = self.read("cases", self.whole)
            made = divided(file.cases, seed=seed)
            return made.dataset, (*columns_note("cases", file), *made.notes)
        if missing := [name for name in ("train", "holdout") if name not in given]:
            what = "there are no cases" if len(missing) == 2 else f"there is no {missing[0]}"
            raise WrongArgument.of("cases", what, "pass cases=, or train= and holdout=")
        read = {name: self.read(name, each) for name, each in given.items()}
        notes = dict.fromkeys(
            note for name, file in read.items() for note in columns_note(name, file)
        )
        return Dataset(**{name: file.cases for name, file in read.items()}), tuple(notes)

    def read(self, name: str, cases: Cases) -> CaseFile:
        """The cases of one argument, and the columns that were taken."""
        if isinstance(cases, str | Path):
            return read_cases(Path(cases), input=self.input, expected=self.expected)
        rows: Any = cases
        if not isinstance(rows, Iterable) or isinstance(rows, Mapping):
            message = f"expected rows or a file, found {type(cast('object', rows)).__name__}"
            raise WrongArgument.of(name, message, 'such as [{"input": "2 + 2", "expected": "4"}]')
        file = cases_of_rows(
            cast("Iterable[object]", rows), source=name, input=self.input, expected=self.expected
        )
        if not file.cases:
            raise WrongArgument.of(name, "there are no rows", "pass some, or a file that has them")
        return file


def columns_note(name: str, file: CaseFile) -> tuple[str, ...]:
    """Which columns were taken, if their names alone do not tell."""
    return tuple(filter(None, [columns_words(file, name)]))


_AMOUNT = re.compile(r"(?P<usd>\$)?\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]*)", re.IGNORECASE)
_MINUTES = {"s": 1 / 60, "sec": 1 / 60, "min": 1.0, "minutes": 1.0, "h": 60.0, "hours": 60.0}


def budget_keys(budget: int | str | Budget) -> dict[str, JsonValue]:
    """The limits that a budget stands for."""
    if isinstance(budget, Budget):
        return {name: value for name, value in vars(budget).items() if value}
    if isinstance(budget, int) and not isinstance(budget, bool) and budget > 0:
        return {"max_metric_calls": budget}
    match = _AMOUNT.fullmatch(budget.strip()) if isinstance(budget, str) else None
    if match is not None and float(match["number"]) > 0:
        number, unit = float(match["number"]), match["unit"].lower()
        if match["usd"] and not unit:
            return {"max_usd": number}
        if not match["usd"] and unit in _MINUTES:
            return {"max_minutes": number * _MINUTES[unit]}
    message = f"{budget!r} is no budget"
    raise WrongArgument.of("budget", message, 'such as 300 (runs of cases), "$2" or "30 min"')


def trackers_of(track: Track | None) -> list[str] | None:
    """The systems that show the run."""
    if track is None:
        return None
    names: list[str] = [track] if isinstance(track, str) else [*track]
    known = get_args(Tracker)
    if others := [name for name in names if name not in known]:
        raise WrongArgument.of("track", f"'{others[0]}' is not known", near(str(others[0]), known))
    return names


def describe_call(
    target: Target,
    spec: Mapping[str, JsonValue],
    *,
    seed: int,
    concurrency: int | None,
    track: Track | None = None,
) -> RunDescription:
    """The description of a run whose target is an object."""
    strategy = cast("Mapping[str, Any]", spec["strategy"])["name"]
    kind = "framework" if isinstance(target, FrameworkTarget) else "function"
    name = _name_of(target)
    data: dict[str, Any] = {
        **spec,
        "source": {"name": name, "folder": str(Path.cwd())},
        "target": {"kind": kind, **({"agent": {"call": name}} if kind == "framework" else {})},
        "tracking": {"to": trackers_of(track) or []},
        "execution": {
            "seed": seed,
            "concurrency": DEFAULT_CONCURRENCY if concurrency is None else concurrency,
        },
    }
    model = spec_type(target_plugin(kind).Spec, strategy_plugin(strategy).Settings)
    places = Places(
        source="the call",
        by_path={
            ("budget",): "budget",
            ("roles", "reflector"): "reflector",
            ("strategy",): "strategy",
            ("tracking", "to"): "track",
        },
    )
    return RunDescription(spec=validate_config(data, model, source="the call"), places=places)


def _name_of(target: Target) -> str:
    """What reports call the agent."""
    named = target.name if isinstance(target, FrameworkTarget | CallableTarget) else ""
    return named or (
        target.title
        if isinstance(target, CallableTarget | FunctionTarget)
        else target.description.kind
    )


# -- Metrics ---------------------------------------------------------------------------------------


def make_metrics(
    chosen: Any, cases: Sequence[Case], models: Models, judge: str | ModelRef | None
) -> tuple[Metric, ...]:
    """The metrics of a call: names, blocks as in files, functions and Metric objects."""
    making = MetricMaking(models=models, folder=Path.cwd(), judge=reference_of(judge))
    if isinstance(chosen, Path):
        read = read_metric_file(chosen)
        making = replace(making, folder=chosen.resolve().parent, judge=making.judge or read.judge)
        return make_agent_metrics(read.blocks, cases, making)
    several = isinstance(chosen, list | tuple)
    every: list[Any] = list(cast("Sequence[Any]", chosen)) if several else [chosen]
    written: list[Json] = [
        _block(each) if isinstance(each, str) else dict(cast("Mapping[str, Json]", each))
        for each in every
        if isinstance(each, str | Mapping)
    ]
    blocks = validate_config(written, MetricList, source="metric").root
    made = {metric.name: metric for metric in make_agent_metrics(blocks, cases, making)}
    own = [_own_metric(each) for each in every if not isinstance(each, str | Mapping)]
    check_names([*made, *(metric.name for metric in own)])
    if not made and not own:
        raise no_metric()
    return (*made.values(), *own)


def no_metric() -> WrongArgument:
    message = "nothing says how good an answer is"
    return WrongArgument.of("metric", message, 'pass a function, or a name such as "equality"')


def _own_metric(metric: Any) -> Metric:
    if hasattr(metric, "fingerprint") and hasattr(metric, "score"):
        return metric
    if not callable(metric):
        message = f"expected a function or a name, found {type(metric).__name__}"
        raise WrongArgument.of("metric", message, 'such as "equality"')
    return FunctionMetric.of(metric)


def _block(name: str) -> Json:
    if name in get_args(StandardName):
        return {"type": "standard", "metric": name}
    rag = get_args(RagBlock.model_fields["metric_type"].annotation)
    if name in rag:
        return {"type": "rag", "metric_type": name}
    if is_reference(name):
        return {"type": "code", "grader": name}
    names = [*get_args(StandardName), *rag, *metric_kinds()]
    if name not in names:
        raise WrongArgument.of("metric", f"there is no metric '{name}'", near(name, names))
    return {"metric_name": name}
