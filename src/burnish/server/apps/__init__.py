"""What can run under a name: project files, and PromptIter engines."""

from burnish.server.apps.engine_app import EngineApp
from burnish.server.apps.file_app import FileApp

__all__ = ["EngineApp", "FileApp"]
