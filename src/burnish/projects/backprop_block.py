"""The settings of back-propagation as project and agent files say them."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from burnish.strategies.backprop.packets import Severity
from burnish.strategies.backprop.settings import BackpropSettings, GateName, GuardSettings, LossHint
from burnish.strategies.backprop.wording import AGGREGATOR, BACKWARDER, PATCHER
from burnish.system.settings import AtLeastOne, NoneOrMore, NotNegative, Settings, Share

PROPOSER = "proposer"
"""Who fills the roles that nobody is named for."""
ROLES = (BACKWARDER, AGGREGATOR, PATCHER)
_USUAL = BackpropSettings()
Text = Annotated[str, Field(min_length=1)]


class GuardsBlock(Settings):
    """What an accept may not break, whatever the mean says."""

    protected: tuple[Text, ...] = ()
    """Cases of holdout whose score may not fall."""
    no_new_failures: bool = False
    floors: dict[str, Share] = Field(default_factory=dict[str, float])
    """The least mean of a metric."""


class HintBlock(Settings):
    """What a person says about a case that fails a metric."""

    case: Text
    metric: Text
    reason: Text
    severity: Severity = Severity.P1


class ParallelBlock(Settings):
    """How many are asked about at once. A number alone is short for `{at_once: …}`."""

    enabled: bool = True
    at_once: AtLeastOne = _USUAL.backward_parallelism

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if isinstance(value, bool):
            return {"enabled": value}
        return {"at_once": value} if isinstance(value, int) else value

    @property
    def size(self) -> int:
        """One at a time where it is switched off."""
        return self.at_once if self.enabled else 1


class BackpropBlock(Settings):
    """The settings of back-propagation."""

    targets: tuple[Text, ...] = ()
    """The surfaces that may be patched; all of them when none is named."""
    max_rounds: AtLeastOne = _USUAL.max_rounds
    max_rounds_without_acceptance: NoneOrMore = 0
    target_score: Share | None = None
    min_score_gain: float = _USUAL.min_score_gain
    gate: GateName = _USUAL.gate
    accept_sigma: NotNegative = _USUAL.accept_sigma
    guards: GuardsBlock = Field(default_factory=GuardsBlock)
    candidates_per_round: AtLeastOne = _USUAL.candidates_per_round
    cases_per_round: AtLeastOne | None = None
    loss_hints: tuple[HintBlock, ...] = ()
    loss_targets: dict[str, Text] = Field(default_factory=dict[str, str])
    """By metric, the node where its losses begin."""
    backward_parallelism: ParallelBlock = Field(default_factory=ParallelBlock)
    aggregation_parallelism: ParallelBlock = Field(default_factory=ParallelBlock)
    patch_parallelism: ParallelBlock = Field(default_factory=ParallelBlock)
    merge_single: bool = _USUAL.merge_single

    def settings(self, *, repeats: int) -> BackpropSettings:
        """How the search goes about it."""
        guards = GuardSettings(
            protected=self.guards.protected,
            no_new_failures=self.guards.no_new_failures,
            floors=self.guards.floors,
        )
        return BackpropSettings(
            targets=self.targets,
            max_rounds=self.max_rounds,
            max_rounds_without_acceptance=self.max_rounds_without_acceptance,
            target_score=self.target_score,
            min_score_gain=self.min_score_gain,
            gate=self.gate,
            accept_sigma=self.accept_sigma,
            guards=guards,
            repeats=repeats,
            candidates_per_round=self.candidates_per_round,
            cases_per_round=self.cases_per_round,
            loss_hints=tuple(LossHint(**hint.model_dump()) for hint in self.loss_hints),
            loss_targets=self.loss_targets,
            backward_parallelism=self.backward_parallelism.size,
            aggregation_parallelism=self.aggregation_parallelism.size,
            patch_parallelism=self.patch_parallelism.size,
            merge_single=self.merge_single,
        )
