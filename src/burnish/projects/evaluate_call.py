"""`burnish.evaluate`: a measurement that a program describes with objects."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from burnish.core.cases import Dataset
from burnish.core.errors import (
    ConfigError,
    Problem,
    WrongArgument,
)
from burnish.journal.limits import Budget
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.call_arguments import (
    CallCases,
    Cases,
    MetricChoice,
    Texts,
    Track,
    blocking,
    budget_keys,
    check_columns,
    columns_note,
    describe_call,
    file_of,
    is_target,
    make_metrics,
    no_metric,
    read_texts,
    reference_of,
    target_of,
    trackers_of,
)
from burnish.projects.call_errors import KINDS, check_kinds, refuse_another_call, words_of_call
from burnish.projects.evaluation_setup import player_for
from burnish.projects.measurements import (
    RESULTS,
    Evaluated,
    PreparedMeasurement,
    from_description,
    load_measurement,
    measured,
)
from burnish.runs.case_work import CasePolicy
from burnish.runs.directory import COLUMNS
from burnish.runs.plugins import LiveParts
from burnish.runs.spec import DEFAULT_SEED
from burnish.strategies.measure import Measure
from burnish.system.user_code import is_reference


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
    track: Track | None = None
    """Other systems that show the run."""
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
    track: Track | None = None,
    models: Models | None = None,
) -> Evaluated:
    """`burnish.evaluate`, to be awaited in a program with a running event loop."""
    with words_of_call() as words:
        check_kinds(folder=folder)
        options = MeasureOptions(
            repeats=repeats,
            concurrency=concurrency,
            judge=judge,
            user_simulator=user_simulator,
            policy=policy,
            budget=budget,
            seed=seed,
            track=track,
            models=models,
            input=input,
            expected=expected,
        )
        measurement = measurement_of(agent, texts, cases=cases, metric=metric, options=options)
        home = None if folder is None else Path(folder)
        if home is not None:
            refuse_another_call(measurement.setup, home)
            words.folder = home
        return await measured(measurement, home)


@blocking(aevaluate)
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
        track: The systems that show the run as well: "mlflow", "wandb", "otel" or a list of them.
    """


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
    options, texts = options or MeasureOptions(), read_texts(texts)
    check_kinds(**{name: value for name, value in vars(options).items() if name in KINDS})
    given = CallCases(cases, {}, options.input, options.expected)
    if (file := file_of(agent, texts)) is not None and not _is_function(file):
        return _measured_file(file, given, metric, options)
    models = (options.models or Models()).for_run()
    if cases is None:
        raise WrongArgument.of("cases", "there are none", "pass rows, or the path of a file")
    file_of_cases = given.read("cases", cases)
    train = file_of_cases.cases
    user = None
    if not is_target(agent):
        user = player_for(train, reference_of(options.user_simulator), models)
    target = target_of(agent, texts, user, asked=options.input)
    check_columns(target, train)
    if metric is None:
        raise no_metric()
    live = LiveParts(
        target=target,
        dataset=Dataset(train=train),
        metrics=make_metrics(metric, train, models, options.judge),
    )
    repeats = 1 if options.repeats is None else options.repeats
    spec: dict[str, JsonValue] = {
        "strategy": {"name": Measure.name, "settings": {"repeats": repeats}},
        "budget": {} if options.budget is None else budget_keys(options.budget),
    }
    seed = DEFAULT_SEED if options.seed is None else options.seed
    description = describe_call(
        target, spec, seed=seed, concurrency=options.concurrency, track=options.track
    )
    if subject:
        source = description.spec.source.model_copy(update={"name": subject})
        description = replace(
            description, spec=description.spec.model_copy(update={"source": source})
        )
    measurement = from_description(description, models=models, live=live)
    setup = measurement.setup
    if options.policy is not None:
        setup = replace(setup, case_policy=options.policy)
    if notes := columns_note("cases", file_of_cases):
        assert file_of_cases.columns is not None
        config = {**setup.project.config, COLUMNS: file_of_cases.columns.by_part}
        project = replace(setup.project, config=config)
        setup = replace(setup, notes=(*notes, *setup.notes), project=project)
    return replace(measurement, setup=setup, root=RESULTS, spec=None)


def _is_function(file: Path) -> bool:
    return is_reference(str(file)) and not file.exists()


def _measured_file(
    file: Path, cases: CallCases, metric: MetricChoice | None, options: MeasureOptions
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
        "track": cast("list[JsonValue] | None", trackers_of(options.track)),
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
