"""The calls of a program: `burnish.optimize`, `burnish.optimize_text` and `burnish.evaluate`.

A call describes a run like a file does, and brings the parts of it that are objects: a function,
its texts, cases, a metric, a model. Each has a twin for programs with a running event loop.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeAlias, TypeGuard, TypeVar, cast, get_args, overload

from pydantic import JsonValue

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import Json
from burnish.core.errors import (
    ConfigError,
    NotImproved,
    Problem,
    ResumeRefused,
    WrongArgument,
)
from burnish.core.formatting import listed
from burnish.core.protocols import Metric, Target
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.columns import cases_of_rows, columns_words
from burnish.datasets.formats import read_cases
from burnish.datasets.splits import divided
from burnish.journal.limits import Budget
from burnish.metrics.files import (
    MetricList,
    RagBlock,
    StandardName,
    make_agent_metrics,
    read_metric_file,
)
from burnish.metrics.functions import FunctionMetric
from burnish.metrics.judges import MetricMaking, check_names
from burnish.models.callables import PROVIDER, CallableBackend, reference_to
from burnish.models.dotenv import load_dotenv
from burnish.models.factory import Models
from burnish.models.health import HealthSite
from burnish.models.references import ModelRef
from burnish.projects.called_agents import KNOWN, FrameworkBlock, loaded_agent, target_for
from burnish.projects.evaluation_setup import player_for
from burnish.projects.launch import launched, load_project, start_or_resume, write_page
from burnish.projects.measurements import (
    RESULTS,
    Evaluated,
    PreparedMeasurement,
    from_description,
    load_measurement,
    measured,
)
from burnish.projects.result import Result
from burnish.projects.starters.detection import offered_models
from burnish.runs.build import RunDescription, build
from burnish.runs.case_work import CasePolicy
from burnish.runs.claims import require_improved
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import Header, index_folder
from burnish.runs.draft import Places
from burnish.runs.events import Listener
from burnish.runs.plugins import LiveParts, strategy_plugin, target_plugin
from burnish.runs.progress import opening_words
from burnish.runs.run import Run
from burnish.runs.setup import Setup, refuse_without_proof, start
from burnish.runs.spec import DEFAULT_CONCURRENCY, DEFAULT_SEED, spec_type
from burnish.strategies.measure import Measure
from burnish.system import validate_config
from burnish.system.config import near
from burnish.system.shutdown import notebook_display, run_to_end
from burnish.system.user_code import is_reference
from burnish.targets.callables import CallableTarget
from burnish.targets.callables.functions import FunctionTarget, only_text
from burnish.targets.callables.texts import TEXT, ScoredText, UnitScore
from burnish.targets.frameworks.adapters import FrameworkTarget

P = ParamSpec("P")
T = TypeVar("T")

Texts: TypeAlias = str | Mapping[str, str]
Cases: TypeAlias = Iterable[Any] | str | Path
MetricChoice: TypeAlias = (
    str | Path | Metric | Mapping[str, Json] | Callable[..., Any] | Sequence[Any]
)
Require: TypeAlias = Literal["improved"]
Goal: TypeAlias = Literal["better", "cheaper", "faster", "frontier"]
BUDGET = 300
"""Runs of cases that a search may take, unless it is told otherwise."""


# -- The calls -------------------------------------------------------------------------------------


def _checked(function: Callable[P, T]) -> Callable[P, T]:
    """Name the nearest argument where one is misspelled."""
    names = list(signature(function).parameters)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in names:
                message = f"{function.__name__}() has no argument '{name}'"
                raise TypeError(f"{message}: {near(name, names)}")
        return function(*args, **kwargs)

    return call


def _blocking(
    asynchronous: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[[Callable[..., T]], Callable[P, T]]:
    """A function with the arguments of an asynchronous one, that waits for it."""

    def decorate(documented: Callable[..., T]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return run_to_end(asynchronous(*args, **kwargs))

        call.__signature__ = signature(asynchronous)  # pyright: ignore[reportFunctionMemberAccess]
        call.__name__ = call.__qualname__ = documented.__name__
        call.__doc__ = documented.__doc__
        return call

    return decorate


async def aoptimize(
    agent: Any,
    texts: Texts | None = None,
    *,
    cases: Cases | None = None,
    train: Cases | None = None,
    holdout: Cases | None = None,
    test: Cases | None = None,
    metric: MetricChoice | None = None,
    reflector: str | ModelRef | Callable[..., Any] | None = None,
    budget: int | str | Budget | None = None,
    goal: Goal | None = None,
    strategy: str | None = None,
    seed: int | None = None,
    concurrency: int | None = None,
    judge: str | ModelRef | None = None,
    input: str = "",  # noqa: A002 - the name of the part of a case, as everywhere
    expected: str = "",
    folder: str | Path | None = None,
    progress: bool | None = None,
    require: Require | None = None,
    models: Models | None = None,
) -> Result:
    """`burnish.optimize`, to be awaited in a program with a running event loop."""
    splits = {"train": train, "holdout": holdout, "test": test}
    search = _Search(
        agent=agent,
        texts=_texts(texts),
        cases=_GivenCases(cases, splits, input, expected),
        metric=metric,
        reflector=reflector,
        budget=budget,
        goal=goal,
        strategy=strategy,
        seed=seed,
        concurrency=concurrency,
        judge=judge,
        models=models,
        only=only_text(agent) if isinstance(texts, str) and callable(agent) else "",
    )
    home = None if folder is None else Path(folder)
    return await _searched(search, home, progress=progress, require=require)


@_checked
@_blocking(aoptimize)
def optimize(*args: Any, **kwargs: Any) -> Any:
    """Search for better texts of an agent, and show how sure the gain is.

        result = burnish.optimize(
            answer,                              # def answer(question, instructions): ...
            {"instructions": "Answer."},
            cases=[{"question": "2 + 2", "answer": "4"}, ...],
            metric=lambda output, expected: output.strip() == expected,
            reflector="openai:gpt-5-mini",
        )
        print(result.best["instructions"], result.score, result.gain)

    Args:
        agent: A function, sync or async. It gets the texts by name; another parameter gets the
            case's input, and where there are several, each gets the case's column of its name.
            Or an agent of a known framework, `module:name`, a project file, a Target or a Setup.
        texts: The texts that may be rewritten, by the name of their parameter; one text alone may
            be a string. Left out where the agent holds its texts itself.
        cases: Rows with what is asked and what is expected: dicts, pairs, Cases, a file, or
            anything that iterates rows, such as a data frame. They are divided by content into
            train, holdout and, from 40 cases on, a sealed test that is looked at once.
        train, holdout, test: The same, already divided.
        metric: A function that asks by name for any of `output`, `expected`, `input`, `case` and
            `trace`, and returns True or False, a number from 0 to 1, or such a number and a
            reason. Or the name of a metric, or a list of metrics, which count equally.
        reflector: The model that rewrites: `provider:name`, or a function from messages to text.
            By default the agent's own model, or one whose key is in the environment.
        budget: The limit: a number of runs of cases, "$2" or "30 min"; 300 runs of cases if
            neither the call nor a file says otherwise.
        goal: `better`, or as good and `cheaper` or `faster`, or the `frontier` of both.
        strategy: How to search, if the default is not wanted.
        seed: Of all randomness.
        concurrency: How many cases run at once; 8 if neither the call nor a file says otherwise.
        judge: The model for metrics that need one and name none.
        input, expected: The columns of the rows that have what is asked and what is expected, if
            the usual names do not say so.
        folder: Of the run. The same call with it continues the run, or returns its result.
        progress: Whether to show what happens. By default in a notebook and at a terminal.
        require: `"improved"` raises `burnish.NotImproved` unless the sealed test or fresh draws
            show a gain; a run that can show none is refused before anything is paid.
        models: How models are reached; doubles for tests come in here.
    """


async def aoptimize_text(
    text: str,
    score: Callable[..., Any],
    *,
    cases: Iterable[Any] | None = None,
    reflector: str | ModelRef | Callable[..., Any] | None = None,
    budget: int | str | Budget | None = None,
    seed: int | None = None,
    concurrency: int | None = None,
    folder: str | Path | None = None,
    progress: bool | None = None,
    require: Require | None = None,
    models: Models | None = None,
) -> Result:
    """`burnish.optimize_text`, to be awaited in a program with a running event loop."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may
        message = f"expected a text, found {type(text).__name__}"
        raise WrongArgument.of("text", message)
    if not callable(score):
        raise WrongArgument.of("score", "expected a function", "such as def score(text): …")
    splits, given = _scored_cases(cases, DEFAULT_SEED if seed is None else seed)
    search = _Search(
        agent=ScoredText.of(text, score, given),
        texts=None,
        cases=_GivenCases(None, splits),
        metric=UnitScore(),
        reflector=reflector,
        budget=budget,
        goal=None,
        strategy="reflective",
        seed=seed,
        concurrency=concurrency,
        judge=None,
        models=models,
        only=TEXT,
        repeats=REPEATS if cases is None else 1,
    )
    home = None if folder is None else Path(folder)
    return await _searched(search, home, progress=progress, require=require)


