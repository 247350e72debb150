"""The gate of every pull request: the agent as it stands, on the validation cases."""

import asyncio
from pathlib import Path

from agent.agent import call_agent

from burnish.compat import AgentEvaluator

HERE = Path(__file__).parent.parent


def test_agent_quality() -> None:
    """Red when a case fails; the message says which, and what was expected of it."""
    evaluated = AgentEvaluator.evaluate(
        eval_set_path=HERE / "data" / "val.evalset.json",
        call_agent=call_agent,
        test_config_path=HERE / "optimizer.json",
        print_detailed_results=False,
    )
    asyncio.run(evaluated)
