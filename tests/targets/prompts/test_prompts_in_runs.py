"""Prompts in whole runs: a replay writes nothing, and the files are back when a run is closed."""

import asyncio
from pathlib import Path

import pytest

from burnish.core.cases import Case, Dataset, Split
from burnish.core.evaluations import Objective
from burnish.core.surfaces import Candidate, Origin
from burnish.runs.driver import drive
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start
from burnish.system.restoration import borrowed_folder
from burnish.targets.callables import CallableTarget
from burnish.targets.prompts import PromptsTarget, TargetPrompt
from burnish.testing import ExpectedText
from tests.runs.small import Plan
from tests.targets.prompts.prompt_files import prompt_file

pytestmark = pytest.mark.slow

CASES = tuple(Case.single(f"question {n}", "candidate", name=f"c{n}") for n in range(4))


async def two_candidates(run: Run) -> None:
    """The baseline and another, both at once: they wait for each other."""
    other = Candidate(values={"system": "candidate"}, origin=Origin(kind="proposal"))
    both = (run.evaluate(each, split=Split.TRAIN) for each in (run.target.baseline, other))
    before, after = await asyncio.gather(*both)
    assert before.mean_of("expected_text") == 0
    assert after.mean_of("expected_text") == 1


async def setup(path: Path, asked: list[str]) -> Setup:
    def agent(query: str) -> str:
        asked.append(query)
        return path.read_text()

    target = await PromptsTarget.load(
        CallableTarget(agent=agent, name="agent", fingerprint="1"),
        TargetPrompt().add_path("system", path),
    )
    return Setup(
        target=target,
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=CASES),
        strategy=Plan(steps=two_candidates),
        resources=(target,),
    )


async def test_a_run_puts_back_and_a_replay_touches_nothing(tmp_path: Path) -> None:
    path, asked = prompt_file(tmp_path), list[str]()
    run = start(await setup(path, asked), folder=tmp_path / "run")
    try:
        await drive(run)
    finally:
        await run.close()
    assert path.read_text() == "Be brief.\n"
    assert len(asked) == 2 * len(CASES)
    before = path.stat()
    borrowed_folder().rmdir()
    again = resume(await setup(path, asked), tmp_path / "run")
    try:
        await drive(again)
    finally:
        await again.close()
    assert len(asked) == 2 * len(CASES)
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not borrowed_folder().exists()


async def test_a_cancelled_run_puts_back(tmp_path: Path) -> None:
    path, at_work = prompt_file(tmp_path), asyncio.Event()

    async def agent(query: str) -> str:
        at_work.set()
        await asyncio.sleep(60)
        return ""

    async def one(run: Run) -> None:
        await run.evaluate(Candidate(values={"system": "candidate"}), split=Split.TRAIN)

    target = await PromptsTarget.load(
        CallableTarget(agent=agent), TargetPrompt().add_path("system", path)
    )
    made = await setup(path, [])
    run = start(
        Setup(
            target=target,
            metrics=made.metrics,
            objective=made.objective,
            dataset=made.dataset,
            strategy=Plan(steps=one),
            resources=(target,),
        ),
        folder=tmp_path / "run",
    )
    driving = asyncio.create_task(drive(run))
    await at_work.wait()
    assert path.read_text() == "candidate"
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    await run.close()
    assert path.read_text() == "Be brief.\n"
