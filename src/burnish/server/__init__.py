"""The service: runs of every strategy over HTTP, in a database, each driven by one process."""

from typing import TYPE_CHECKING

from burnish.lazy_names import lazy_names

if TYPE_CHECKING:
    from burnish.server.application import create_app
    from burnish.server.apps import EngineApp, FileApp, engine_of
    from burnish.server.launcher import ServiceLimits
    from burnish.server.manager import RunManager
    from burnish.server.routes.promptiter import run_result
    from burnish.server.runs import Datasets
    from burnish.server.security import Security
    from burnish.server.stores import open_store
    from burnish.server.tokens import TokenBook

_HOMES = {
    "application": ("create_app",),
    "apps": ("EngineApp", "FileApp", "engine_of"),
    "launcher": ("ServiceLimits",),
    "manager": ("RunManager",),
    "routes.promptiter": ("run_result",),
    "runs": ("Datasets",),
    "security": ("Security",),
    "stores": ("open_store",),
    "tokens": ("TokenBook",),
}

__all__ = [
    "Datasets",
    "EngineApp",
    "FileApp",
    "RunManager",
    "Security",
    "ServiceLimits",
    "TokenBook",
    "create_app",
    "engine_of",
    "open_store",
    "run_result",
]

__getattr__ = lazy_names(__name__, _HOMES)
