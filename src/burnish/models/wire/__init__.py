"""Models behind HTTP, by pydantic-ai: nothing outside this package knows of it."""

from burnish.models.wire.backend import WireBackend

__all__ = ["WireBackend"]
