"""A run in the background: started, watched and kept in a store by the run manager."""

import asyncio
import sys
import tempfile
from pathlib import Path

from burnish.server import EngineApp, RunManager, open_store, run_result

sys.path.insert(0, str(Path(__file__).parents[1] / "promptiter_syncrun"))
from desk import APP, engine, request


async def main(folder: Path) -> None:
    """Start a run, look at it until it has ended, read its result from the store."""
    store = await open_store(f"sqlite:///{folder / 'runs.db'}")
    async with RunManager([EngineApp(APP, engine())], data=folder, store=store) as manager:
        run = await manager.start(APP, request())
        print(f"started: {run.status.value}")  # noqa: T201
        seen = ""
        while not run.status.finished:
            run = await manager.get(APP, run.run_id)
            told = f"round {run.current_round}, {run.status.value}"
            if told != seen:
                print(told)  # noqa: T201
            seen = told
            await asyncio.sleep(0.01)
        events = await manager.events(APP, run.run_id)
        result = await run_result(store, run)
    print(f"{len(events)} events, best score {run.best_score}")  # noqa: T201
    print(f"rounds in the result: {len(result['Rounds'])}")  # noqa: T201


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(main(Path(temporary)))
