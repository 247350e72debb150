"""Proposers: what a strategy offers to a search that combines several."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.money import Spend
from burnish.core.protocols import Role
from burnish.core.surfaces import Candidate
from burnish.core.trials import Decision, Proposal
from burnish.models.chat import ModelClient
from burnish.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class ProposerEvidence:
    """What a proposer may learn from: the incumbent and its results on train."""

    round: int
    parent: Candidate
    cases: tuple[Case, ...]
    """The minibatch on which the proposal will be compared first."""
    before: Evaluation
    """The incumbent on the minibatch."""
    train: Evaluation
    """All of the incumbent's results on train so far."""


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """A candidate, or the reason why there is none."""

    candidate: Candidate | None = None
    touched: tuple[str, ...] = ()
    """The surfaces that it changes."""
    proposals: tuple[Proposal, ...] = ()
    """What roles were asked and answered, if the run has not recorded it."""
    problems: tuple[Problem, ...] = ()
    """Why there is no candidate this time."""
    source: Mapping[str, Json] | None = None
    """Where it comes from, for the journal."""
    nothing_left: str = ""
    """Why there is nothing more to propose from this incumbent."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What became of a proposal."""

    accepted: bool = False
    gain: float | None = None
    """Over the incumbent on the minibatch; None if it is unknown."""
    problems: tuple[Problem, ...] = ()
    """Why it was not run."""
    decision: Decision | None = None


class CandidateProposer(Protocol):
    """Makes candidates from the incumbent, one at a time, through the journal of a run."""

    @property
    def need(self) -> Spend:
        """What a proposal is expected to cost before it is measured."""
        ...

    async def propose(self, evidence: ProposerEvidence) -> Proposed:
        """The next candidate."""
        ...

    def learn(self, tried: Tried) -> None:
        """Learn what became of the last candidate."""
        ...


@dataclass(frozen=True, kw_only=True)
class ProposerOffer:
    """A proposer that a strategy offers for a target, or the reason why it cannot."""

    name: str
    surfaces: tuple[str, ...] = ()
    """What it may change."""
    begin: Callable[[Run], CandidateProposer] | None = field(default=None, compare=False)
    """Makes the proposer of a run; None if it cannot work here."""
    fingerprint: str = ""
    """A hash of its settings."""
    roles: tuple[Role[Any, Any], ...] = ()
    client: ModelClient | None = field(default=None, compare=False)
    """The model that writes, if there is one."""
    left_out: str = ""
    """Why it cannot work here, and what to do about it."""
