"""Optimise by optimizer_custom.json, which names an algorithm of this folder."""

import asyncio

import greedy_rules
from running import run

from burnish.compat import OPTIMIZER_REGISTRY

if __name__ == "__main__":
    OPTIMIZER_REGISTRY.register(greedy_rules.NAME, greedy_rules.GreedyRules)
    asyncio.run(run("custom"))
