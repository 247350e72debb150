"""What one PromptIter run is asked to do."""

from typing import Any, Literal

from pydantic import Field, field_serializer

from burnish.compat.promptiter.structure import Profile
from burnish.compat.promptiter.wire import CamelWire, Wire, unknown_keys
from burnish.core.bounds import (
    MOST,
    MOST_PLACES,
    AboveZero,
    AtLeastOne,
    NotNegative,
    Repeats,
)
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem


def _empty(value: object) -> bool:
    return not value


def _absent(value: object) -> bool:
    return value is None


class LossHint(CamelWire):
    """What a person says about a case that fails a metric."""

    eval_case_id: str = ""
    metric_name: str = ""
    severity: str = ""
    """P0 to P3; P1 where it is empty."""
    reason: str = ""


class LossTarget(CamelWire):
    """The node where the losses of a metric begin, instead of where the run ended."""

    metric_name: str = ""
    node_id: str = ""


class EvalSetInput(CamelWire):
    """An eval set, or some of its cases."""

    eval_set_id: str = ""
    eval_case_ids: tuple[str, ...] = ()
    """All of them where none is named."""
    loss_hints: tuple[LossHint, ...] = ()
    loss_targets: tuple[LossTarget, ...] = ()


class EvaluationOptions(Wire):
    """How many cases run at once; 0 leaves it to burnish."""

    eval_case_parallelism: int = Field(default=0, le=MOST_PLACES)
    eval_case_parallel_inference_enabled: bool = True
    """Off, cases run one after the other, and are scored as they come."""
    eval_case_parallel_evaluation_enabled: bool = True
    """Off, they are scored one after the other."""


class BackwardOptions(Wire):
    """How many cases are walked back at once."""

    case_parallelism_enabled: bool = True
    case_parallelism: int = Field(default=0, le=MOST_PLACES)


class SurfaceOptions(Wire):
    """How many surfaces are worked on at once."""

    surface_parallelism_enabled: bool = True
    surface_parallelism: int = Field(default=0, le=MOST_PLACES)


class AggregationOptions(SurfaceOptions):
    """How many surfaces are merged at once."""


class OptimizerOptions(SurfaceOptions):
    """How many surfaces are patched at once."""


class AcceptancePolicy(Wire):
    """What a gain must be; a tie is none, unless a loss is allowed."""

    min_score_gain: float = 0.0


class StopPolicy(Wire):
    """When to stop before the last round."""

    max_rounds_without_acceptance: int = Field(default=0, le=MOST)
    """0 is no limit."""
    target_score: float | None = None


class BurnishOptions(Wire):
    """What burnish adds to PromptIter: repeats, gates, guards, budgets."""

    repeats: Repeats = 1
    gate: Literal["min_gain", "sigma", "strict"] = "min_gain"
    accept_sigma: NotNegative = 1.0
    protected_cases: tuple[str, ...] = ()
    """Validation cases that may not get worse: `case`, or `set/case` where two sets have it."""
    no_new_failures: bool = False
    metric_floors: dict[str, float] = Field(default_factory=dict[str, float])
    """The least mean of a metric on validation."""
    candidates_per_round: AtLeastOne = 1
    cases_per_round: AtLeastOne | None = None
    """At most so many failing cases are walked back in a round."""
    max_metric_calls: AtLeastOne | None = None
    max_calls: AtLeastOne | None = None
    max_tokens: AtLeastOne | None = None
    max_usd: AboveZero | None = None
    max_minutes: AboveZero | None = None
    seed: int = 42


class RunRequest(Wire):
    """The input of one run. Name sets by id alone, or as inputs that say more of each."""

    where = "run"

    train: tuple[EvalSetInput, ...] = Field(default=(), alias="train")
    validation: tuple[EvalSetInput, ...] = Field(default=(), alias="validation")
    train_eval_set_ids: tuple[str, ...] = Field(default=(), exclude_if=_empty)
    validation_eval_set_ids: tuple[str, ...] = Field(default=(), exclude_if=_empty)
    initial_profile: Profile | None = None
    target_surface_ids: tuple[str, ...] = ()
    teacher: Any = None
    """Writes reference answers: an async function of the question, or a target."""
    judge: Any = None
    """Answers judges' questions: an async function of the message."""
    evaluation_options: EvaluationOptions = Field(default_factory=EvaluationOptions)
    backward_options: BackwardOptions = Field(default_factory=BackwardOptions)
    aggregation_options: AggregationOptions = Field(default_factory=AggregationOptions)
    optimizer_options: OptimizerOptions = Field(default_factory=OptimizerOptions)
    acceptance_policy: AcceptancePolicy = Field(default_factory=AcceptancePolicy)
    stop_policy: StopPolicy = Field(default_factory=StopPolicy)
    max_rounds: int = Field(default=0, le=MOST)
    burnish: BurnishOptions | None = Field(default=None, exclude_if=_absent)

    @field_serializer("teacher", "judge")
    def _no_runner(self, value: Any) -> None:
        """A runner is code, and has no JSON."""
        del value

    @property
    def options(self) -> BurnishOptions:
        """What burnish is told, or its defaults."""
        return self.burnish or BurnishOptions()

    @property
    def train_inputs(self) -> tuple[EvalSetInput, ...]:
        """The sets to learn from, whichever way they were named."""
        return _inputs(self.train, self.train_eval_set_ids)

    @property
    def validation_inputs(self) -> tuple[EvalSetInput, ...]:
        """The sets that decide, whichever way they were named."""
        return _inputs(self.validation, self.validation_eval_set_ids)


def read_request(data: Json, *, strict: bool) -> tuple[RunRequest, list[str]]:
    """A request that came as JSON, and what is to be warned of.

    Keys that nobody knows are refused when `strict`, else ignored with a warning each. Teacher
    and judge are code, which JSON cannot carry.
    """
    if not isinstance(data, dict):
        raise ConfigError([Problem(where="run", message="the request must be an object")])
    unknown = [f"unknown field '{path}'" for path in unknown_keys(data, RunRequest)]
    carried = [
        Problem(where=key, message="a runner cannot be sent as JSON", remedy="leave it out")
        for key, value in data.items()
        if key.lower() in {"teacher", "judge"} and value is not None
    ]
    refused = [Problem(where="run", message=told) for told in unknown] if strict else []
    if refused or carried:
        raise ConfigError([*refused, *carried])
    return RunRequest.from_json(data), [f"{told} is ignored" for told in unknown]


def _inputs(given: tuple[EvalSetInput, ...], ids: tuple[str, ...]) -> tuple[EvalSetInput, ...]:
    return (*given, *(EvalSetInput(eval_set_id=name) for name in ids))
