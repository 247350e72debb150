"""Optimise by optimizer_baseline.json."""

import asyncio

from running import run

if __name__ == "__main__":
    asyncio.run(run("baseline"))
