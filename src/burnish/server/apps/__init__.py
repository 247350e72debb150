"""Apps: project files and PromptIter engines under a name."""

from burnish.server.apps.engines import EngineApp, FileApp

__all__ = ["EngineApp", "FileApp"]
