"""Prompt files as the homes of prompts: what run.json keeps of them, and their locks."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.runs.header import Header
from burnish.runs.homes import FILES, FileHome, FileHomes, measured_hashes
from burnish.system import read_bytes
from burnish.system.files import state_folder
from burnish.system.restoration import borrowed_folder, digest, restore_abandoned
from burnish.targets.prompts.fields import FileField, decoded, encoded
from burnish.targets.prompts.locking import lock_files
from burnish.targets.prompts.target_prompt import TargetPrompt

_PROMPTS = "prompts"
"""Where `Project.config` keeps the path of each field that is a file."""


def prompt_files(prompts: TargetPrompt) -> dict[str, Json]:
    """The fields that are files, and a hash of each."""
    paths = {field.name: str(field.path) for field in prompts.files}
    hashes = {str(field.path): digest(field.content()) for field in prompts.files}
    return {_PROMPTS: {**paths}, FILES: {**hashes}}


@dataclass(frozen=True, kw_only=True)
class PromptHomes(FileHomes):
    """A file a prompt; its mark and its line ends stay."""

    @classmethod
    def of(cls, header: Header) -> "PromptHomes | None":
        """Those of a run over prompts; None where none of them is a file."""
        paths = header.project.config.get(_PROMPTS)
        if not isinstance(paths, dict) or not paths:
            return None
        homes = {name: FileHome(path=Path(str(path))) for name, path in paths.items()}
        return cls(homes=homes, hashes=measured_hashes(header) or {})

    def home(self, surface: str) -> FileHome:
        """The file of a prompt."""
        if surface in self.homes:
            return self.homes[surface]
        message = "this prompt lies behind functions of a program, which burnish cannot call"
        remedy = "take its text from the run's folder and put it there yourself"
        raise ConfigError([Problem(where=surface, message=message, remedy=remedy)])

    @contextmanager
    def alone(self) -> Generator[None, None, None]:
        """Keeps runs that write candidates into the same prompt files away.

        What a killed run left in them is put back first.
        """
        fields = [
            FileField(name=name, given=str(home.path), path=home.path)
            for name, home in self.homes.items()
        ]
        restore_abandoned(borrowed_folder(state_folder()))
        with lock_files(fields, state_folder()):
            yield

    def _text(self, path: Path) -> str:
        return decoded(read_bytes(path), path)

    def _content(self, text: str, before: bytes, path: Path) -> bytes:
        return encoded(text, before, path)
