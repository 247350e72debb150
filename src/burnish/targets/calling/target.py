"""What all agents that are called have in common: turns, scenarios, prices, nothing to edit."""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.candidates import Candidate, Origin
from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.effects import Effects, Receipt
from burnish.core.errors import ConfigError, Problem, RoleFailed
from burnish.core.money import Spend, to_nano
from burnish.core.outcomes import Failure, FailureKind, Outcome
from burnish.core.protocols import Description, Role
from burnish.core.surfaces import Surface
from burnish.evaluation.simulation import DEFAULT_TURNS, NextRemark, TalkSoFar, converse
from burnish.targets.calling.talks import AgentStopped, AgentTalk, Reply


@dataclass(frozen=True, kw_only=True)
class CallingTarget(ABC):
    """An agent that is called turn by turn.

    A run of a case is one conversation, journaled as a whole: an agent with a memory cannot be
    taken up in the middle. Whatever the agent raises is for the run to judge.
    """

    version: str = ""
    """Change it when the agent changed in a way that burnish cannot see."""
    usd_per_call: float | None = None
    """What a call costs; None where that is not known, which is not 0."""
    user: Role[TalkSoFar, NextRemark] | None = None
    """Who plays the user in scenarios."""
    leaf: bool = True

    def __post_init__(self) -> None:
        if found := self.problems():
            raise ConfigError(found)

    def problems(self) -> Sequence[Problem]:
        """What is wrong with the settings, each with the setting it is about."""
        return ()

    @property
    @abstractmethod
    def description(self) -> Description:
        """What it is, as data."""

    @property
    @abstractmethod
    def remembers(self) -> bool:
        """Whether a later turn can know of an earlier one."""

    @abstractmethod
    def conversation(self) -> AbstractAsyncContextManager[Reply]:
        """The agent at the beginning of a conversation."""

    @property
    def surfaces(self) -> Sequence[Surface]:
        """Nothing: what is inside such an agent is not known."""
        return ()

    @property
    def baseline(self) -> Candidate:
        """The agent as it is."""
        return Candidate(values={}, origin=Origin(kind="baseline"))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """There is nothing to be wrong with."""
        del candidate
        return ()

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """There is nothing to adopt."""
        del candidate, home
        return {}

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Have the conversation of a case."""
        del candidate
        async with self.conversation() as reply:
            talk = AgentTalk(
                reply=reply,
                session=uuid.uuid4().hex,
                usd_per_call=self._nano_per_call,
                history=list(case.history),
            )
            outcome = await self._had(talk, case, draw=draw, effects=effects)
        return Receipt(value=outcome, spend=talk.spend())

    async def _had(self, talk: AgentTalk, case: Case, *, draw: int, effects: Effects) -> Outcome:
        try:
            if case.scenario is None:
                for turn in case.turns:
                    await talk.say(turn.input)
                return talk.outcome()
            await converse(case, talk.say, user=self._player(case), draw=draw, effects=effects)
        except AgentStopped:
            if case.scenario is None:
                return talk.outcome()
        except RoleFailed as error:
            return replace(talk.outcome(), failure=_nobody_played(error))
        return replace(talk.outcome(), asked=tuple(turn.asked for turn in talk.turns))

    def _player(self, case: Case) -> Role[TalkSoFar, NextRemark]:
        if self.user is None:
            raise ConfigError([no_player(case)])
        return self.user

    def estimate(self, case: Case) -> Spend:
        """A call a turn; a scenario may take as many turns as it is allowed."""
        price = self._nano_per_call
        one = Spend(calls=1, nano_usd=price or 0, unpriced=int(price is None))
        if case.scenario is None:
            return one.times(len(case.turns))
        turns = case.scenario.max_turns or DEFAULT_TURNS
        if self.user is not None:
            request = TalkSoFar(plan=case.scenario.plan, conversation="")
            one += self.user.estimate(request)
        return one.times(turns)

    @property
    def _nano_per_call(self) -> int | None:
        return None if self.usd_per_call is None else to_nano(self.usd_per_call)

    def _described(self, kind: str, config: Mapping[str, Json]) -> Description:
        """The description, with what every such agent has."""
        said: dict[str, Json] = {"version": self.version} if self.version else {}
        if self.user is not None:
            said["user_simulator"] = self.user.fingerprint
        return Description(kind=kind, config={**config, **said})


def no_player(case: Case) -> Problem:
    """What to say of a scenario that nobody can play."""
    return Problem(
        where=case.id,
        message="this case is a scenario, and there is nobody to play its user",
        remedy="name a model that plays it: user_simulator: openai:gpt-4o-mini",
    )


def _nobody_played(error: RoleFailed) -> Failure:
    return Failure(
        kind=FailureKind.INFRASTRUCTURE,
        message=f"the user could not be played: {error.message}",
        error=type(error).__name__,
    )
