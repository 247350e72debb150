"""What a search over an agent file is expected to cost, told before anything is paid."""

import math
from dataclasses import replace

from burnish.core.cases import Case, Split
from burnish.core.money import NOTHING, Spend, total
from burnish.core.outcomes import Usage
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.costs import Expected, asking, expected
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.targets.agent.demonstrating import demonstrations_of
from burnish.targets.agent.target import AgentTarget

_CHARS = 4
"""Characters that make about one token."""
_REPLY = 150
"""Tokens of a reply where no reference tells how long one is."""
_SLACK = 16
"""Tokens that a reply has more than its reference."""


def expected_costs(setup: Setup, strategy: Coordinate) -> Expected:
    """What the search is expected to cost, as well as can be told beforehand."""
    settings = strategy.settings
    skip = settings.holdout_policy == "skip"
    train = sweeps(setup, Split.TRAIN, settings.repeats)
    holdout = NOTHING if skip else sweeps(setup, Split.HOLDOUT, settings.repeats)
    return expected(
        settings,
        baseline=train + holdout,
        train=train,
        holdout=holdout,
        roles=asking(strategy.roles),
        sealed=sweeps(setup, Split.TEST, 2 * setup.test_repeats),
    )


def sweeps(setup: Setup, split: Split, often: int, *, most: int | None = None) -> Spend:
    """What it takes to run the cases of a split so often, or the first few of them."""
    spends = (
        _run(setup, case) + total(metric.estimate(case) for metric in setup.metrics)
        for case in setup.dataset.cases(split)[:most]
    )
    return total(spends).times(often)


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
        demo.size for demo in demonstrations_of(target.agent.block)
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
