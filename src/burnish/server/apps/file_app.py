"""A project file as an app: whatever strategy it names runs, within what the operator allows."""

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from burnish.compat.promptiter import read_request
from burnish.compat.promptiter.anatomy import Anatomy
from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.projects.describing import from_kept
from burnish.projects.loading import load_project
from burnish.projects.measurements import from_description, load_measurement
from burnish.projects.structures import read_structure
from burnish.runs.building import build
from burnish.runs.literals import refuse_literals
from burnish.server.apps.asking import Asked
from burnish.server.apps.engine_work import EngineWork
from burnish.server.apps.file_engines import engine_of, has_structure
from burnish.server.apps.project_work import MeasureWork, ProjectWork
from burnish.server.datasets import Datasets
from burnish.server.naming import check_app_name

if TYPE_CHECKING:
    from burnish.server.work import Work


@dataclass(frozen=True, kw_only=True)
class FileApp:
    """A project file under a name."""

    name: str
    path: Path
    datasets: Datasets
    allowed: Set[str] = frozenset()
    """Models and functions that requests may name."""

    def __post_init__(self) -> None:
        """Refuse what cannot be served."""
        check_app_name(self.name)
        if not self.path.is_file():
            raise FileTrouble(
                f"there is no file {self.path} for the app '{self.name}'",
                remedy="say --app NAME=FILE with a project file",
            )

    @property
    def folder(self) -> Path:
        """Where the file lies."""
        return self.path.resolve().parent

    def plan(self, request: Json) -> "Work":
        """Load the file with what the request says."""
        asked = Asked.read(request)
        if asked.kind == "promptiter":
            engine = engine_of(self.path, self.name)
            parsed = read_request(asked.promptiter, strict=False)[0]
            engine.check(parsed)
            return EngineWork(engine, parsed, owned=True)
        if asked.kind == "evaluate":
            return self._measuring(asked)
        return self._searching(asked)

    def _searching(self, asked: Asked) -> ProjectWork:
        """A search: built from its description alone once that is kept."""
        if asked.spec is not None:
            setup = build(from_kept(asked.spec, {}))
        else:
            flags = asked.settings.flags(self.datasets, self.allowed)
            with asked.settings.named():
                setup = load_project(self.path, flags).setup
            refuse_literals(setup.project.spec)
        setup.check()
        return ProjectWork(setup)

    def _measuring(self, asked: Asked) -> MeasureWork:
        """A measurement: built from its description alone once that is kept."""
        if asked.spec is not None:
            measurement = from_description(from_kept(asked.spec, {}))
        else:
            flags = asked.evaluation.flags(self.datasets, self.allowed)
            with asked.evaluation.named():
                measurement = load_measurement(self.path, flags)
            refuse_literals(measurement.setup.project.spec)
        measurement.setup.check()
        return MeasureWork(measurement.setup, measurement=measurement)

    def about(self) -> dict[str, Json]:
        """A file; whether PromptIter's routes know it."""
        known = has_structure(self.path)
        return {"name": self.name, "kind": "file", "strategy": "", "promptiter": known}

    def structure(self) -> dict[str, Json]:
        """The structure of the agent in the file."""
        return Anatomy.of(read_structure(self.path).target).snapshot.to_json()

    async def close(self) -> None:
        """Nothing is held."""
