"""`burnish.optimize` and `burnish.optimize_text`: a program describes a search with objects."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from pydantic import JsonValue

from burnish.core.cases import Case, Split
from burnish.core.content import Json
from burnish.core.errors import NotImproved, WrongArgument
from burnish.datasets.splits import divided
from burnish.journal.limits import Budget
from burnish.models.callables import PROVIDER, CallableBackend, reference_to
from burnish.models.dotenv import load_dotenv
from burnish.models.factory import Models
from burnish.models.health import HealthSite
from burnish.models.references import ModelRef
from burnish.projects.call_arguments import (
    CallCases,
    Cases,
    MetricChoice,
    Texts,
    Track,
    blocking,
    budget_keys,
    cases_in,
    check_columns,
    describe_call,
    file_of,
    make_metrics,
    no_metric,
    read_texts,
    reference_of,
    target_of,
    trackers_of,
)
from burnish.projects.call_errors import CallWords, check_kinds, refuse_another_call, words_of_call
from burnish.projects.launch import launched, load_project, start_or_resume, write_page
from burnish.projects.result import Result
from burnish.projects.starters.detection import offered_models
from burnish.runs.build import build
from burnish.runs.claims import require_improved
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import index_folder
from burnish.runs.events import Listener
from burnish.runs.plugins import LiveParts, strategy_names, strategy_plugin
from burnish.runs.progress import opening_words
from burnish.runs.run import Run
from burnish.runs.setup import Setup, refuse_without_proof, start
from burnish.runs.spec import DEFAULT_SEED
from burnish.strategies.measure import Measure
from burnish.system.config import near
from burnish.system.shutdown import notebook_display
from burnish.system.user_code import is_reference
from burnish.targets.callables.functions import FunctionTarget, only_text
from burnish.targets.callables.texts import TEXT, ScoredText, UnitScore
from burnish.targets.frameworks.adapters import FrameworkTarget

Require: TypeAlias = Literal["improved"]
Goal: TypeAlias = Literal["better", "cheaper", "faster", "frontier"]
BUDGET = 300
"""Runs of cases that a search may take, unless it is told otherwise."""
REPEATS = 4
"""How often a text is scored each time, if there are no cases."""


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
    track: Track | None = None,
    models: Models | None = None,
) -> Result:
    """`burnish.optimize`, to be awaited in a program with a running event loop."""
    with words_of_call() as words:
        check_kinds(
            seed=seed,
            concurrency=concurrency,
            judge=judge,
            strategy=strategy,
            input=input,
            expected=expected,
            folder=folder,
            progress=progress,
            track=track,
            models=models,
        )
        splits = {"train": train, "holdout": holdout, "test": test}
        search = _Search(
            agent=agent,
            texts=read_texts(texts),
            cases=CallCases(cases, splits, input, expected),
            metric=metric,
            reflector=reflector,
            budget=budget,
            goal=goal,
            strategy=strategy,
            seed=seed,
            concurrency=concurrency,
            judge=judge,
            track=track,
            models=models,
            only=only_text(agent) if isinstance(texts, str) and callable(agent) else "",
        )
        home = None if folder is None else Path(folder)
        return await _searched(search, home, words, progress=progress, require=require)


@blocking(aoptimize)
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
            anything that iterates rows, such as a data frame. Numbers, booleans, lists and dicts
            reach agent and metric as they are. Cases are divided by content into train,
            holdout and, from 40 cases on, a sealed test that is looked at once.
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
        track: The systems that show the run as well: "mlflow", "wandb", "otel" or a list of them.
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
    track: Track | None = None,
    models: Models | None = None,
) -> Result:
    """`burnish.optimize_text`, to be awaited in a program with a running event loop."""
    with words_of_call() as words:
        check_kinds(
            seed=seed,
            concurrency=concurrency,
            folder=folder,
            progress=progress,
            track=track,
            models=models,
        )
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may
            message = f"expected a text, found {type(text).__name__}"
            raise WrongArgument.of("text", message)
        if not text.strip():
            raise WrongArgument.of("text", "the text is empty", "start with something")
        if not callable(score):
            raise WrongArgument.of("score", "expected a function", "such as def score(text): …")
        splits, given = _scored_cases(cases, DEFAULT_SEED if seed is None else seed)
        search = _Search(
            agent=ScoredText.of(text, score, given),
            texts=None,
            cases=CallCases(None, splits),
            metric=UnitScore(),
            reflector=reflector,
            budget=budget,
            goal=None,
            strategy="reflective",
            seed=seed,
            concurrency=concurrency,
            judge=None,
            track=track,
            models=models,
            only=TEXT,
            repeats=REPEATS if cases is None else 1,
        )
        home = None if folder is None else Path(folder)
        return await _searched(search, home, words, progress=progress, require=require)


@blocking(aoptimize_text)
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
        seed, concurrency, folder, progress, require, track, models: As for `burnish.optimize`.
    """


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
    if not items:
        message, remedy = "there are none", "leave them out to score the text alone"
        raise WrongArgument.of("cases", message, remedy)
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
class _Search:
    """A call of `optimize`, as it was made."""

    agent: Any
    texts: Texts | None
    cases: CallCases
    metric: MetricChoice | None
    reflector: str | ModelRef | Callable[..., Any] | None
    budget: int | str | Budget | None
    goal: Goal | None
    strategy: str | None
    seed: int | None
    concurrency: int | None
    judge: str | ModelRef | None
    track: Track | None
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
        self._check_strategy()
        file = file_of(self.agent, self.texts)
        load_dotenv(Path.cwd() if file is None else file.resolve().parent, os.environ)
        models, writer = self._writer()
        return self._of_file(file, models, writer) if file else self._of_agent(models, writer)

    def _check_strategy(self) -> None:
        if self.strategy is None:
            return
        names = [name for name in strategy_names() if strategy_plugin(name).proposes]
        if self.strategy == Measure.name:
            remedy = "burnish.evaluate(…) measures"
            raise WrongArgument.of("strategy", f"'{self.strategy}' searches for nothing", remedy)
        if self.strategy not in names:
            message = f"there is no strategy '{self.strategy}'"
            raise WrongArgument.of("strategy", message, near(self.strategy, names))

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
        target = target_of(self.agent, self.texts, asked=self.cases.input, is_rewritten=True)
        texts = target.texts if isinstance(target, FunctionTarget) else dict[str, str]()
        if blank := next((name for name, text in texts.items() if not text.strip()), ""):
            remedy = "start with a few words"
            raise WrongArgument.of(f"texts[{blank!r}]", "the text is empty", remedy)
        seed = DEFAULT_SEED if self.seed is None else self.seed
        dataset, notes = self.cases.dataset(seed)
        cases = cases_in(dataset)
        check_columns(target, cases)
        if self.metric is None:
            raise no_metric()
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
        description = describe_call(
            target, spec, seed=seed, concurrency=self.concurrency, track=self.track
        )
        setup = build(description, models=models, live=live)
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
        cases = () if dataset is None else cases_in(dataset)
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
            "track": cast("list[JsonValue] | None", trackers_of(self.track)),
        }
        flags = {name: value for name, value in flags.items() if value is not None}
        own = self.models is not None or live.any
        return load_project(file, flags, models=models if own else None, live=live).setup


