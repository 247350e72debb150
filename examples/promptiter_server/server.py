"""PromptIter's routes over an engine, in an application of one's own."""

import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from burnish.server import EngineApp, RunManager, create_app

sys.path.insert(0, str(Path(__file__).parents[1] / "promptiter_syncrun"))
from desk import APP, engine


def application(folder: Path) -> FastAPI:
    """The service; runs lie in the folder, and are kept in memory only."""
    return create_app(RunManager([EngineApp(APP, engine())], data=folder))


if __name__ == "__main__":
    uvicorn.run(application(Path("results") / "service"), port=8080)
