"""The service: runs of every strategy over HTTP, kept in a store, driven by one process each."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burnish.server.application import create_app
    from burnish.server.apps import EngineApp, FileApp
    from burnish.server.apps.engines import engine_of
    from burnish.server.manager import RunManager, ServiceLimits
    from burnish.server.results import run_result
    from burnish.server.runs import Datasets
    from burnish.server.security import Security, TokenBook
    from burnish.server.stores import Slimming, open_store

_HOMES = {
    "Datasets": "runs",
    "EngineApp": "apps",
    "FileApp": "apps",
    "RunManager": "manager",
    "ServiceLimits": "manager",
    "Security": "security",
    "TokenBook": "security",
    "Slimming": "stores",
    "open_store": "stores",
    "create_app": "application",
    "engine_of": "apps.engines",
    "run_result": "results",
}

__all__ = [
    "Datasets",
    "EngineApp",
    "FileApp",
    "RunManager",
    "Security",
    "ServiceLimits",
    "Slimming",
    "TokenBook",
    "create_app",
    "engine_of",
    "open_store",
    "run_result",
]


def __getattr__(name: str) -> Any:
    """FastAPI and SQLAlchemy are loaded only where they are used."""
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(import_module(f"burnish.server.{_HOMES[name]}"), name)
