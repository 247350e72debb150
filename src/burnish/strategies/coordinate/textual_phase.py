"""The phase of texts: a critic diagnoses, an applier edits, one text a trial."""

from collections.abc import Sequence
from typing import Any

from burnish.core.content import Json
from burnish.core.errors import RoleFailed
from burnish.core.money import Spend
from burnish.core.protocols import Role
from burnish.core.surfaces import TextSurface
from burnish.core.trials import TrialDetails
from burnish.models.roles import ModelRole
from burnish.runs.run import Run
from burnish.strategies.coordinate.memory import Memory
from burnish.strategies.coordinate.phases import Phase, PhaseEnd
from burnish.strategies.coordinate.probing import DEAD_AXES
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.strategies.coordinate.trying import Attempt, Incumbent, Tried
from burnish.strategies.coordinate.wording import (
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    Rejected,
    failing,
    gradients_told,
    rejections_told,
    traces_told,
)

REMEMBERED = 3
"""Rejected diagnoses that the critic is told of."""
MAX_CHARS = 8000
"""For a text without a bound of its own."""


class TextualPhase(Phase):
    """Texts, one a trial, in turn, until patience is out or nothing fails."""

    name = "textual"

    def __init__(
        self,
        run: Run,
        settings: CoordinateSettings,
        *,
        cycle: int,
        limits: PhaseLimits,
        memory: Memory,
        critic: Role[CritiqueRequest, Gradient],
        applier: Role[EditRequest, Edit],
    ) -> None:
        super().__init__(run, settings, cycle=cycle, limits=limits, memory=memory)
        self._critic = critic
        self._applier = applier
        self._secrets = run.secrets
        self._texts: Sequence[str] = settings.texts

    @property
    def axis(self) -> str:
        """Whose turn it is."""
        return self._texts[self.trials % len(self._texts)]

    async def go(self, incumbent: Incumbent) -> PhaseEnd:
        """Edit one text after the other, each on top of what was accepted."""
        named = [self.surfaces[name] for name in self.settings.texts]
        self._texts = [axis.id for axis in await self.probing.alive(named, incumbent)]
        if not self._texts:
            return self.end(incumbent, DEAD_AXES)
        while not (reason := self.over(incumbent)):
            tried = await self._edit(self.axis, incumbent)
            incumbent = tried.incumbent
            self.count(tried)
        return self.end(incumbent, reason)

    def nothing_left(self, incumbent: Incumbent) -> str:
        """Without a failure that may be shown there is nothing to diagnose."""
        if self._traces(incumbent):
            return ""
        return "failures_not_to_show" if failing(incumbent.train, self.metrics) else "no_failures"

    def need(self, incumbent: Incumbent) -> Spend:
        """A trial, and the two roles."""
        critique = self._critic.estimate(self._critique(self.axis, incumbent))
        edit = self._applier.estimate(self._commission(self.axis, incumbent, "(none)"))
        return self.trying.need + critique + edit

    async def _edit(self, axis: str, incumbent: Incumbent) -> Tried:
        critique = self._critique(axis, incumbent)
        # The same text with the same failures may be diagnosed again: another draw, another view.
        draw = self.run.trial
        try:
            gradient = await self.run.ask(self._critic, critique, draw=draw)
        except RoleFailed as error:
            return self._turned_away(axis, incumbent, error.message)
        critic = {**_played_by(self._critic), **gradient.model_dump(mode="json")}
        if gradient.confidence < self.settings.min_confidence:
            why = f"low confidence: {gradient.confidence:.2f}"
            return self._turned_away(axis, incumbent, why, critic=critic)
        commission = self._commission(axis, incumbent, gradients_told([gradient]))
        try:
            edit = await self.run.ask(self._applier, commission, draw=draw)
        except RoleFailed as error:
            failed: Json = {**_played_by(self._applier), "error": error.message}
            return self._turned_away(axis, incumbent, error.message, critic=critic, applier=failed)
        said: dict[str, Json] = edit.model_dump(mode="json", exclude={"new_text"})
        told: Json = {**_played_by(self._applier), **said}
        attempt = _attempt(axis, edit.new_text, critic=critic, applier=told)
        tried = await self.trying.attempt(attempt, incumbent)
        if not tried.accepted:
            rejected = Rejected(gradient=gradient, reason=tried.reason)
            self.memory.rejected.setdefault(axis, []).append(rejected)
        return tried

    def _turned_away(self, axis: str, incumbent: Incumbent, why: str, **said: Json) -> Tried:
        attempt = _attempt(axis, _text(axis, incumbent), **said)
        return self.trying.turned_away(attempt, incumbent, why)

    def _critique(self, axis: str, incumbent: Incumbent) -> CritiqueRequest:
        return CritiqueRequest(
            axis=axis,
            current_text=_text(axis, incumbent),
            failing_traces="\n\n".join(self._traces(incumbent)),
            previous_gradients=rejections_told(self.memory.rejected.get(axis, [])[-REMEMBERED:]),
        )

    def _traces(self, incumbent: Incumbent) -> list[str]:
        failures = failing(incumbent.train, self.metrics)
        return traces_told(failures, self.run.dataset.train, secrets=self._secrets)

    def _commission(self, axis: str, incumbent: Incumbent, gradient: str) -> EditRequest:
        surface = self.surfaces[axis]
        assert isinstance(surface, TextSurface)
        return EditRequest(
            axis=axis,
            current_text=_text(axis, incumbent),
            gradient=gradient,
            max_chars=surface.max_chars or MAX_CHARS,
        )


def _played_by(role: Role[Any, Any]) -> dict[str, Json]:
    """Which model plays a role, for the audit row; nothing where none does."""
    return {"model": role.client.ref.label} if isinstance(role, ModelRole) else {}


def _text(axis: str, incumbent: Incumbent) -> str:
    return str(incumbent.candidate.values[axis])


def _attempt(axis: str, text: str, **said: Json) -> Attempt:
    """A text for an axis, with what the roles said of it."""
    source: dict[str, Json] = {"kind": "textual", **said}
    return Attempt(
        values={axis: text},
        note=axis,
        details=TrialDetails(axis_target=axis, proposal_source=source),
    )
