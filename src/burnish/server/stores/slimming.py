"""Results without their large parts, for those who ask only how a run went.

The result is a RunResult in the shape of PromptIter. What is left out becomes null: its key stays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from burnish.core.content import Json

_EVALUATIONS = ("Train", "Validation")


@dataclass(frozen=True, kw_only=True)
class Slimming:
    """What to leave out of a result."""

    evaluation_cases: bool = False
    """OmitEvaluationCases: the cases of every evaluation; the scores of the sets stay."""
    backward: bool = False
    """OmitBackward."""
    aggregation: bool = False
    """OmitAggregation."""
    patches: bool = False
    """OmitPatches."""
    profiles: bool = False
    """OmitProfiles: those of the rounds. The accepted one is what the run was for, and stays."""
    losses: bool = False
    """OmitLosses."""

    @property
    def _fields(self) -> tuple[str, ...]:
        wanted = (
            (self.backward, ("Backward",)),
            (self.aggregation, ("Aggregation",)),
            (self.patches, ("Patches",)),
            (self.profiles, ("InputProfile", "OutputProfile")),
            (self.losses, ("Losses",)),
        )
        return tuple(name for omit, names in wanted if omit for name in names)

    def round(self, value: Json) -> Json:
        """One round without what is left out."""
        if not isinstance(value, dict):
            return value
        slim = value | {name: None for name in self._fields if name in value}
        return self._without_cases(slim, _EVALUATIONS)

    def result(self, value: Json) -> Json:
        """A result without what is left out; what was given stays as it is."""
        if not isinstance(value, dict):
            return value
        slim = dict(value)
        if isinstance(rounds := slim.get("Rounds"), list):
            slim["Rounds"] = [self.round(each) for each in rounds]
        return self._without_cases(slim, ("BaselineValidation",))

    def _without_cases(self, value: dict[str, Json], names: tuple[str, ...]) -> dict[str, Json]:
        if not self.evaluation_cases:
            return value
        return value | {name: _scores(value[name]) for name in names if name in value}


FULL = Slimming()


def slimmed(result: Json, omit: Slimming) -> Json:
    """A RunResult without the parts that `omit` names; nothing is copied that stays."""
    return result if omit == FULL else omit.result(result)


def _scores(evaluation: Json) -> Json:
    """An evaluation without its cases."""
    return _changed(evaluation, "EvalSets", lambda sets: [_caseless(each) for each in sets])


def _caseless(eval_set: Json) -> Json:
    return _changed(eval_set, "Cases", lambda _: None)


def _changed(value: Json, name: str, change: Callable[[list[Json]], Json]) -> Json:
    if not isinstance(value, dict) or not isinstance(value.get(name), list):
        return value
    return {**value, name: change(cast("list[Json]", value[name]))}
