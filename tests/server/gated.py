"""The toy world behind a door: tests decide when its agent answers, and what it says."""

import inspect
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.cases import Case, Outcome
from burnish.core.content import Json
from burnish.core.surfaces import Candidate
from burnish.server.apps import FileApp
from burnish.server.runs import Datasets
from burnish.server.work import ProjectWork, RunWork
from burnish.testing import ScriptedTarget
from tests.server.world import TOY, Door

HARM = "<script>document.title='harmed'</script><img src=x onerror=alert(1)>"
"""What an agent may say."""


@dataclass(frozen=True, kw_only=True)
class GatedApp(FileApp):
    """A toy project whose agent waits at a door, and says something harmful."""

    door: Door
    failing: str = ""
    """The name of a case at which the agent breaks."""

    def plan(self, request: Json, *, tighten: bool = False) -> RunWork:
        work = super().plan(request, tighten=tighten)
        assert isinstance(work, ProjectWork)
        target = work.setup.target
        assert isinstance(target, ScriptedTarget)

        async def respond(candidate: Candidate, case: Case, draw: int) -> Outcome:
            await self.door.passed(candidate, case)
            if case.id == self.failing:
                raise RuntimeError(HARM)
            answer = target.respond(candidate, case, draw)
            answer = await answer if inspect.isawaitable(answer) else answer
            outcome = answer if isinstance(answer, Outcome) else Outcome(replies=(str(answer),))
            return replace(outcome, replies=tuple(f"{each} {HARM}" for each in outcome.replies))

        work.setup = replace(work.setup, target=replace(target, respond=respond))
        return work


def gated_app(folder: Path, door: Door, *, failing: str = "") -> GatedApp:
    """The app `toy` in a folder."""
    path = folder / "toy.yaml"
    path.write_text(TOY % 0.0)
    datasets = Datasets(folder=folder / "data" / "datasets")
    return GatedApp(name="toy", path=path, datasets=datasets, door=door, failing=failing)
