"""A PromptIter result as it grows, told in pieces; and put together again from them.

Only what a stage added is told, so what an event costs does not grow with the run.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, cast

from burnish.compat.promptiter import RoundResult, RunResult
from burnish.core.content import Json
from burnish.server.stores.records import NewEvent, RunChanges, RunEvent
from burnish.server.work import Tell

_HEAD = {"structure": "structure_snapshot", "baseline_validation": "baseline_validation"}
_ROUND = {
    "train": "round_train_evaluation",
    "losses": "round_losses",
    "backward": "round_backward",
    "aggregation": "round_aggregation",
    "patches": "round_patch_set",
    "output_profile": "round_output_profile",
    "validation": "round_validation",
}
STARTED, COMPLETED, ACCEPTED = "round_started", "round_completed", "accepted_profile"
_KEYS = {
    "structure_snapshot": "Structure",
    "baseline_validation": "BaselineValidation",
    "round_train_evaluation": "Train",
    "round_losses": "Losses",
    "round_backward": "Backward",
    "round_aggregation": "Aggregation",
    "round_patch_set": "Patches",
    "round_output_profile": "OutputProfile",
    "round_validation": "Validation",
}
_ENDING = ("Acceptance", "Stop", "Burnish")


class _Told(Protocol):
    def to_json(self) -> dict[str, Json]: ...


class Pieces:
    """Compares each state of a result with the one before, and tells what is new."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._before = RunResult()
        self._told: dict[str, int] = {}

    def __call__(self, result: RunResult) -> None:
        """Tell what this state adds; stages of an earlier session have the same keys again."""
        before, self._before = self._before, result
        for name, kind in _HEAD.items():
            if (value := getattr(result, name)) is not getattr(before, name):
                self._piece(kind, 0, _plain(value), RunChanges(best_score=_baseline(result, kind)))
        for number, now in enumerate(result.rounds):
            known = before.rounds[number] if number < len(before.rounds) else None
            if now is not known:
                self._round(known, now)
        if result.accepted_profile is not before.accepted_profile:
            profile = _plain(result.accepted_profile)
            self._piece(ACCEPTED, result.current_round, profile, RunChanges())

    def _round(self, before: RoundResult | None, now: RoundResult) -> None:
        if before is None:
            changes = RunChanges(current_round=now.round)
            self._piece(STARTED, now.round, _plain(now.input_profile), changes)
        before = before or RoundResult()
        for name, kind in _ROUND.items():
            value = getattr(now, name)
            if value is not getattr(before, name) and value is not None and value != ():
                self._piece(kind, now.round, _plain(value), RunChanges())
        if now.acceptance is not None and (now.acceptance, now.stop) != (
            before.acceptance,
            before.stop,
        ):
            self._piece(COMPLETED, now.round, _ending(now), RunChanges(best_score=_best(now)))

    def _piece(self, kind: str, number: int, payload: Json, changes: RunChanges) -> None:
        name = f"{number}:{kind}"
        self._told[name] = place = self._told.get(name, 0) + 1
        told = NewEvent(kind=kind, round=number, payload=payload, key=f"piece:{name}:{place}")
        self._tell(told, changes)


def assembled(events: Iterable[RunEvent], result: RunResult) -> dict[str, Json]:
    """The result so far: `result` says what the events do not."""
    told = result.to_json()
    rounds: dict[int, dict[str, Json]] = {}
    for event in events:
        part = rounds.get(event.round, {})
        if event.kind == STARTED:
            new = RoundResult(round=event.round).to_json()
            rounds[event.round] = {**new, "InputProfile": event.payload}
        elif event.kind == COMPLETED and isinstance(event.payload, dict):
            part.update({key: event.payload[key] for key in _ENDING if key in event.payload})
        elif event.kind == ACCEPTED:
            told["AcceptedProfile"] = event.payload
        elif event.kind in _HEAD.values():
            told[_KEYS[event.kind]] = event.payload
        elif event.kind in _KEYS:
            part[_KEYS[event.kind]] = event.payload
    told["Rounds"] = [rounds[number] for number in sorted(rounds)]
    return told


def _ending(now: RoundResult) -> dict[str, Json]:
    """RoundCompleted as PromptIter has it, and the parts that the round keeps."""
    accepted, stop = now.acceptance, now.stop
    assert accepted is not None
    found: dict[str, Json] = {
        "Accepted": accepted.accepted,
        "AcceptanceReason": accepted.reason,
        "ScoreDelta": accepted.score_delta,
        "ShouldStop": stop is not None and stop.should_stop,
        "StopReason": "" if stop is None else stop.reason,
        "Acceptance": accepted.to_json(),
        "Stop": None if stop is None else stop.to_json(),
    }
    return {**found, **({} if now.burnish is None else {"Burnish": now.burnish})}


def _best(now: RoundResult) -> float | None:
    taken = now.acceptance is not None and now.acceptance.accepted
    return now.validation.overall_score if taken and now.validation is not None else None


def _baseline(result: RunResult, kind: str) -> float | None:
    found = result.baseline_validation
    is_it = kind == _HEAD["baseline_validation"] and found is not None
    return found.overall_score if is_it and found is not None else None


def _plain(value: Any) -> Json:
    if value is None:
        return None
    if isinstance(value, tuple):
        return [each.to_json() for each in cast("Iterator[_Told]", value)]
    return cast("_Told", value).to_json()
