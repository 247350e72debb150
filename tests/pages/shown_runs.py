"""Runs to show: small, scripted, and with texts that would do harm if a page believed them."""

import json
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from burnish.cli.browser_pages import ProjectAdopter
from burnish.core.cases import Case, Dataset, Outcome, Split, Step, ToolCall, Trace, Turn
from burnish.core.evaluations import Objective
from burnish.core.surfaces import (
    Candidate,
    Demonstration,
    DemosSurface,
    NumberSurface,
    Origin,
    TextSurface,
)
from burnish.core.trials import Decision, Proposal, SplitResult, Trial, Verdict
from burnish.delegation.experiments import Experiment, TaskBest
from burnish.delegation.policy import PolicyRegistry, PolicyTexts
from burnish.delegation.runs import StoredDelegations
from burnish.delegation.training.target import Epoch, TrainingLog, TrialSource
from burnish.models.chat import ChatRequest, Prices
from burnish.models.factory import Models
from burnish.models.providers import Price
from burnish.pages.library import Library, runs_below
from burnish.pages.viewer import Viewer
from burnish.projects import launch_in
from burnish.projects.grid_axes import GridAxes
from burnish.projects.grids import Views, load_grid, make_grid_folder, measure_grid
from burnish.projects.measurements import measurement_doors
from burnish.runs.directory import RunRecord
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.testing import ExpectedText, ScriptedTarget
from burnish.testing.doubles import ScriptedBackend
from tests.delegation.refine.refining_world import Place
from tests.delegation.refine.run_folders import plain_run
from tests.runs.small import Plan

HARM = "<script>document.title='harmed'</script><img src=x onerror=alert(1)>"
"""What an agent, a case or a proposer may say."""
RUBRIC = "critique_rubric"
START = "You answer questions. Be rude at times."
BETTER = f"You answer questions with care. Be kind. {HARM}"


def case(name: str, expected: str = "yes") -> Case:
    """A case that asks something harmful."""
    return Case(name=name, turns=(Turn(input=f"{name}? {HARM}", expected=expected),), labels=("a",))


TRAIN = (case("always"), case("fixed"), case("broken"), case("never"))
DATASET = Dataset(
    train=TRAIN,
    holdout=(case("held-1"), case("held-2")),
    test=tuple(case(f"sealed-{n}") for n in range(12)),
)


def shown_run(folder: Path) -> RunRecord:
    """A finished run: one rejected trial, one accepted, and a sealed test that shows a gain."""
    setup = Setup(
        target=ScriptedTarget(
            respond=_respond,
            surfaces=(
                TextSurface(id="instructions"),
                NumberSurface(id="temperature", low=0, high=1),
                DemosSurface(id="demonstrations"),
            ),
            values={"instructions": START, "temperature": 0.5, "demonstrations": ()},
        ),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=DATASET,
        strategy=Plan(steps=_search()),
    )
    launch_in(setup, folder)
    return RunRecord.read(folder)


@contextmanager
def viewing(*folders: Path, cases: Dataset | None = None) -> Generator[Viewer]:
    """A viewer of some runs, or of those in some folders, in another thread."""
    library = Library(
        folders=lambda: [run for each in folders if each.exists() for run in runs_below(each)],
        cases=lambda _: cases,
        adopter=ProjectAdopter(),
        delegations=StoredDelegations(),
    )
    viewer = Viewer(library)
    thread = threading.Thread(target=viewer.serve, daemon=True)
    thread.start()
    try:
        yield viewer
    finally:
        viewer.close()
        thread.join(120)
        assert not thread.is_alive()


def refined_run(folder: Path) -> Path:
    """A delegation with a refinement, whose gradient would do harm if a page believed it."""
    place = Place(folder=folder)
    seed = place.make_seed()
    place.refine()
    (told,) = seed.glob("refinement_sessions/*/iter_1/gradient_input.json")
    gradient = json.loads(told.read_text(encoding="utf-8"))
    gradient["defects"][0]["summary"] = HARM
    told.write_text(json.dumps(gradient), encoding="utf-8")
    return seed


