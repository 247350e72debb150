"""The settings of back-propagation."""

from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BeforeValidator, Field

from burnish.core.content import AtLeastOne, NoneOrMore, NotNegative, Share
from burnish.core.gates import Guards
from burnish.runs.spec import StrategySettings
from burnish.strategies.backprop.packets import Severity
from burnish.system.settings import Door, Settings, Text

GateName: TypeAlias = Literal["min_gain", "sigma", "strict"]
_PARALLELISM = 16


class LossHint(Settings):
    """What a person says about a case that fails a metric."""

    case: Text
    metric: Text
    reason: Text
    severity: Severity = Severity.P1


class GuardSettings(Settings):
    """What an accept may not break, whatever the mean says."""

    protected: tuple[Text, ...] = ()
    """Cases of holdout whose score may not fall."""
    no_new_failures: bool = False
    """No case that passed may fail."""
    floors: dict[str, Share] = Field(default_factory=dict[str, float])
    """The least mean of a metric."""

    def guards(self) -> Guards:
        """The guards as the gate checks them."""
        return Guards(**self.model_dump())


def _at_once(value: Any) -> Any:
    """`{enabled, at_once}` and a plain true or false as the number that they mean."""
    if isinstance(value, bool):
        return _PARALLELISM if value else 1
    if not isinstance(value, dict):
        return value
    data = cast("dict[str, Any]", value)
    if set(data) - {"enabled", "at_once"}:
        return data
    return data.get("at_once", _PARALLELISM) if data.get("enabled", True) else 1


_AtOnce: TypeAlias = Annotated[AtLeastOne, BeforeValidator(_at_once)]


class BackpropSettings(StrategySettings):
    """How far, how wide, and by which rule."""

    targets: tuple[Text, ...] = ()
    """The surfaces that may be patched; all of them when none is named."""
    max_rounds: Annotated[AtLeastOne, Door(flag="*", panel="Limits", http=True)] = 4
    """Rounds of back-propagation."""
    max_rounds_without_acceptance: NoneOrMore = 0
    """Rounds in a row without an accept, after which it is over; 0 is no limit."""
    target_score: Share | None = None
    """Good enough: the incumbent's score on holdout."""
    min_score_gain: float = 0.0
    """How much a candidate must gain under the gate `min_gain`."""
    gate: GateName = "min_gain"
    """The rule by which a candidate is accepted."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=True)] = 1.0
    """How many times its noise a gain must be, under the gates that measure noise."""
    guards: GuardSettings = Field(default_factory=GuardSettings)
    candidates_per_round: AtLeastOne = 1
    """Patches of each surface that are made and tried in a round."""
    cases_per_round: AtLeastOne | None = None
    """At most so many failing cases are walked back in a round; all of them when not given."""
    loss_hints: tuple[LossHint, ...] = ()
    """What a person says about cases that fail."""
    loss_targets: dict[str, Text] = Field(default_factory=dict[str, str])
    """By metric, the node where its losses begin instead of where the run ended."""
    backward_parallelism: _AtOnce = _PARALLELISM
    """Cases that are walked back at once."""
    aggregation_parallelism: _AtOnce = _PARALLELISM
    """Surfaces whose gradients are merged at once."""
    patch_parallelism: _AtOnce = _PARALLELISM
    """Surfaces that are patched at once."""
    merge_single: bool = False
    """Ask the aggregator even where there is one gradient only."""
