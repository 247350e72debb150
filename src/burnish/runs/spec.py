"""RunSpec: the one description of a run, with the tags by which people find it.

File dialects are translated into it; flags, environment variables, HTTP settings and resume
overrides change it. run.json stores it with `${VAR}` as written, and resume, fork, the service and
its queue build the run from it alone.

Targets and strategies have their own models in it, chosen by name: `spec_type` creates the whole
model for a pair of them.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar, cast

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from burnish.core.content import AboveZero, AtLeastOne, NotNegative, Places, Repeats, Share
from burnish.core.errors import ConfigError
from burnish.core.evaluations import Constraint, Objective, Operator, Penalties, TieBreaker
from burnish.core.formatting import shorten, visible
from burnish.core.gates import Direction
from burnish.journal.limits import Budget
from burnish.journal.outages import WAIT_MINUTES, RetryPolicy
from burnish.metrics.files import AgentMetric
from burnish.models.factory import ModelBlock, ModelsBlock
from burnish.runs.case_work import CasePolicy
from burnish.runs.directory import Header
from burnish.system import read_text, write_inside
from burnish.system.settings import Access, Door, Limits, Settings, Text

DEFAULT_SEED = 42
DEFAULT_CONCURRENCY = 8
T = TypeVar("T", bound="TargetSpec")
S = TypeVar("S", bound="StrategySettings")


class Source(Settings):
    """Where a description was read."""

    kind: str = "python"
    """The dialect, or `python` for a run that a program started."""
    name: str = ""
    """The name of the subject in the file, for reports."""
    file: str = ""
    """The absolute path; empty if no file was read."""
    folder: str = ""
    """The folder that relative paths in the description start from."""
    digest: str = ""
    """A hash of the file when it was read; empty if no file was."""
    overridden: tuple[tuple[str, ...], ...] | None = None
    """The fields that do not come from the file but from flags, a request or a program; None in
    runs from before this was recorded. A resume compares the others with the file."""
    environment: tuple[tuple[str, ...], ...] = ()
    """The fields that come from variables such as `BURNISH_SEED`: the file leaves them out."""
    variables: tuple[tuple[str, ...], ...] = ()
    """The fields of the description that are stored with `${VAR}` as written and expanded when the
    run is built."""
    document: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """The original file, for runs that write files that repeat it."""


class TargetSpec(Settings):
    """What is optimised. Each kind of target has its own model."""

    kind: str


class StrategySettings(Settings):
    """How a strategy searches. Each strategy has its own model."""

    without_holdout: ClassVar[str] = ""
    """How to run without a holdout, in words, if that is possible."""

    repeats: Annotated[Repeats, Door(flag="*", http=Access.CLIENT)] = 1
    """Runs of every case; they show the noise."""

    @property
    def uses_holdout(self) -> bool:
        """Whether separate cases decide that nothing is learned from."""
        return True


class StrategySpec(Settings, Generic[S]):
    """The strategy and its settings."""

    name: Annotated[Text, Door(flag="strategy", metavar="NAME", http=Access.CLIENT)]
    """How to search."""
    settings: S


class CaseSet(Settings):
    """A file of cases, and which of them. A path alone is short for `{file: …}`."""

    short: ClassVar[str] = "file"
    file: Text
    cases: tuple[Text, ...] = ()
    """Names of cases; all of them if empty."""


_CASE_SET = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {
                "file": {"type": "string"},
                "cases": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["file"],
            "additionalProperties": False,
        },
    ]
}
_CaseSets: TypeAlias = Annotated[
    tuple[CaseSet, ...],
    WithJsonSchema({"anyOf": [*_CASE_SET["anyOf"], {"type": "array", "items": _CASE_SET}]}),
]
"""Files of cases; a single one is a list of one."""
_CASES = Door(
    flag="*", panel="Cases", metavar="FILE", paths=True, http=Access.DATASET, runs="searches"
)
_MEASURED = Door(
    flag="*", panel="What is measured", environment=False, http=Access.CLIENT, runs="measurements"
)
_COLUMNS = ("input", "expected")
_COLUMN = Door(flag="*", panel="Cases", metavar="COLUMN", environment=False)


class DataSpec(Settings):
    """The cases that proposals learn from, that decide, and that are read once at the end."""

    cases: Annotated[
        _CaseSets, replace(_MEASURED, metavar="FILE", paths=True, http=Access.DATASET)
    ] = ()
    """Cases to measure instead of those in the file."""
    train: Annotated[_CaseSets, replace(_CASES, environment=False)] = ()
    """Cases to learn from."""
    holdout: Annotated[_CaseSets, replace(_CASES, environment=False, aliases=("--val",))] = ()
    """Cases that decide."""
    test: Annotated[_CaseSets, _CASES] = ()
    """Sealed cases, scored once at the end."""
    input: Annotated[Text | None, _COLUMN] = None
    """The column with the question, where burnish would take another one."""
    expected: Annotated[Text | None, _COLUMN] = None
    """The column with the expected answer, where burnish would take another one."""

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are named, as readers of cases take them."""
        return {name: getattr(self, name) or "" for name in _COLUMNS}

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        data = cast("Mapping[str, JsonValue]", value)
        single = [k for k, v in data.items() if k not in _COLUMNS and isinstance(v, str | dict)]
        return {**data, **{name: [data[name]] for name in single}}


