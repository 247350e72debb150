"""RunSpec: the one description of a run.

Every door writes it: a file dialect translates its words into it, flags, environment variables,
HTTP settings and resume overrides patch it. run.json keeps it with `${VAR}` as written, and resume,
fork, the service and its queue build the run from it and from nothing else.

The parts that a target or a strategy brings are its own models, chosen by name: `spec_type` makes
the whole model for a pair of them.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, TypeAlias, TypeVar, cast

from pydantic import Field, JsonValue, WithJsonSchema, model_validator

from burnish.core.content import AboveZero, AtLeastOne, NotNegative, Places, Repeats, Share
from burnish.core.evaluations import Constraint, Objective, Operator, Penalties, TieBreaker
from burnish.core.strict_gate import Direction
from burnish.journal.limits import Budget, RetryPolicy
from burnish.metrics.files import AgentMetric
from burnish.models.factory import ModelsBlock
from burnish.models.model_block import ModelBlock
from burnish.runs.evaluation import CasePolicy
from burnish.system.settings import Door, Limits, Settings, Text

DEFAULT_SEED = 42
DEFAULT_CONCURRENCY = 8
T = TypeVar("T", bound="TargetSpec")
S = TypeVar("S", bound="StrategySettings")


class Source(Settings):
    """Where a description was read."""

    kind: str = "python"
    """The dialect, or `python` for a run that a program started."""
    name: str = ""
    """What the file calls its subject; reports name it."""
    file: str = ""
    """By its whole path; empty where no file was read."""
    folder: str = ""
    """What relative paths in the description are relative to."""
    digest: str = ""
    """A hash of the file as it was read: a run that goes on says whether it has changed since."""
    variables: tuple[tuple[str, ...], ...] = ()
    """The fields of the description that are kept with `${VAR}` as written, and expanded when the
    run is built."""
    document: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """What the file says in its own words, where a run writes files that repeat it."""


class TargetSpec(Settings):
    """What is made better. Each kind of target derives its own model."""

    kind: str


class StrategySettings(Settings):
    """How a strategy searches. Each strategy derives its own model."""

    without_holdout: ClassVar[str] = ""
    """How to do without a holdout, in words, where that can be done."""

    repeats: Annotated[Repeats, Door(flag="*", http=True)] = 1
    """Runs of every case; they show the noise."""

    @property
    def uses_holdout(self) -> bool:
        """Whether cases decide that nothing is learned from."""
        return True


class StrategySpec(Settings, Generic[S]):
    """The strategy and its settings."""

    name: Annotated[Text, Door(flag="strategy", metavar="NAME", http=True)]
    """How to search."""
    settings: S


class CaseSet(Settings):
    """A file of cases, and which of them. A path alone is short for `{file: …}`."""

    short: ClassVar[str] = "file"
    file: Text
    cases: tuple[Text, ...] = ()
    """All of them where none is named."""


def _listed(value: object) -> object:
    """One file of cases stands for a list of one."""
    return [value] if isinstance(value, str | dict) else value  # pyright: ignore[reportUnknownVariableType]


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
"""Files of cases; one alone stands for a list of one."""
_CASES = Door(flag="*", panel="Cases", metavar="FILE", paths=True, http=True, runs="searches")
_MEASURED_CASES = replace(_CASES, panel="What is measured", environment=False, runs="measurements")


class DataSpec(Settings):
    """The cases: what proposals learn from, what decides, and what is looked at once."""

    cases: Annotated[_CaseSets, _MEASURED_CASES] = ()
    """Cases to measure, in place of those of the file."""
    train: Annotated[_CaseSets, replace(_CASES, environment=False)] = ()
    """Cases to learn from."""
    holdout: Annotated[_CaseSets, replace(_CASES, environment=False, aliases=("--val",))] = ()
    """Cases that decide."""
    test: Annotated[_CaseSets, _CASES] = ()
    """Sealed cases, scored once, at the end."""

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        data = cast("Mapping[str, object]", value)
        return {key: _listed(item) for key, item in data.items()}


class MetricsSpec(Settings):
    """What is measured, beside what the target's own file measures."""

    blocks: tuple[AgentMetric, ...] = ()
    """Metrics as agent files write them."""
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
    """Metrics from a file, in place of others."""
    names: Annotated[
        tuple[Text, ...],
        Door(
            flag="metric",
            panel="What is measured",
            metavar="NAME",
            environment=False,
            http=True,
            http_name="metrics",
            runs="measurements",
        ),
    ] = ()
    """Only this metric, by name; may be repeated."""
    judge: Annotated[
        ModelBlock | None,
        Door(
            flag="*",
            panel="What is measured",
            metavar="MODEL",
            environment=False,
            http=True,
            runs="measurements",
        ),
    ] = None
    """Who judges where a metric names nobody."""
    user_simulator: ModelBlock | None = None
    """Who plays the user in scenarios."""


class PenaltiesSpec(Settings):
    """What is added to the loss for being dear or slow."""

    cost_per_usd: NotNegative = 0.0
    latency_per_sec: NotNegative = 0.0


class ConstraintSpec(Settings):
    """What must hold before anything is compared."""

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
            raise ValueError("say lower or higher, one of them, and of which number")
        return self


