"""What can run under a name: project files, and PromptIter engines."""

from burnish.server.apps.engines import EngineApp, FileApp

__all__ = ["EngineApp", "FileApp"]
