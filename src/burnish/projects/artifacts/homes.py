"""The files of a task as the homes of its values, and what run.json keeps of them."""

from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import Json
from burnish.projects.artifacts.results import KEPT, TaskLog
from burnish.runs.header import Header
from burnish.runs.homes import FILES, FileHome, FileHomes, measured_hashes
from burnish.system.restoration import digest
from burnish.targets.artifacts.axes import file_and_place
from burnish.targets.artifacts.target import ArtifactsTarget


def task_record(log: TaskLog, target: ArtifactsTarget) -> dict[str, Json]:
    """The files with their hashes, and how the run is logged."""
    hashes = {path: digest(text.encode()) for path, text in target.texts.items()}
    return {KEPT: log.to_json(), FILES: {**hashes}}


@dataclass(frozen=True, kw_only=True)
class TaskHomes(FileHomes):
    """Files by their path in the task's folder; the scripts are the user's own affair."""

    @classmethod
    def of(cls, header: Header) -> "TaskHomes | None":
        """Those of a run over a task; None where it was about something else."""
        log, hashes = TaskLog.of(header.project.config), measured_hashes(header)
        if log is None or not hashes:
            return None
        folder = Path(log.folder)
        homes = {name: FileHome(path=folder / name, name=name) for name in hashes}
        return cls(homes=homes, hashes=hashes)

    def home(self, surface: str) -> FileHome:
        """A whole file, or a place in one."""
        file, place = file_and_place(surface)
        if surface in self.homes or file not in self.homes:
            return super().home(surface)
        return FileHome(path=self.homes[file].path, place=place, name=file)