class ObjectiveSpec(Settings):
    """What evaluations are reduced to before they are compared."""

    weights: dict[str, AboveZero] = Field(default_factory=dict[str, float])
    """Metrics by weight, the others only measured; all weigh alike where none is named."""
    penalties: PenaltiesSpec = Field(default_factory=PenaltiesSpec)
    constraints: tuple[ConstraintSpec, ...] = ()
    tie_breakers: tuple[TieBreakerSpec, ...] = ()
    primary_metric: Text | None = None
    """The one number that counts, where one number counts."""
    direction: Direction = "maximize"
    tolerance: NotNegative = 0.0
    """Two numbers that are no further apart are a tie."""
    worst: float | None = None
    """For a strategy that compares scores from 0 to 1: what counts as 0."""
    best: float | None = None
    """And what counts as 1."""

    @model_validator(mode="after")
    def _scale(self) -> "ObjectiveSpec":
        if (self.worst is None) != (self.best is None) or (
            self.worst is not None and self.worst == self.best
        ):
            raise ValueError("worst and best go together, and differ")
        return self

    def objective(self, weights: Mapping[str, float]) -> Objective:
        """The objective; `weights` where none are named."""
        return Objective(
            weights=self.weights or weights,
            penalties=Penalties(**self.penalties.model_dump()),
            constraints=tuple(
                Constraint(metric=each.metric, op=each.op, value=float(each.value))
                for each in self.constraints
            ),
            tie_breakers=tuple(map(_tie_breaker, self.tie_breakers)),
        )


def _tie_breaker(spec: TieBreakerSpec) -> TieBreaker:
    if spec.lower is not None:
        return TieBreaker(metric=spec.lower, prefer="lower")
    return TieBreaker(metric=str(spec.higher), prefer="higher")


class BudgetSpec(Limits):
    """Limits. Whichever is reached first ends the run."""

    max_proposals: AtLeastOne | None = None
    """Proposals that were made, whatever became of them."""
    max_tracked_candidates: AtLeastOne | None = None
    """Candidates that are kept to build on."""
    pass_rate_threshold: Share | None = None
    """Good enough: the share of cases in which the incumbent passes every metric."""
    required_metrics: tuple[str, ...] = ()
    """Good enough: the incumbent passes these metrics on every case."""
    metric_thresholds: dict[str, float] = Field(default_factory=dict[str, float])
    """Good enough: the incumbent's mean of each of these metrics reaches its threshold."""

    def budget(self) -> Budget:
        """The limits as the run meters them."""
        return Budget(**{name: getattr(self, name) for name in type(self).model_fields})


class RetrySpec(Settings):
    """How often a case is tried when the infrastructure fails, and how long to wait."""

    attempts: AtLeastOne = 1
    first_wait: NotNegative = 0.5
    longest_wait: NotNegative = 60.0


class ExecutionSpec(Settings):
    """How cases are run."""

    seed: Annotated[
        int, Field(ge=-(2**63), lt=2**63), Door(flag="*", panel="Options", http=True)
    ] = DEFAULT_SEED
    """Seed of all randomness."""
    concurrency: Annotated[Places, Door(flag="*", panel="Options", http=True)] = DEFAULT_CONCURRENCY
    """Cases run at once."""
    time_limit: AboveZero | None = None
    """Seconds a case may take; not said, 300 for each call of a Python function."""
    retry: RetrySpec = Field(default_factory=RetrySpec)
    infrastructure_errors: tuple[str, ...] = ()
    """Names of error types that are not the agent's fault, beside the usual ones."""

    def case_policy(self) -> CasePolicy:
        """How one case is run."""
        return CasePolicy(
            time_limit=self.time_limit,
            retry=RetryPolicy(**self.retry.model_dump()),
            infrastructure_errors=self.infrastructure_errors,
        )


class OutputSpec(Settings):
    """What is left when the run has ended."""

    keep_best_only: Annotated[bool, Door(flag="*", http=True, runs="searches")] = False
    """At the end, remove the candidates that are not the best."""
    baseline_only: Annotated[
        bool, Door(flag="print_baseline", panel="Look first", runs="searches")
    ] = False
    """Measure the agent as it is, and stop."""
    update_source: Annotated[
        bool,
        Door(flag="*", panel="Prompts of any agent", environment=False, runs="searches"),
    ] = False
    """In the end put the best into the prompt files."""
    in_place: Annotated[bool, Door(flag="*", panel="Files", environment=False, runs="searches")] = (
        False
    )
    """In the end put the best into your files, all or none."""


class RunSpec(Settings, Generic[T, S]):
    """What to optimise, on which cases, by which measure, how, and how far."""

    source: Source = Field(default_factory=Source)
    target: T
    data: DataSpec = Field(default_factory=DataSpec)
    metrics: MetricsSpec = Field(default_factory=MetricsSpec)
    objective: ObjectiveSpec = Field(default_factory=ObjectiveSpec)
    strategy: StrategySpec[S]
    roles: dict[str, ModelBlock] = Field(default_factory=dict[str, ModelBlock])
    """The models that the strategy asks, by role: reflector, critic and the like."""
    budget: BudgetSpec = Field(default_factory=BudgetSpec)
    execution: ExecutionSpec = Field(default_factory=ExecutionSpec)
    models: ModelsBlock = Field(default_factory=ModelsBlock)
    """How models are called: prices, limits, attempts."""
    output: OutputSpec = Field(default_factory=OutputSpec)

    def to_json(self) -> dict[str, JsonValue]:
        """What was set, so that the same description can be read again; `${VAR}` stays."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


AnySpec: TypeAlias = RunSpec[Any, Any]


@cache
def spec_type(target: type[TargetSpec], settings: type[StrategySettings]) -> type[AnySpec]:
    """The whole model of a run for one kind of target and one strategy."""
    return RunSpec[target, settings]