class MetricsSpec(Settings):
    """What is measured, besides the metrics in the target's file."""

    blocks: tuple[AgentMetric, ...] = ()
    """Metrics in the format of agent files."""
    file: Annotated[
        Text | None,
        Door(
            flag="metrics",
            panel="Cases",
            metavar="FILE",
            paths=True,
            environment=False,
            replaces=("blocks",),
        ),
    ] = None
    """Metrics from a file, instead of all others."""
    names: Annotated[
        tuple[Text, ...],
        replace(_MEASURED, flag="metric", metavar="NAME", http_name="metrics"),
    ] = ()
    """Only this metric, by name; may be repeated."""
    judge: Annotated[ModelBlock | None, replace(_MEASURED, metavar="MODEL", http=Access.MODEL)] = (
        None
    )
    """The model that judges if a metric names none."""
    second_judge: Annotated[
        ModelBlock | None,
        replace(_CASES, metavar="MODEL", paths=False, environment=False, http=Access.MODEL),
    ] = None
    """A model that judges baseline and best once more at the end; a disagreement is reported."""
    user_simulator: ModelBlock | None = None
    """The model that plays the user in scenarios."""


class PenaltiesSpec(Settings):
    """What cost and latency add to the loss."""

    cost_per_usd: NotNegative = 0.0
    latency_per_sec: NotNegative = 0.0


class ConstraintSpec(Settings):
    """A condition that must hold before anything is compared."""

    metric: Text
    """A metric, or `loss`, `pass_rate`, `cost_usd`, `latency_sec`, `failed_cases`."""
    op: Operator
    value: bool | float
    """A number, or true or false."""


class TieBreakerSpec(Settings):
    """`{lower: length_tokens}` or `{higher: clarity}`."""

    lower: Text | None = None
    higher: Text | None = None

    @model_validator(mode="after")
    def _one(self) -> "TieBreakerSpec":
        if (self.lower is None) == (self.higher is None):
            raise ValueError("set either lower or higher to the name of a number")
        return self


class ObjectiveSpec(Settings):
    """How evaluations are reduced to numbers that can be compared."""

    weights: dict[str, AboveZero] = Field(default_factory=dict[str, float])
    """The weight of each metric; others are only measured. Without weights, all count equally."""
    penalties: PenaltiesSpec = Field(default_factory=PenaltiesSpec)
    constraints: tuple[ConstraintSpec, ...] = ()
    tie_breakers: tuple[TieBreakerSpec, ...] = ()
    primary_metric: Text | None = None
    """The number to compare, for strategies that compare one number."""
    direction: Direction = "maximize"
    tolerance: NotNegative = 0.0
    """Numbers that differ by no more than this are a tie."""
    worst: float | None = None
    """The number that counts as 0, for strategies that compare scores from 0 to 1."""
    best: float | None = None
    """The number that counts as 1."""

    @model_validator(mode="after")
    def _scale(self) -> "ObjectiveSpec":
        if (self.worst is None) != (self.best is None) or (
            self.worst is not None and self.worst == self.best
        ):
            raise ValueError("worst and best must both be set, to different numbers")
        return self

    def objective(self, weights: Mapping[str, float]) -> Objective:
        """The objective, with `weights` if it has none."""
        return Objective(
            weights=self.weights or weights,
            penalties=Penalties(**self.penalties.model_dump()),
            constraints=tuple(
                Constraint(metric=each.metric, op=each.op, value=float(each.value))
                for each in self.constraints
            ),
            tie_breakers=tuple(
                TieBreaker(metric=str(each.higher), prefer="higher")
                if each.lower is None
                else TieBreaker(metric=each.lower, prefer="lower")
                for each in self.tie_breakers
            ),
        )


class BudgetSpec(Limits):
    """Limits. The first one that is reached ends the run."""

    max_proposals: AtLeastOne | None = None
    """Proposals, whatever their outcome."""
    max_tracked_candidates: AtLeastOne | None = None
    """Candidates that are kept to build on."""
    pass_rate_threshold: Share | None = None
    """Stop when the incumbent passes every metric in this share of the cases."""
    required_metrics: tuple[str, ...] = ()
    """Stop when the incumbent passes these metrics on every case."""
    metric_thresholds: dict[str, float] = Field(default_factory=dict[str, float])
    """Stop when the incumbent's mean of each of these metrics reaches its threshold."""

    def budget(self) -> Budget:
        """The limits as a Budget."""
        return Budget(**{name: getattr(self, name) for name in type(self).model_fields})


