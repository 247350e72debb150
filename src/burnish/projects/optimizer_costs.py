"""What a search over an agent file is expected to cost, told before anything is paid."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from burnish.core.cases import Case, Split
from burnish.core.money import NOTHING, Spend, total
from burnish.core.outcomes import Usage
from burnish.core.protocols import Role
from burnish.models.calling import ModelClient
from burnish.models.roles import ModelRole
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.settings import PhaseLimits
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.targets.agent.target import AgentTarget, demonstrations_of

_CHARS = 4
"""Characters that make about one token."""
_REPLY = 150
"""Tokens of a reply where no reference tells how long one is."""
_SLACK = 16
"""Tokens that a reply has more than its reference."""
_ROLE = Usage(requests=1, input_tokens=2500, output_tokens=500)
"""What a critic reads and says, as a rule: up to ten failing cases, and a paragraph."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What one trial and the whole run may come to. Tools and reasoning come on top."""

    train: Spend
    """One candidate over train, as often as it is repeated."""
    holdout: Spend
    roles: Spend
    """A critic and an applier, once each."""
    sealed: Spend
    least_trials: int
    """When nothing helps: every phase of the first cycle runs out of patience."""
    most_trials: int
    least: Spend
    most: Spend


def expected_costs(setup: Setup, strategy: Coordinate) -> Expected:
    """What the search is expected to cost, as well as can be told beforehand."""
    settings = strategy.settings
    train = _sweeps(setup, Split.TRAIN, settings.repeats)
    skip = settings.holdout_policy == "skip"
    holdout = NOTHING if skip else _sweeps(setup, Split.HOLDOUT, settings.repeats)
    sealed = _sweeps(setup, Split.TEST, 2 * setup.test_repeats)
    roles = total(_asked(role) for role in strategy.roles)
    phases, texts = _phases(strategy)
    few = [min(phase.patience, phase.max_trials) for phase in phases]
    least, most = sum(few), settings.max_cycles * sum(phase.max_trials for phase in phases)
    always = holdout if settings.holdout_policy == "every_trial" else NOTHING
    edits = min(texts.patience, texts.max_trials) if texts else 0
    whole = settings.max_cycles * texts.max_trials if texts else 0
    start = train + holdout + sealed
    return Expected(
        train=train,
        holdout=holdout,
        roles=roles,
        sealed=sealed,
        least_trials=least,
        most_trials=most,
        least=start + (train + always).times(least) + roles.times(edits),
        most=start + (train + holdout).times(most) + roles.times(whole),
    )


def _phases(strategy: Coordinate) -> tuple[Sequence[PhaseLimits], PhaseLimits | None]:
    """The limits of every phase, and those of the textual one."""
    settings = strategy.settings
    texts = settings.textual_phase if settings.texts else None
    there = [
        settings.demonstration_phase if settings.demonstrations else None,
        settings.numeric_phase if settings.numbers else None,
        texts,
    ]
    return [phase for phase in there if phase is not None], texts


def _sweeps(setup: Setup, split: Split, often: int) -> Spend:
    spends = (
        _run(setup, case) + total(metric.estimate(case) for metric in setup.metrics)
        for case in setup.dataset.cases(split)
    )
    return total(spends).times(often)


def _asked(role: Role[Any, Any]) -> Spend:
    """One question to a critic or an applier."""
    if not isinstance(role, ModelRole):
        return Spend(calls=1, unpriced=int(not role.priced))
    client: ModelClient = role.client
    cost = client.prices.nano_usd(client.ref, _ROLE) if client.priced else 0
    tokens = {"tokens_in": _ROLE.input_tokens, "tokens_out": _ROLE.output_tokens}
    return replace(client.estimate(), nano_usd=cost or 0, **tokens)


def _run(setup: Setup, case: Case) -> Spend:
    target = setup.target
    spend = target.estimate(case)
    if case.recorded is not None:
        return NOTHING
    if not isinstance(target, AgentTarget) or not spend.calls:
        return spend
    usage = _usage(target, case, spend.calls)
    cost = target.client.prices.nano_usd(target.client.ref, usage) if target.client.priced else 0
    known = {"tokens_in": usage.input_tokens, "tokens_out": usage.output_tokens}
    return replace(spend, nano_usd=cost or 0, **known)


def _usage(target: AgentTarget, case: Case, calls: int) -> Usage:
    """By the length of prompts and references: each turn says again what was said before."""
    standing = len(target.agent.instructions.text) + sum(
        len(demo.input) + len(demo.output) for demo in demonstrations_of(target.agent.block)
    )
    said, read, written = standing + sum(len(m.content) for m in case.history), 0, 0
    most = target.client.ref.settings.max_tokens or math.inf
    for turn in (case.turns * calls)[:calls]:
        said += len(turn.input)
        read += math.ceil(said / _CHARS)
        reply = _REPLY if turn.expected is None else len(turn.expected) // _CHARS + _SLACK
        written += int(min(reply, most))
        said += reply * _CHARS
    return Usage(requests=calls, input_tokens=read, output_tokens=written)