@_checked
@_blocking(aoptimize_text)
def optimize_text(*args: Any, **kwargs: Any) -> Any:
    """Search for a better version of anything that can be scored as a whole.

        def score(code: str) -> tuple[float, str]:
            seconds, errors = run_benchmark(code)
            return -seconds, errors

        result = burnish.optimize_text(code, score, reflector="openai:gpt-5-mini", budget=100)

    Args:
        text: What is improved: code, a query, a configuration, a drawing in SVG.
        score: Gives any number, higher is better, or a number and feedback in words, which the
            reflector reads. With cases it gets each of them as its second argument.
        cases: What the text has to do well on; any objects. They are divided like those of
            `burnish.optimize`. Without cases, scoring is repeated to see how much it varies.
        reflector: The model that rewrites: `provider:name`, or a function from messages to text.
        budget: The limit: a number of times that a text is scored, "$2" or "30 min".
        seed, concurrency, folder, progress, require, models: As for `burnish.optimize`.
    """


REPEATS = 4
"""How often a text is scored each time, if there are no cases."""


def _scored_cases(
    cases: Iterable[Any] | None, seed: int
) -> tuple[dict[str, Cases], dict[str, Any]]:
    """The splits of what a text is scored on, and by case what the function gets."""
    if cases is None:
        return {split.value: [Case.single(f"the text ({split})")] for split in Split}, {}
    given_cases: Any = cases
    if isinstance(given_cases, str | Path | Mapping) or not isinstance(given_cases, Iterable):
        message = f"expected a list, found {type(cast('object', given_cases)).__name__}"
        raise WrongArgument.of("cases", message, "pass what score(text, case) gets, one by one")
    items: list[Any] = list(cases)
    made = [Case.single(_spelled(each)) for each in items]
    given = {case.id: each for case, each in zip(made, items, strict=True)}
    dataset = divided(made, seed=seed, source="cases").dataset
    splits = {split.value: list(dataset.cases(split)) for split in Split}
    return {name: each for name, each in splits.items() if each}, given


