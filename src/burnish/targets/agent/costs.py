"""What a case is expected to cost an agent, by the length of its prompt and of the references."""

import math
from dataclasses import replace

from burnish.core.cases import Case
from burnish.core.money import Spend
from burnish.core.outcomes import Usage
from burnish.models.chat import ModelClient
from burnish.targets.agent.demonstrating import demonstrations_of
from burnish.targets.agent.loading import LoadedAgent

_CHARS = 4
"""Characters that make about one token."""
_REPLY = 150
"""Tokens of a reply where no reference tells how long one is."""
_SLACK = 16
"""Tokens that a reply has more than its reference."""


def forecast(agent: LoadedAgent, client: ModelClient, case: Case, spend: Spend) -> Spend:
    """The calls of `spend` with the tokens and the money that they are expected to take."""
    usage = _usage(agent, client, case, spend.calls)
    cost = client.prices.nano_usd(client.ref, usage) if client.priced else 0
    tokens = {"tokens_in": usage.input_tokens, "tokens_out": usage.output_tokens}
    return replace(spend, nano_usd=cost or 0, **tokens)


def _usage(agent: LoadedAgent, client: ModelClient, case: Case, calls: int) -> Usage:
    """Each turn says again what was said before."""
    standing = len(agent.instructions.text) + sum(
        demo.size for demo in demonstrations_of(agent.block)
    )
    context, read, written = standing + sum(len(m.content) for m in case.history), 0, 0
    most = client.ref.settings.max_tokens or math.inf
    for turn in (case.turns * calls)[:calls]:
        context += len(turn.input)
        read += math.ceil(context / _CHARS)
        reply = _REPLY if turn.expected is None else len(turn.expected) // _CHARS + _SLACK
        written += int(min(reply, most))
        context += reply * _CHARS
    return Usage(requests=calls, input_tokens=read, output_tokens=written)