def _usual_writer() -> tuple[ModelRef, str]:
    """The model that a new project would take here, and a note that says so."""
    offer = offered_models(HealthSite.of(Path.cwd(), index_folder().parent, os.environ))[0]
    if offer.needs:
        what = f"no model was named, and none can be called from here: {', '.join(offer.needs)}"
        raise WrongArgument.of(
            "reflector", what, "name one, or pass a function from messages to text"
        )
    return ModelRef.parse(offer.label, base_url=offer.base_url), f"the reflector is {offer}"


async def _searched(
    search: _Search,
    folder: Path | None,
    words: CallWords,
    *,
    progress: bool | None,
    require: Require | None,
) -> Result:
    setup, only = search.setup(), search.only
    if require is not None:
        if require not in get_args(Require):
            raise WrongArgument.of("require", f"unknown: '{require}'", "it may be 'improved'")
        there = folder if folder is not None and (folder / HEADER).exists() else None
        refuse_without_proof(setup, resumed=there)
    with ExitStack() as open_views:
        listeners = [open_views.enter_context(each) for each in _views(setup, progress=progress)]
        ending = await launched(partial(_opened, setup, folder, words), listeners)
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


def _opened(setup: Setup, folder: Path | None, words: CallWords) -> Run:
    """Start the run in a folder, or continue the one that is there."""
    if folder is not None:
        refuse_another_call(setup, folder)
    run = start(setup) if folder is None else start_or_resume(setup, folder)
    words.folder = run.directory.folder
    return run
