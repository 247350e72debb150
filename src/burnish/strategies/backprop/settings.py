"""The settings of back-propagation."""

from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BeforeValidator, Field

from burnish.core.cases import Dataset
from burnish.core.content import AtLeastOne, NoneOrMore, NotNegative, Share
from burnish.core.false_accepts import NullRuns, false_accepts
from burnish.core.gates import Guards
from burnish.strategies.backprop.packets import Severity
from burnish.strategies.settings import PruningSettings
from burnish.system.settings import Access, Door, Settings, Text

GateName: TypeAlias = Literal["min_gain", "sigma", "strict"]
_PARALLELISM = 16
_OPEN = Door(http=Access.CLIENT)
_LIMIT = Door(http=Access.LIMIT)


class LossHint(Settings):
    """What a person says about a case that fails a metric."""

    case: Text
    metric: Text
    reason: Text
    severity: Severity = Severity.P1


class GuardSettings(Settings):
    """What an accept may not break, whatever the mean says."""

    protected: Annotated[
        tuple[Text, ...], Door(http=Access.CLIENT, http_name="protected_cases")
    ] = ()
    """Cases of holdout whose score may not fall."""
    no_new_failures: Annotated[bool, _OPEN] = False
    """No case that passed may fail."""
    floors: Annotated[dict[str, Share], Door(http=Access.CLIENT, http_name="metric_floors")] = (
        Field(default_factory=dict[str, float])
    )
    """By metric, the lowest mean that is allowed."""

    def guards(self) -> Guards:
        return Guards(**self.model_dump())


def _at_once(value: Any) -> Any:
    """The number that `{enabled, at_once}` or a plain true or false stands for."""
    if isinstance(value, bool):
        return _PARALLELISM if value else 1
    if not isinstance(value, dict):
        return value
    data = cast("dict[str, Any]", value)
    if set(data) - {"enabled", "at_once"}:
        return data
    return data.get("at_once", _PARALLELISM) if data.get("enabled", True) else 1


_AtOnce: TypeAlias = Annotated[AtLeastOne, BeforeValidator(_at_once), Door(http=Access.CEILING)]


class BackpropSettings(PruningSettings):
    """How far and how wide the search goes, and by which rule."""

    targets: Annotated[tuple[Text, ...], _OPEN] = ()
    """The surfaces that may be patched; all of them if none is named."""
    max_rounds: Annotated[AtLeastOne, Door(flag="*", panel="Limits", http=Access.LIMIT)] = 4
    """Rounds of back-propagation."""
    max_rounds_without_acceptance: Annotated[NoneOrMore, _OPEN] = 0
    """Rounds in a row without an accept, after which the search ends; 0 means no limit."""
    target_score: Annotated[Share | None, _OPEN] = None
    """The score of the incumbent on holdout at which the search ends."""
    min_score_gain: Annotated[float, _OPEN] = 0.0
    """How much a candidate must gain under the gate `min_gain`."""
    gate: Annotated[GateName, _OPEN] = "min_gain"
    """The rule by which a candidate is accepted."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=Access.CLIENT)] = 1.0
    """How many times its noise a gain must be, under the gates that measure noise."""
    guards: GuardSettings = Field(default_factory=GuardSettings)
    candidates_per_round: Annotated[AtLeastOne, _LIMIT] = 1
    """Patches of each surface that are made and tried in a round."""
    patches_alone: Annotated[bool, _OPEN] = True
    """After a round in which no candidate is accepted, try each of its patches alone, those of the
    most blamed surface first."""
    cases_per_round: Annotated[AtLeastOne | None, _LIMIT] = None
    """The most failing cases that are walked back in a round; all of them if not set."""
    loss_hints: Annotated[tuple[LossHint, ...], _OPEN] = ()
    """What a person says about cases that fail."""
    loss_targets: Annotated[dict[str, Text], _OPEN] = Field(default_factory=dict[str, str])
    """By metric, the node where its losses begin instead of where the run ended."""
    backward_parallelism: _AtOnce = _PARALLELISM
    """Cases that are walked back at once."""
    aggregation_parallelism: _AtOnce = _PARALLELISM
    """Surfaces whose gradients are merged at once."""
    patch_parallelism: _AtOnce = _PARALLELISM
    """Surfaces that are patched at once."""
    merge_single: bool = False
    """Ask the aggregator even if there is only one gradient."""

    def by_luck(self, data: Dataset) -> str:
        """How often a run would accept patches that change nothing."""
        runs = NullRuns(
            train=len(data.train) if self.gate == "sigma" else 0,
            holdout=len(data.holdout),
            repeats=self.repeats,
            trials=self.max_rounds * self.candidates_per_round,
            holdout_gains=self.gate != "sigma",
            unit="score" if self.gate == "min_gain" else "noise",
        )
        if self.gate != "min_gain":
            return false_accepts(runs, self.accept_sigma).words
        # This bar knows nothing of noise, so the rate depends on how large it is.
        words = false_accepts(runs, self.min_score_gain).words
        return f"where every case is as noisy as a coin, {words}; with less noise fewer are"