def _spelled(value: Any) -> str:
    """What a case is called and compared by."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)
    except (TypeError, ValueError):
        return repr(value)


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """How an agent is measured."""

    repeats: int | None = None
    """How often each case is run: once, unless a file says otherwise."""
    concurrency: int | None = None
    """How many cases run at once: 8, unless a file says otherwise."""
    judge: ModelRef | str | None = None
    """The judge for metrics that do not name one."""
    user_simulator: ModelRef | str | None = None
    """Who plays the user in scenarios."""
    policy: CasePolicy | None = None
    """Time limit, retries, and what is not the agent's fault."""
    budget: int | str | Budget | None = None
    seed: int | None = None
    models: Models | None = None
    """How models are reached; doubles come in here."""
    input: str = ""
    expected: str = ""


async def aevaluate(
    agent: Any,
    texts: Texts | None = None,
    *,
    cases: Cases | None = None,
    metric: MetricChoice | None = None,
    repeats: int | None = None,
    concurrency: int | None = None,
    judge: ModelRef | str | None = None,
    user_simulator: ModelRef | str | None = None,
    policy: CasePolicy | None = None,
    budget: int | str | Budget | None = None,
    seed: int | None = None,
    input: str = "",  # noqa: A002 - the name of the part of a case, as everywhere
    expected: str = "",
    folder: str | Path | None = None,
    models: Models | None = None,
) -> Evaluated:
    """`burnish.evaluate`, to be awaited in a program with a running event loop."""
    options = MeasureOptions(
        repeats=repeats,
        concurrency=concurrency,
        judge=judge,
        user_simulator=user_simulator,
        policy=policy,
        budget=budget,
        seed=seed,
        models=models,
        input=input,
        expected=expected,
    )
    measurement = measurement_of(agent, texts, cases=cases, metric=metric, options=options)
    return await measured(measurement, None if folder is None else Path(folder))


