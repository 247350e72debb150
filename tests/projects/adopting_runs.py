"""Runs to adopt: an agent file, and a strategy that records the candidates it is given."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from burnish.core.cases import Case, Dataset, Split
from burnish.core.evaluations import Objective
from burnish.core.surfaces import (
    Candidate,
    DemosSurface,
    NumberSurface,
    Origin,
    Surface,
    TextSurface,
    Value,
)
from burnish.core.trials import Decision, SplitResult, Trial, Verdict
from burnish.models.chat import ChatRequest
from burnish.projects import launch_in
from burnish.projects.agent.dialect import AgentFile, measured_files
from burnish.projects.agent.plugin import named_exports
from burnish.runs.directory import Project, RunRecord
from burnish.runs.homes import FILES
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.testing import ExpectedText
from tests.runs.small import Plan
from tests.targets.agent_world import target

Winner = Mapping[str, Value]
TEMPERATURE = "model.temperature"
SURFACES: tuple[Surface, ...] = (
    TextSurface(id="instructions"),
    TextSurface(id="tools[name=archive].description"),
    NumberSurface(id=TEMPERATURE, low=0, high=2),
    DemosSurface(id="demonstrations"),
)


def agent_run(
    path: Path,
    *winners: Winner,
    folder: Path | None = None,
    surfaces: Sequence[Surface] | None = None,
    kept_hashes: bool = True,
    measured: bool = False,
) -> RunRecord:
    """A finished run on an agent file in which these candidates won, one after the other."""
    made, _ = target(path, _reply, surfaces=SURFACES if surfaces is None else surfaces)
    hashes = {FILES: measured_files(made.agent)} if kept_hashes else {}
    case = Case.single("7 - 5?", "2", name="minus")
    setup = Setup(
        target=made,
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(
            train=(case,),
            holdout=(Case.single("9 - 5?", "4"),) if measured else (),
            test=(Case.single("5 - 5?", "0"), Case.single("8 - 5?", "3")) if measured else (),
        ),
        strategy=Plan(steps=_recording(winners, measured=measured)),
        exporter=named_exports(made.agent),
        project=Project(kind=AgentFile.kind, file=str(path), config={**hashes}),
        resources=(made,),
    )
    home = folder or path.resolve().parent / "run"
    launch_in(setup, home)
    return RunRecord.read(home)


def _reply(request: ChatRequest, draw: int) -> str:
    """Subtracts, but only when it was told to be brief."""
    del draw
    told = " ".join(message.content for message in request.messages)
    first, _, second = request.messages[-1].content.rstrip("?").partition(" - ")
    return str(int(first) - int(second)) if "brief" in told else "well, let me see"


def _recording(winners: Sequence[Winner], *, measured: bool) -> Callable[[Run], Awaitable[None]]:
    async def steps(run: Run) -> None:
        best = run.target.baseline
        await _record(run, best, measured=measured)
        for winner in winners:
            loser = best.child({"instructions": "Be rude.\n"}, origin=Origin(note="rude"))
            await _record(run, loser, Verdict.REJECT)
            best = best.child(winner, origin=Origin(note=", ".join(winner)))
            await _record(run, best, Verdict.ACCEPT, measured=measured)
            run.advance(best)

    return steps


async def _record(
    run: Run, candidate: Candidate, verdict: Verdict | None = None, *, measured: bool = False
) -> None:
    results: dict[Split, SplitResult] = {}
    if measured:
        for split in (Split.TRAIN, Split.HOLDOUT):
            found = await run.evaluate(candidate, split=split)
            results[split] = SplitResult.of(found, run.objective)
    decision = None
    if verdict is not None:
        decision = Decision(gate="script", verdict=verdict, code="script", reason="as told")
    run.record(
        Trial(
            candidate=candidate,
            phase="baseline" if verdict is None else "words",
            touched=tuple(candidate.values),
            train=results.get(Split.TRAIN),
            holdout=results.get(Split.HOLDOUT),
            decision=decision,
        )
    )