class RetrySpec(Settings):
    """How often a case is tried when the infrastructure fails while others are answered, and how
    long to wait in between."""

    attempts: AtLeastOne = 1
    first_wait: NotNegative = 0.5
    longest_wait: NotNegative = 60.0


WORKER_FIELDS = ("executor", "address", "workers", "upload", "send_keys")
"""The fields of an execution that say where cases are run; workers get the others."""


class ExecutionSpec(Settings):
    """How cases are run."""

    seed: Annotated[
        int, Field(ge=-(2**63), lt=2**63), Door(flag="*", panel="Options", http=Access.CLIENT)
    ] = DEFAULT_SEED
    """Seed for all randomness."""
    concurrency: Annotated[Places, Door(flag="*", panel="Options", http=Access.CEILING)] = (
        DEFAULT_CONCURRENCY
    )
    """Cases run at once."""
    confirm: Annotated[
        bool,
        Door(
            flag="*",
            panel="Cases",
            http=Access.CLIENT,
            runs="searches",
            off="Do not measure baseline and best again at the end.",
        ),
    ] = True
    """Without sealed cases, measure baseline and best again at the end, on fresh draws."""
    time_limit: AboveZero | None = None
    """Seconds per case; by default, 300 for each call of a Python function."""
    wait_minutes: NotNegative = WAIT_MINUTES
    """Minutes to wait while nobody answers, be it a model or the agent; then the run stops, and can
    be resumed."""
    retry: RetrySpec = Field(default_factory=RetrySpec)
    infrastructure_errors: tuple[str, ...] = ()
    """Names of exceptions that are not the agent's fault, besides the usual ones."""

    executor: Annotated[Literal["local", "processes", "dask"], Door(flag="*", panel="Workers")] = (
        "local"
    )
    """Where cases are run: `local` in this process, `processes` on all cores of this machine,
    `dask` on a Dask cluster."""
    address: Annotated[Text | None, Door(flag="*", panel="Workers", metavar="ADDRESS")] = None
    """The scheduler of a running Dask cluster, such as tcp://10.0.0.1:8786."""
    workers: Annotated[Places | None, Door(flag="*", panel="Workers")] = None
    """Worker processes to start on this machine; by default one per core."""
    upload: Annotated[
        Text | None, Door(flag="*", panel="Workers", metavar="FOLDER", paths=True)
    ] = None
    """A folder with code and data that workers get a copy of; hidden files stay here."""
    send_keys: Annotated[
        tuple[Text, ...],
        Door(flag="send_key", panel="Workers", metavar="NAME", environment=False),
    ] = ()
    """An environment variable whose value workers get from here; may be repeated. By default they
    have their own."""

    def case_policy(self) -> CasePolicy:
        """How one case is run."""
        return CasePolicy(
            time_limit=self.time_limit,
            retry=RetryPolicy(**self.retry.model_dump()),
            infrastructure_errors=self.infrastructure_errors,
        )


_TAG = re.compile(r"\w[\w.:/ -]{0,49}")


def _checked_tag(tag: str) -> str:
    """A word to find a run by; ValueError if it could not be read or typed."""
    if _TAG.fullmatch(tag) is None or tag != tag.strip():
        raise ValueError(
            f"'{shorten(visible(tag), 60)}' cannot be a tag: use up to 50 letters, digits, "
            "spaces, '.', ':', '/', '-' and '_'"
        )
    return tag


class OutputSpec(Settings):
    """What is left when the run has ended."""

    tags: Annotated[
        tuple[Annotated[str, AfterValidator(_checked_tag)], ...],
        Door(
            flag="tag",
            panel="Look back",
            metavar="NAME",
            environment=False,
            http=Access.CLIENT,
            http_name="tags",
        ),
    ] = ()
    """A word by which the run can be found again; may be repeated."""

    keep_best_only: Annotated[bool, Door(flag="*", http=Access.CLIENT, runs="searches")] = False
    """At the end, remove the candidates that are not the best."""
    baseline_only: Annotated[
        bool, Door(flag="print_baseline", panel="Look first", runs="searches")
    ] = False
    """Measure the agent as it is, then stop."""
    update_source: Annotated[
        bool,
        Door(flag="*", panel="Prompts of any agent", environment=False, runs="searches"),
    ] = False
    """At the end, write the best into the prompt files."""
    in_place: Annotated[bool, Door(flag="*", panel="Files", environment=False, runs="searches")] = (
        False
    )
    """At the end, write the best into your files, all or none."""
    redact: Annotated[Literal["known-keys", "own-secrets"], Door(flag="*", panel="Options")] = (
        "known-keys"
    )
    """What is removed from the files of a run: whatever looks like a key, or (`own-secrets`) only
    the values of your own secrets. Metrics always see the whole answer."""