@_checked
@_blocking(aevaluate)
def evaluate(*args: Any, **kwargs: Any) -> Any:
    """Measure an agent on cases with metrics.

        found = burnish.evaluate(answer, {"instructions": "Answer."}, cases=rows, metric="equality")
        print(found.score("equality"), found.failures)

    Args:
        agent, texts, cases, metric, judge, input, expected, models: As for `burnish.optimize`; a
            function that has no texts is measured as it is, and a file that `burnish eval` accepts
            may include cases and metrics.
        repeats: How often each case is run.
        concurrency: How many cases run at once.
        user_simulator: The model that plays the user in scenarios.
        policy: Time limit, retries, and what is not the agent's fault.
        budget: The limit: a number of runs of cases, "$2" or "30 min".
        seed: Of all randomness.
        folder: Of the run, if it is to be kept: the same call again continues it, or returns its
            result without paying.
    """


# -- From a call to a run --------------------------------------------------------------------------


def _texts(texts: object) -> Texts | None:
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
class _GivenCases:
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
            return made.dataset, (*_columns_note("cases", file), *made.notes)
        if missing := [name for name in ("train", "holdout") if name not in given]:
            what = "there are no cases" if len(missing) == 2 else f"there is no {missing[0]}"
            raise WrongArgument.of("cases", what, "pass cases=, or train= and holdout=")
        read = {name: self.read(name, each) for name, each in given.items()}
        notes = dict.fromkeys(
            note for name, file in read.items() for note in _columns_note(name, file)
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
        return cases_of_rows(
            cast("Iterable[object]", rows), source=name, input=self.input, expected=self.expected
        )


def _columns_note(name: str, file: CaseFile) -> tuple[str, ...]:
    """Which columns were taken, if their names alone do not tell."""
    return tuple(filter(None, [columns_words(file, name)]))


@dataclass(frozen=True, kw_only=True)
class _Search:
    """A call of `optimize`, as it was made."""

    agent: Any
    texts: Texts | None
    cases: _GivenCases
    metric: MetricChoice | None
    reflector: str | ModelRef | Callable[..., Any] | None
    budget: int | str | Budget | None
    goal: Goal | None
    strategy: str | None
    seed: int | None
    concurrency: int | None
    judge: str | ModelRef | None
    models: Models | None
    only: str = ""
    """The name of the text, where one was passed without a name."""
    repeats: int = 1

    def setup(self) -> Setup:
        """The run that it describes; raises what is wrong with it."""
        if isinstance(self.agent, Setup):
            return self._alone(self.agent)
        goals = get_args(Goal)
        if self.goal not in (None, *goals):
            raise WrongArgument.of(
                "goal", f"unknown goal '{self.goal}'", near(str(self.goal), goals)
            )
        file = _file_of(self.agent, self.texts)
        load_dotenv(Path.cwd() if file is None else file.resolve().parent, os.environ)
        models, writer = self._writer()
        return self._of_file(file, models, writer) if file else self._of_agent(models, writer)

    def _alone(self, setup: Setup) -> Setup:
        """A setup describes the whole run, so nothing may be passed beside it."""
        own = {f.name for f in fields(self)} - {"agent", "cases", "only", "repeats"}
        given = [name for name in sorted(own) if getattr(self, name) is not None]
        if given or self.cases.any:
            name = given[0] if given else "cases"
            raise WrongArgument.of(name, "a Setup says this itself", "replace(setup, …) changes it")
        return setup

    def _writer(self) -> tuple[Models, ModelRef | None]:
        """The models of the run, and the one that rewrites, if the call names one."""
        models, reflector = self.models or Models(), self.reflector
        if reflector is None or isinstance(reflector, str | ModelRef):
            return models, reference_of(reflector)
        if not callable(reflector):
            message = f"expected a model's name or a function, found {type(reflector).__name__}"
            raise WrongArgument.of("reflector", message, "such as 'openai:gpt-5-mini'")
        return models.with_backend(PROVIDER, CallableBackend(reflector)), reference_to(reflector)

    def _of_agent(self, models: Models, writer: ModelRef | None) -> Setup:
        target = _target_of(self.agent, self.texts)
        dataset, notes = self.cases.dataset(DEFAULT_SEED if self.seed is None else self.seed)
        cases = _cases_in(dataset)
        _check_columns(target, cases)
        if self.metric is None:
            raise _no_metric()
        metrics = make_metrics(self.metric, cases, models, self.judge)
        if writer is None and not isinstance(target, FrameworkTarget):
            writer, note = _usual_writer()
            notes = (*notes, note)
        live = LiveParts(target=target, dataset=dataset, metrics=metrics, reflector=writer)
        strategy = self.strategy or "auto"
        settings: dict[str, JsonValue] = {} if self.repeats == 1 else {"repeats": self.repeats}
        if self.goal not in (None, "better"):
            strategy = "frugal"
            settings["goal"] = self.goal
        budget = budget_keys(BUDGET if self.budget is None else self.budget)
        search: dict[str, JsonValue] = {"name": strategy, "settings": settings}
        spec: dict[str, JsonValue] = {"strategy": search, "budget": budget}
        setup = build(_describe_call(target, spec, self), models=models, live=live)
        call: dict[str, Json] = {
            "agent": target.description.kind,
            "texts": [surface.id for surface in target.surfaces],
            "metric": [metric.name for metric in metrics],
            "reflector": None if writer is None else writer.label,
            **spec,
        }
        project = replace(setup.project, config={**setup.project.config, "call": call})
        return replace(setup, notes=(*notes, *setup.notes), project=project)

    def _of_file(self, file: Path, models: Models, writer: ModelRef | None) -> Setup:
        """What a file describes, with the arguments of the call in place of its own."""
        files = self.cases.files(whole=is_reference(str(file)))
        dataset = None
        if self.cases.any and not files:
            dataset, _ = self.cases.dataset(DEFAULT_SEED if self.seed is None else self.seed)
        cases = () if dataset is None else _cases_in(dataset)
        own_metrics = self.metric is not None and not isinstance(self.metric, Path)
        live = LiveParts(
            dataset=dataset,
            metrics=make_metrics(self.metric, cases, models, self.judge) if own_metrics else (),
            reflector=writer if callable(self.reflector) else None,
        )
        flags: dict[str, JsonValue] = {
            **files,
            **({} if self.budget is None else budget_keys(self.budget)),
            "metrics": str(self.metric.absolute()) if isinstance(self.metric, Path) else None,
            "reflector": self.reflector if isinstance(self.reflector, str) else None,
            "strategy": self.strategy or (None if self.goal in (None, "better") else "frugal"),
            "goal": None if self.goal == "better" else self.goal,
            "judge": self.judge if isinstance(self.judge, str) else None,
            "seed": self.seed,
            "concurrency": self.concurrency,
        }
        flags = {name: value for name, value in flags.items() if value is not None}
        own = self.models is not None or live.any
        return load_project(file, flags, models=models if own else None, live=live).setup


def _file_of(agent: object, texts: Texts | None) -> Path | None:
    """The file, or `module:name`, that describes the agent; None if the agent is an object."""
    if not isinstance(agent, str | Path):
        return None
    if texts is not None and is_reference(str(agent)):
        return None
    if texts is not None:
        message = f"{agent} is a file, which has its own texts"
        raise WrongArgument.of("texts", message, "leave them out")
    return Path(agent)


def _target_of(agent: Any, texts: Texts | None) -> Target:
    """What an agent is as a target of a search."""
    if isinstance(agent, str):
        agent, _ = loaded_agent(agent, Path.cwd())
    if _is_target(agent):
        return _without_texts(agent, texts)
    if (framework := target_for(agent)) is not None:
        return _without_texts(framework, texts)
    if not callable(agent):
        message = f"{type(agent).__module__}.{type(agent).__qualname__} cannot be optimised"
        raise WrongArgument.of("agent", message, f"pass a function; {KNOWN}, a file, or a Setup")
    if texts is None:
        remedy = 'name them: {"instructions": "Answer."}'
        raise WrongArgument.of("texts", "there is nothing that may be rewritten", remedy)
    return FunctionTarget.of(agent, texts)


def _without_texts(target: Target, texts: Texts | None) -> Target:
    if texts is not None:
        message = "this agent holds its texts itself"
        names = ", ".join(surface.id for surface in target.surfaces) or "none"
        raise WrongArgument.of("texts", message, f"leave them out; it has: {names}")
    return target


def _is_target(agent: object) -> TypeGuard[Target]:
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


def _cases_in(dataset: Dataset) -> list[Case]:
    """The cases of every split."""
    return [case for split in Split for case in dataset.cases(split)]


def _check_columns(target: Target, cases: Sequence[Case]) -> None:
    """Check that every parameter of a function gets something in every case."""
    if isinstance(target, FunctionTarget):
        problems = target.parameters.problems(target.title, cases)
        if problems:
            raise WrongArgument(problems)


def _usual_writer() -> tuple[ModelRef, str]:
    """The model that a new project would take here, and a note that says so."""
    offer = offered_models(HealthSite.of(Path.cwd(), index_folder().parent, os.environ))[0]
    if offer.needs:
        what = f"no model was named, and none can be called from here: {', '.join(offer.needs)}"
        raise WrongArgument.of(
            "reflector", what, "name one, or pass a function from messages to text"
        )
    return ModelRef.parse(offer.label, base_url=offer.base_url), f"the reflector is {offer}"


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


def _describe_call(
    target: Target, spec: Mapping[str, JsonValue], options: "_Search | MeasureOptions"
) -> RunDescription:
    """The description of a run whose target is an object."""
    strategy = cast("Mapping[str, Any]", spec["strategy"])["name"]
    kind = "framework" if isinstance(target, FrameworkTarget) else "function"
    name = _name_of(target)
    data: dict[str, Any] = {
        **spec,
        "source": {"name": name, "folder": str(Path.cwd())},
        "target": {"kind": kind, **({"agent": {"call": name}} if kind == "framework" else {})},
        "execution": {
            "seed": DEFAULT_SEED if options.seed is None else options.seed,
            "concurrency": options.concurrency or DEFAULT_CONCURRENCY,
        },
    }
    model = spec_type(target_plugin(kind).Spec, strategy_plugin(strategy).Settings)
    places = Places(
        source="the call",
        by_path={
            ("budget",): "budget",
            ("roles", "reflector"): "reflector",
            ("strategy",): "strategy",
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
        raise _no_metric()
    return (*made.values(), *own)


def _no_metric() -> WrongArgument:
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
    if name in get_args(RagBlock.model_fields["metric_type"].annotation):
        return {"type": "rag", "metric_type": name}
    if is_reference(name):
        return {"type": "code", "grader": name}
    return {"metric_name": name}


# -- Running ---------------------------------------------------------------------------------------


async def _searched(
    search: _Search, folder: Path | None, *, progress: bool | None, require: Require | None
) -> Result:
    setup, only = search.setup(), search.only
    if require is not None:
        if require not in get_args(Require):
            raise WrongArgument.of("require", f"unknown: '{require}'", "it may be 'improved'")
        there = folder if folder is not None and (folder / HEADER).exists() else None
        refuse_without_proof(setup, resumed=there)
    with ExitStack() as open_views:
        listeners = [open_views.enter_context(each) for each in _views(setup, progress=progress)]
        ending = await launched(partial(_opened, setup, folder), listeners)
    write_page(ending.folder, setup.dataset, only_again=ending.interrupted)
    result = Result(folder=ending.folder, ending=ending, dataset=setup.dataset, only=only)
    if result.interrupted and progress is not False:
        print(result.next_step, file=sys.stderr)  # noqa: T201 - how to go on, also for who shows nothing
    elif require is not None:
        try:
            require_improved(result.claim)
        except NotImproved as error:
            raise NotImproved(error.message, remedy=f"the run is in {result.folder}") from None
    return result


def _views(setup: Setup, *, progress: bool | None) -> Iterator[AbstractContextManager[Listener]]:
    """What shows the run while it goes on."""
    if progress is False:
        return
    if display := notebook_display():
        from burnish.reports.progress import NotebookView

        yield nullcontext(NotebookView(display))
    elif progress or sys.stderr.isatty():
        from rich.console import Console

        from burnish.reports.progress import LineView, LiveView

        console = Console(stderr=True)
        opening = opening_words(
            setup, search=strategy_plugin(setup.strategy.name).search_cost(setup)
        )
        if console.is_interactive:
            yield LiveView(console, setup.budget, opening=opening)
        else:
            yield nullcontext(LineView(lambda line: print(line, file=sys.stderr), opening=opening))  # noqa: T201


_INPUTS = {
    "target": "agent",
    "baseline": "texts",
    "data": "cases",
    "metrics": "metric",
    "role prompts": "reflector",
    "strategy": "strategy",
    "seed": "seed",
}
"""What run.json has hashes of, as arguments of a call."""


def _opened(setup: Setup, folder: Path | None) -> Run:
    """Start the run in a folder, or continue the one that is there."""
    if folder is None:
        return start(setup)
    if (folder / HEADER).exists():
        before, now = Header.read(folder).inputs, setup.inputs()
        others = [word for name, word in _INPUTS.items() if before.get(name) != now.get(name)]
        if others:
            raise ResumeRefused(
                f"the run in {folder} was started with another {listed(others)}",
                remedy="name another folder, or call it as before",
            )
    return start_or_resume(setup, folder)


# -- Measuring -------------------------------------------------------------------------------------


def measurement_of(
    agent: Any,
    texts: Texts | None = None,
    *,
    cases: Cases | None = None,
    metric: MetricChoice | None = None,
    options: MeasureOptions | None = None,
    subject: str = "",
) -> PreparedMeasurement:
    """A measurement of an agent with cases and metrics; reports call it `subject`."""
    options, texts = options or MeasureOptions(), _texts(texts)
    given = _GivenCases(cases, {}, options.input, options.expected)
    if (file := _file_of(agent, texts)) is not None and not _is_function(file):
        return _measured_file(file, given, metric, options)
    models = (options.models or Models()).for_run()
    if cases is None:
        raise WrongArgument.of("cases", "there are none", "pass rows, or the path of a file")
    file_of_cases = given.read("cases", cases)
    train = file_of_cases.cases
    target = measured_target(agent, texts, train, options, models)
    _check_columns(target, train)
    if metric is None:
        raise _no_metric()
    live = LiveParts(
        target=target,
        dataset=Dataset(train=train),
        metrics=make_metrics(metric, train, models, options.judge),
    )
    spec: dict[str, JsonValue] = {
        "strategy": {"name": Measure.name, "settings": {"repeats": options.repeats or 1}},
        "budget": {} if options.budget is None else budget_keys(options.budget),
    }
    description = _describe_call(target, spec, options)
    if subject:
        source = description.spec.source.model_copy(update={"name": subject})
        description = replace(
            description, spec=description.spec.model_copy(update={"source": source})
        )
    measurement = from_description(description, models=models, live=live)
    setup = measurement.setup
    if options.policy is not None:
        setup = replace(setup, case_policy=options.policy)
    setup = replace(setup, notes=(*_columns_note("cases", file_of_cases), *setup.notes))
    return replace(measurement, setup=setup, root=RESULTS, spec=None)


def _is_function(file: Path) -> bool:
    return is_reference(str(file)) and not file.exists()


def measured_target(
    agent: Any, texts: Texts | None, cases: Sequence[Case], options: MeasureOptions, models: Models
) -> Target:
    """What is measured; other than in a search, a function may have no texts."""
    if _is_target(agent):
        return _without_texts(agent, texts)
    user = player_for(cases, reference_of(options.user_simulator), models)
    name = agent if isinstance(agent, str) else ""
    if isinstance(agent, str):
        if texts is None:
            return FrameworkBlock(call=agent).made(Path.cwd(), user)
        agent, _ = loaded_agent(agent, Path.cwd())
    if (known := target_for(agent, user)) is not None:
        return _without_texts(known, texts)
    if not callable(agent):
        message = f"{type(agent).__module__}.{type(agent).__qualname__} cannot be measured"
        raise WrongArgument.of("agent", message, f"pass a function; {KNOWN}, or a file")
    if texts is not None:
        return FunctionTarget.of(agent, texts, user=user)
    return CallableTarget(agent=agent, user=user, name=name)


def _measured_file(
    file: Path, cases: _GivenCases, metric: MetricChoice | None, options: MeasureOptions
) -> PreparedMeasurement:
    """What a file describes, with the arguments of the call in place of its own."""
    _refuse_beside_a_file(options)
    files = cases.files(whole=True)
    train = ()
    if cases.whole is not None and not files:
        train = cases.read("cases", cases.whole).cases
    own_metrics = metric is not None and not isinstance(metric, Path)
    live = LiveParts(
        dataset=Dataset(train=train) if train else None,
        metrics=make_metrics(metric, train, Models(), options.judge) if own_metrics else (),
    )
    flags: dict[str, JsonValue] = {
        **files,
        **({} if options.budget is None else budget_keys(options.budget)),
        "metrics": str(metric.absolute()) if isinstance(metric, Path) else None,
        "judge": options.judge if isinstance(options.judge, str) else None,
        "repeats": options.repeats,
        "concurrency": options.concurrency,
        "seed": options.seed,
        "input": options.input or None if cases.whole is None else None,
        "expected": options.expected or None if cases.whole is None else None,
    }
    measurement = load_measurement(file, flags, live=live)
    if options.policy is None:
        return measurement
    return replace(measurement, setup=replace(measurement.setup, case_policy=options.policy))


def _refuse_beside_a_file(options: MeasureOptions) -> None:
    settings = {
        "user_simulator": options.user_simulator is not None,
        "models": options.models is not None,
        "judge as a ModelRef": isinstance(options.judge, ModelRef),
    }
    problems = [
        Problem(where=name, message="this cannot be passed for an agent that is a file")
        for name, is_set in settings.items()
        if is_set
    ]
    if problems:
        raise ConfigError(problems, remedy="Set it in the file, or pass the agent as an object.")
