"""The embedded model: llama.cpp in this process, by xllamacpp, on a GGUF file."""

from burnish.models.embedded.backend import EmbeddedBackend

__all__ = ["EmbeddedBackend"]