def delegated_work(folder: Path) -> None:
    """An experiment with two runs of a task, and a policy text that was trained in two epochs.

    Names and texts would do harm if a page believed them. Variables name both places.
    """
    task = Experiment.new(f"Heat {HARM}", goal="Reports about heat").add_task("Write a report.")
    for name, critique in (("worse", 0.1), ("better", 0.9)):
        TaskBest(task).offer(plain_run(task.runs / name, critique=critique))
    registry = PolicyRegistry(folder / "policy.db")
    registry.add(RUBRIC, f"{PolicyTexts.shipped()[RUBRIC]}\nBe fair. {HARM}", activate=True)
    registry.pin(RUBRIC, 0)
    log = TrainingLog(registry.path)
    suite = log.suite(f"weather {HARM}", [], {})
    for number, loss in ((1, 0.365), (2, 0.03)):
        epoch = Epoch(
            suite=suite,
            number=number,
            started_at="",
            completed_at=f"2026-11-1{number}",
            mean_loss=loss,
            parents={},
        )
        log.epoch(TrialSource(run="r", trial=number), epoch)


def _respond(candidate: Candidate, case: Case, draw: int) -> Outcome:
    del draw
    careful = "care" in str(candidate.values["instructions"])
    right = {"always": True, "fixed": careful, "broken": not careful, "never": False}
    passes = right.get(case.id, careful)
    answer = f"{'yes' if passes else 'no'} {HARM}"
    tool = ToolCall(name="look_up", arguments={"what": HARM}, result="a fact")
    step = Step(id="1", node="answer", input=case.input, output=answer, tools=(tool,), seconds=0.2)
    return Outcome(replies=(answer,), trace=Trace(steps=(step,)), seconds=0.4)


def _search() -> Callable[[Run], Awaitable[None]]:
    async def steps(run: Run) -> None:
        start = run.target.baseline
        demo = Demonstration(input=f"shown {HARM}", output="yes")
        worse = start.child({"temperature": 0.9}, origin=Origin(note=f"warmer {HARM}"))
        better = start.child(
            {"instructions": BETTER, "temperature": 0.2, "demonstrations": (demo,)},
            origin=Origin(note="kinder"),
        )
        await _record(run, start)
        await _record(run, worse, Verdict.REJECT)
        await _record(run, better, Verdict.ACCEPT)
        run.advance(better)

    return steps


async def _record(run: Run, candidate: Candidate, verdict: Verdict | None = None) -> None:
    results = {
        split: SplitResult.of(await run.evaluate(candidate, split=split), run.objective)
        for split in (Split.TRAIN, Split.HOLDOUT)
    }
    decision, proposals = None, ()
    if verdict is not None:
        numbers = {"train_improvement": 0.25, "noise_bar": 0.1, "best_train_mean_before": 0.5}
        decision = Decision(
            gate="script", verdict=verdict, code="better", reason="as planned", numbers=numbers
        )
        proposals = (Proposal(role="critic", request={"saw": HARM}, answer={"said": HARM}),)
    run.record(
        Trial(
            candidate=candidate,
            phase="baseline" if verdict is None else "words",
            touched=tuple(candidate.values),
            proposals=proposals,
            train=results[Split.TRAIN],
            holdout=results[Split.HOLDOUT],
            decision=decision,
        )
    )


GRADED = """\
name: clerk
model: {provider: openai, name: m}
instructions: {inline: Say yes.}
test_cases_file: cases.jsonl
evaluations:
  metrics: [{type: standard, metric: equality}]
"""
INSTRUCTIONS = ("Say yes.", "Say no.", f"Say yes {HARM}")


def shown_grid(folder: Path, views: Views | None = None) -> Path:
    """A grid of three columns with prices, one of them harmful; its folder."""
    folder.mkdir()
    file = folder / "agent.yaml"
    file.write_text(GRADED, encoding="utf-8")
    rows = [{"name": f"c{n}", "input": f"{n}? {HARM}", "ground_truth": "yes"} for n in range(8)]
    (folder / "cases.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")

    def respond(request: ChatRequest, draw: int) -> str:
        del draw
        return "yes" if "Say yes" in str(request.messages[0]) else "no"

    price = Price(input_per_million=1, output_per_million=2)
    grid = load_grid(
        file,
        {},
        GridAxes(settings={"instructions": INSTRUCTIONS}),
        models=Models(
            backends={"openai": ScriptedBackend(respond=respond)},
            prices=Prices(overrides={"openai:m": price}),
        ),
        doors=measurement_doors(file),
    )
    home = make_grid_folder(grid, folder / "shown-grid")
    return (measure_grid(grid, home, views=views) if views else measure_grid(grid, home)).folder
