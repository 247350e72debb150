"""What a run over a task keeps in run.json: its files with their hashes, and how it is logged."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from burnish.core.content import Json
from burnish.projects.adopting_originals import FILES
from burnish.projects.artifacts.results import KEPT, TaskLog
from burnish.runs.header import Header
from burnish.system import read_bytes
from burnish.targets.artifacts.target import ArtifactsTarget


def task_record(log: TaskLog, target: ArtifactsTarget) -> dict[str, Json]:
    """For the header of the run."""
    hashes = {path: _hash(text.encode()) for path, text in target.texts.items()}
    return {KEPT: log.to_json(), FILES: {**hashes}}


def task_paths(header: Header) -> dict[str, Path]:
    """The files of a task's run by their path in its folder; none where it was another kind."""
    log, kept = TaskLog.of(header.project.config), header.project.config.get(FILES)
    if log is None or not isinstance(kept, dict):
        return {}
    return {path: Path(log.folder) / path for path in kept}


def changed_files(header: Header, paths: Mapping[str, Path]) -> list[str]:
    """The files that are not what the run measured."""
    kept = header.project.config.get(FILES)
    hashes = kept if isinstance(kept, dict) else {}
    return [name for name, path in paths.items() if hashes.get(name) != _hash(read_bytes(path))]


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
