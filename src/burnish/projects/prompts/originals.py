"""What a run over prompts keeps in run.json: where its prompt files lie, and their hashes."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from burnish.core.content import Json
from burnish.projects.adopting_originals import FILES
from burnish.runs.header import Header
from burnish.system import read_bytes
from burnish.targets.prompts.target_prompt import TargetPrompt

PROMPTS = "prompts"
"""Where it keeps the path of each field that is a file."""


def prompt_files(prompts: TargetPrompt) -> dict[str, Json]:
    """The fields that are files, and a hash of each."""
    homes = {field.name: str(field.path) for field in prompts.files}
    hashes = {str(field.path): _hash(field.content()) for field in prompts.files}
    return {PROMPTS: {**homes}, FILES: {**hashes}}


def paths_in(header: Header) -> dict[str, Path]:
    """The prompt files of a run, by field; none where it was about something else."""
    kept = header.project.config.get(PROMPTS)
    return {name: Path(str(path)) for name, path in kept.items()} if isinstance(kept, dict) else {}


def changed_prompts(header: Header, paths: Mapping[str, Path]) -> list[str]:
    """The files that are not what the run measured."""
    kept = header.project.config.get(FILES)
    hashes = kept if isinstance(kept, dict) else {}
    return [
        str(path) for path in paths.values() if hashes.get(str(path)) != _hash(read_bytes(path))
    ]


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
