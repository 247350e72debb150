"""Optimise by optimizer_advanced.json."""

import asyncio

from running import run

if __name__ == "__main__":
    asyncio.run(run("advanced"))
