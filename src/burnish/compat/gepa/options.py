"""The keywords of gepa.optimize: which have a meaning here, and which are refused, and why."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from pydantic import ConfigDict, Field, ValidationError

from burnish.core.errors import ConfigError, Problem
from burnish.runs.spec import TrackingSpec
from burnish.strategies.reflective.settings import ReflectiveSettings
from burnish.system.settings import Settings

_UNUSED = {
    "acceptance_criterion": "burnish's gates decide",
    "batch_sampler": "minibatches are drawn by the seed, so that a resume draws the same",
    "max_reflection_cost": "an adapter's own costs are unknown, so US dollars cannot be limited",
    "reflection_strategy": "pass custom_candidate_proposer",
    "sampling_strategy": "burnish chooses parents itself; see candidate_selection_strategy",
    "selection_strategy": "burnish chooses among proposals itself",
    "val_evaluation_policy": "candidates race over the validation set, until the verdict is clear",
    "wandb_api_key": "set the variable WANDB_API_KEY",
    "wandb_attach_existing": "a run is tracked as a run of its own",
    "mlflow_attach_existing": "a run is tracked as a run of its own",
}
"""Keywords of gepa that are refused, and why."""


class GepaOptions(Settings):
    """The keywords of gepa.optimize that have a meaning here."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    task_lm: Any = None
    evaluator: Any = None
    reflection_lm: Any = None
    reflection_lm_kwargs: dict[str, Any] | None = None
    candidate_selection_strategy: Literal[
        "pareto", "current_best", "epsilon_greedy", "top_k_pareto", "trail"
    ] = "pareto"
    frontier_type: Literal["instance"] = "instance"
    skip_perfect_score: bool = True
    reflection_minibatch_size: int | None = None
    perfect_score: float = 1.0
    reflection_prompt_template: str | dict[str, str] | None = None
    custom_candidate_proposer: Any = None
    module_selector: Literal["round_robin", "all", "random"] = "round_robin"
    use_merge: bool = False
    max_merge_invocations: int = 5
    merge_val_overlap_floor: int = 5
    max_metric_calls: int | None = None
    stop_callbacks: Any = None
    callbacks: Sequence[Any] | None = None
    run_dir: str | None = None
    seed: int = 0
    use_wandb: bool = False
    wandb_init_kwargs: dict[str, Any] = Field(default_factory=dict[str, Any])
    use_mlflow: bool = False
    mlflow_tracking_uri: str | None = None
    mlflow_experiment_name: str | None = None
    logger: Any = None
    """Has no effect, like all fields below: burnish has its own progress, report and journal."""
    tracking_key_prefix: str = ""
    track_best_outputs: bool = True
    display_progress_bar: bool = False
    use_cloudpickle: bool = False
    cache_evaluation: bool = False
    raise_on_exception: bool = True

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "GepaOptions":
        """The options; every keyword that has no meaning here is refused, with the reason."""
        problems = [
            Problem(where=name, message="burnish does not take this", remedy=_UNUSED[name])
            for name, value in options.items()
            if name in _UNUSED and value not in (None, False)
        ]
        taken = {name: value for name, value in options.items() if name not in _UNUSED}
        try:
            made = cls(**taken)
        except ValidationError as error:
            for each in error.errors():
                where = ".".join(map(str, each["loc"]))
                problems.append(Problem(where=where, message=each["msg"]))
            made = cls()
        if problems:
            raise ConfigError(problems)
        return made

    def search(self) -> ReflectiveSettings:
        return ReflectiveSettings(
            parent_selection=self.candidate_selection_strategy,
            field_selection=self.module_selector,
            minibatch=self.reflection_minibatch_size or 3,
            perfect_score=self.perfect_score,
            skip_perfect=self.skip_perfect_score,
            merge=self.use_merge,
            max_merges=self.max_merge_invocations,
            merge_overlap=self.merge_val_overlap_floor,
        )

    def tracking(self) -> TrackingSpec:
        project = self.mlflow_experiment_name or self.wandb_init_kwargs.get("project")
        names = ("mlflow", self.use_mlflow), ("wandb", self.use_wandb)
        to = [name for name, used in names if used]
        return TrackingSpec.model_validate(
            {"to": to, "uri": self.mlflow_tracking_uri, "project": project}
        )

    @property
    def stoppers(self) -> list[Callable[..., bool]]:
        stoppers: Any = self.stop_callbacks or ()
        return [cast("Callable[..., bool]", stoppers)] if callable(stoppers) else [*stoppers]
