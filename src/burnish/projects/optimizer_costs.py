"""What a search over an agent file is expected to cost, told before anything is paid."""

import math
from dataclasses import replace

from burnish.core.cases import Case, Split
from burnish.core.money import NOTHING, Spend, total
from burnish.core.outcomes import Usage
from burnish.models.calling import ModelClient
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.costs import Expected, asking, expected
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.targets.agent.demonstrating import demonstrations_of
from burnish.targets.agent.loading import LoadedAgent
from burnish.targets.agent.target import AgentTarget
from burnish.targets.graph import GraphTarget
from burnish.targets.graph.nodes import AgentNode

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
    if isinstance(target, AgentTarget) and spend.calls:
        return _asked(target.agent, target.client, case, spend)
    if isinstance(target, GraphTarget) and spend.calls:
        return _nodes(target, case, spend)
    return spend


def _nodes(target: GraphTarget, case: Case, spend: Spend) -> Spend:
    """Every agent once a turn, as if it were asked the question alone."""
    turns = spend.calls // len(target.clients)
    agents = {n.name: n.agent for n in target.graph.nodes.values() if isinstance(n, AgentNode)}
    return total(
        _asked(agents[name], client, case, client.estimate().times(turns))
        for name, client in target.clients.items()
    )


def _asked(agent: LoadedAgent, client: ModelClient, case: Case, spend: Spend) -> Spend:
    usage = _usage(agent, client, case, spend.calls)
    cost = client.prices.nano_usd(client.ref, usage) if client.priced else 0
    known = {"tokens_in": usage.input_tokens, "tokens_out": usage.output_tokens}
    return replace(spend, nano_usd=cost or 0, **known)


def _usage(agent: LoadedAgent, client: ModelClient, case: Case, calls: int) -> Usage:
    """By the length of prompts and references: each turn says again what was said before."""
    standing = len(agent.instructions.text) + sum(
        demo.size for demo in demonstrations_of(agent.block)
    )
    said, read, written = standing + sum(len(m.content) for m in case.history), 0, 0
    most = client.ref.settings.max_tokens or math.inf
    for turn in (case.turns * calls)[:calls]:
        said += len(turn.input)
        read += math.ceil(said / _CHARS)
        reply = _REPLY if turn.expected is None else len(turn.expected) // _CHARS + _SLACK
        written += int(min(reply, most))
        said += reply * _CHARS
    return Usage(requests=calls, input_tokens=read, output_tokens=written)