_TRACKED = Door(flag="*", panel="Options", environment=False)


class TrackingSpec(Settings):
    """Other systems that show the run."""

    to: Annotated[
        tuple[Literal["mlflow", "wandb", "otel"], ...],
        replace(_TRACKED, flag="track"),
    ] = ()
    """Show the run in `mlflow`, `wandb` or, as OpenTelemetry spans, `otel`; may be repeated."""
    uri: Annotated[Text | None, replace(_TRACKED, flag="tracking_uri", metavar="URI")] = None
    """The server to track with, instead of the one that its own variables name."""
    project: Annotated[Text | None, replace(_TRACKED, flag="tracking_project", metavar="NAME")] = (
        None
    )
    """The experiment of MLflow or the project of Weights & Biases; `burnish` if not set."""
    contents: Annotated[bool, replace(_TRACKED, flag="track_contents")] = False
    """Let OpenTelemetry spans contain prompts and answers."""

    @model_validator(mode="after")
    def _one_server(self) -> "TrackingSpec":
        if self.uri is not None and len(self.to) > 1:
            raise ValueError("uri is for one system: set their own variables for several")
        return self


class RunSpec(Settings, Generic[T, S]):
    """The target, cases, metrics, objective, strategy and limits of a run."""

    source: Source = Field(default_factory=Source)
    target: T
    data: DataSpec = Field(default_factory=DataSpec)
    metrics: MetricsSpec = Field(default_factory=MetricsSpec)
    objective: ObjectiveSpec = Field(default_factory=ObjectiveSpec)
    strategy: StrategySpec[S]
    roles: dict[str, ModelBlock] = Field(default_factory=dict[str, ModelBlock])
    """The models of the strategy by role, such as reflector or critic."""
    budget: BudgetSpec = Field(default_factory=BudgetSpec)
    execution: ExecutionSpec = Field(default_factory=ExecutionSpec)
    models: ModelsBlock = Field(default_factory=ModelsBlock)
    """How models are called: prices, limits, attempts."""
    output: OutputSpec = Field(default_factory=OutputSpec)
    tracking: TrackingSpec = Field(default_factory=TrackingSpec)

    def to_json(self) -> dict[str, JsonValue]:
        """The values that were set, from which the same description can be read again."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def overriding(self, *paths: tuple[str, ...]) -> Self:
        """The same description, in which a program has set these fields after reading the file."""
        overridden = tuple(sorted({*(self.source.overridden or ()), *paths}))
        source = self.source.model_copy(update={"overridden": overridden})
        return self.model_copy(update={"source": source})


# In quotes: as a class of its own it would be one more model to build, which nobody reads.
AnySpec: TypeAlias = "RunSpec[Any, Any]"


@cache
def spec_type(target: type[TargetSpec], settings: type[StrategySettings]) -> type[AnySpec]:
    """The whole model of a run for one kind of target and one strategy."""
    return RunSpec[target, settings]


TAGS = "tags.json"
"""The file of a run whose tags were changed since its start."""
_STORED = TypeAdapter(tuple[str, ...])
_MOST = 50


def tags_of(folder: Path, header: Header | None = None) -> tuple[str, ...]:
    """The tags of a run, in the order of the alphabet; none if they cannot be read."""
    try:
        if (folder / TAGS).is_file():
            return _STORED.validate_json(read_text(folder / TAGS))
        stored = (header or Header.read(folder)).project.spec.get("output", {})
        return tuple(sorted(set(OutputSpec.model_validate(stored).tags)))
    except ValidationError:
        return ()


def change_tags(
    folder: Path, *, add: Iterable[str] = (), remove: Iterable[str] = ()
) -> tuple[str, ...]:
    """Add and remove tags; returns those that the run has then."""
    before = tags_of(folder)
    unknown = sorted({*remove} - {*before})
    if unknown:
        there = ", ".join(before) or "none"
        raise ConfigError.of("tag", f"the run has no tag '{unknown[0]}'", f"it has: {there}")
    return set_tags(folder, {*before, *add} - {*remove})


def set_tags(folder: Path, tags: Iterable[str]) -> tuple[str, ...]:
    """Replace the tags of a run; returns them in order."""
    try:
        changed = tuple(sorted(set(map(_checked_tag, tags))))
    except ValueError as error:
        raise ConfigError.of("tag", str(error), "name another one") from None
    if len(changed) > _MOST:
        raise ConfigError.of("tag", f"a run has {_MOST} tags at most", "remove some")
    write_inside(folder, TAGS, json.dumps(changed, ensure_ascii=False) + "\n")
    return changed
