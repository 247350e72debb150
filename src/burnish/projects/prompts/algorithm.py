"""`optimize.algorithm` of an optimizer.json: how to search, with the seed's defaults."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from burnish.core.bounds import AboveZero, NoneOrMore
from burnish.effects.budget import Budget
from burnish.evaluation.configs.judge_shapes import JudgeModel
from burnish.evaluation.configs.shapes import Positive, Shape, Share, block
from burnish.strategies.reflective.settings import (
    MINIBATCH,
    FieldSelection,
    FrontierType,
    ParentSelection,
    ReflectiveSettings,
)

GEPA, REFLECTIVE = "gepa_reflective", "reflective"
BUILT_IN = (GEPA, REFLECTIVE)
"""The algorithms that burnish has: the seed's loop, and the same with racing."""

STOPPERS = (
    "max_metric_calls",
    "max_iterations_without_improvement",
    "timeout_seconds",
    "score_threshold",
    "max_candidate_proposals",
    "max_tracked_candidates",
)

Seconds = AboveZero


class ReflectionModel(JudgeModel):
    """Who rewrites prompts."""

    model_name: Annotated[str, Field(min_length=1)]
    job: ClassVar[str] = "the reflection model"

    @model_validator(mode="before")
    @classmethod
    def _no_nulls(cls, value: Any) -> Any:
        """`null` says nothing, as where the key is not there."""
        given = block(value)
        return {key: item for key, item in given.items() if item is not None} if given else value

    def ignored(self) -> list[str]:
        """The keys that are read and have no effect here."""
        more = {"num_samples": self.num_samples != 1, "weight": self.weight != 1}
        return [*super().ignored(), *(key for key, said in more.items() if said)]


class CustomAlgorithm(Shape):
    """An algorithm of the user's own: its block is for itself to read."""

    model_config = ConfigDict(extra="allow")

    name: str
    seed: int = 42


class ReflectiveAlgorithm(Shape):
    """Reflective search."""

    name: Literal["gepa_reflective", "reflective"]
    reflection_lm: ReflectionModel
    seed: int = 42
    candidate_selection_strategy: ParentSelection | None = None
    """Whom to build on; not said, `trail` with racing, and `pareto` as in the seed without."""
    module_selector: FieldSelection = "round_robin"
    frontier_type: FrontierType = "instance"
    reflection_minibatch_size: Positive | None = None
    reflection_history_top_k: Annotated[int, Field(ge=0, le=5)] = 2
    perfect_score: float = 1.0
    skip_perfect_score: bool = True
    use_merge: bool = False
    max_merge_invocations: NoneOrMore = 5
    merge_val_overlap_floor: Positive = 5
    cache_evaluation: bool = False
    """Use what was measured of a candidate again. With racing it is so unless it is said here."""
    track_best_outputs: bool = False

    max_metric_calls: Positive | None = None
    max_iterations_without_improvement: Positive | None = None
    timeout_seconds: Seconds | None = None
    score_threshold: Share | None = None
    """Of the pass rate on validation."""
    max_candidate_proposals: Positive | None = None
    max_tracked_candidates: Positive | None = None

    racing: bool | None = None
    """Stop evaluating when the verdict is clear; not said, `reflective` does and the seed's not."""
    proposals_per_round: Positive = 1
    max_prompt_chars: Positive | None = None
    """Of each prompt; a longer text is turned away before any call."""
    max_prompt_tokens: Positive | None = None
    """The same, estimated: see `prompt_limits`."""

    @model_validator(mode="after")
    def _ends(self) -> "ReflectiveAlgorithm":
        if all(getattr(self, name) is None for name in STOPPERS):
            raise ValueError(f"nothing would end the search: set one of {', '.join(STOPPERS)}")
        return self

    @property
    def races(self) -> bool:
        """Whether candidates are raced."""
        return self.name == REFLECTIVE if self.racing is None else self.racing

    def settings(self, *, repeats: int) -> ReflectiveSettings:
        """How the search goes about it."""
        said = "cache_evaluation" in self.model_fields_set
        usual: ParentSelection = "trail" if self.races else "pareto"
        return ReflectiveSettings(
            parent_selection=self.candidate_selection_strategy or usual,
            field_selection=self.module_selector,
            frontier=self.frontier_type,
            minibatch=self.reflection_minibatch_size or MINIBATCH,
            history_top_k=self.reflection_history_top_k,
            perfect_score=self.perfect_score,
            skip_perfect=self.skip_perfect_score,
            merge=self.use_merge,
            max_merges=self.max_merge_invocations,
            merge_overlap=self.merge_val_overlap_floor,
            reuse=self.cache_evaluation if said else self.races,
            repeats=repeats,
            racing=self.races,
            proposals_per_round=self.proposals_per_round,
        )

    def budget(self) -> Budget:
        """When it ends. Rounds are counted by their attempts, of which each may have several."""
        rounds, seconds = self.max_iterations_without_improvement, self.timeout_seconds
        return Budget(
            max_metric_calls=self.max_metric_calls,
            patience=None if rounds is None else rounds * self.proposals_per_round,
            max_minutes=None if seconds is None else seconds / 60,
            pass_rate_threshold=self.score_threshold,
            max_proposals=self.max_candidate_proposals,
            max_tracked_candidates=self.max_tracked_candidates,
        )
