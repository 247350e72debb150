"""Stoppers of one's own: callables that are asked in every round, with a label or without."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from burnish.compat.optimizer_state import SearchState, Voice
from burnish.strategies.reflective.result_rounds import UNLABELLED

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


class LabeledStopper:
    """A stopper whose label becomes the `stop_reason` when it stops the run."""

    def __init__(self, inner: Callable[..., bool], label: str) -> None:
        self.inner = inner
        self.label = label
        self.last_triggered = False
        """Whether it said stop when it was last asked."""

    def __call__(self, gepa_state: Any = None) -> bool:
        self.last_triggered = asked(self.inner, gepa_state)
        return self.last_triggered


def asked(stopper: Callable[..., bool], state: Any) -> bool:
    """What a stopper says, which is given the state if it takes any."""
    takes = inspect.signature(stopper).parameters.values()
    return bool(stopper(state) if any(each.kind in _POSITIONAL for each in takes) else stopper())


def by_label(
    stoppers: Sequence[Callable[..., bool]], state: SearchState, voice: Voice
) -> dict[str, Callable[[], bool]]:
    """The stoppers as a run takes them; those with one label are asked together."""
    found: dict[str, list[Callable[[], bool]]] = {}
    for number, stopper in enumerate(stoppers, 1):
        said = getattr(stopper, "label", "")
        label = said if isinstance(said, str) and said else f"{UNLABELLED} {number}"
        found.setdefault(label, []).append(_asking(stopper, label, state, voice))
    return {label: _any_of(asked) for label, asked in found.items()}


def _asking(
    stopper: Callable[..., bool], label: str, state: SearchState, voice: Voice
) -> Callable[[], bool]:
    def ask() -> bool:
        try:
            return asked(stopper, state)
        except Exception as error:  # noqa: BLE001 - the user's own: a monitor that is down stops nothing
            told = f"{type(error).__name__}: {error}"
            voice.warn(f"stopper:{label}", f"the stopper '{label}' raised {told}; the run goes on")
            return False

    return ask


def _any_of(asked: Sequence[Callable[[], bool]]) -> Callable[[], bool]:
    def ask() -> bool:
        # Each of them is asked, so that each knows whether it was the one.
        said = [each() for each in asked]
        return any(said)

    return ask
