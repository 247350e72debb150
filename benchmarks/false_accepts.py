"""How often coordinate descent keeps what does not help, and how often it finds what does.

A text is edited three times a run, on 8 train and 6 holdout cases that are run three times each.
Each case is answered right with a chance of its own, so every sweep is noisy. In one world no
edit helps; in the other every edit adds 0.1 to the chance of every case, which is less than the
spread between two sweeps of so few cases.
"""

import asyncio
import hashlib
import multiprocessing
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import fmean

from benchmarks.figures import Figure
from burnish.core.cases import Case, Dataset
from burnish.core.evaluations import Objective
from burnish.core.surfaces import Candidate, TextSurface
from burnish.runs.driver import Ending, drive
from burnish.runs.setup import Setup, start
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import (
    CoordinateSettings,
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    PhaseLimits,
)
from burnish.testing import ExpectedText, ScriptedRole, ScriptedTarget

RUNS = 200
SIGMAS = (0.5, 1.0, 2.0)
TRAIN, HOLDOUT, REPEATS, TRIALS = 8, 6, 3, 3
HELP = 0.1
START = "Answer."
CASES = tuple(Case.single(f"question {n}", "yes", name=f"q{n}") for n in range(TRAIN + HOLDOUT))


def figures() -> list[Figure]:
    """The share of runs that end with another text than they began with, in both worlds."""
    found: list[Figure] = []
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for helps, world in ((False, "no edit helps"), (True, f"every edit adds {HELP:g}")):
            for sigma in SIGMAS:
                one = partial(final_text, helps=helps, accept_sigma=sigma)
                texts = pool.map(one, range(RUNS), chunksize=10)
                kept = fmean(text != START for text in texts)
                what = f"{world}, accept_sigma {sigma:g}: of {RUNS} runs, kept one"
                found.append(Figure(what=what, value=100 * kept, unit="%"))
    return found


def final_text(number: int, *, helps: bool, accept_sigma: float) -> str:
    """The text one run ends with."""
    # Memory, where the machine has it as a folder: nobody needs these runs after the next line.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        os.environ["BURNISH_HOME"] = folder
        setup = _setup(number, helps=helps, accept_sigma=accept_sigma)
        ending = asyncio.run(_driven(setup, Path(folder) / "run"))
    return str(ending.best.values["text"])


def gain(text: str) -> float:
    """What the edits in a text really add to the chance of every case."""
    return HELP * text.count("helpful")


async def _driven(setup: Setup, folder: Path) -> Ending:
    run = start(setup, folder=folder)
    try:
        return await drive(run)
    finally:
        await run.close()


def _setup(number: int, *, helps: bool, accept_sigma: float) -> Setup:
    limits = PhaseLimits(max_trials=TRIALS, patience=TRIALS)
    settings = CoordinateSettings(
        texts=("text",),
        repeats=REPEATS,
        accept_sigma=accept_sigma,
        max_cycles=1,
        textual_phase=limits,
    )
    return Setup(
        target=ScriptedTarget(
            respond=partial(_answer, number),
            surfaces=(TextSurface(id="text"),),
            values={"text": START},
        ),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=CASES[:TRAIN], holdout=CASES[TRAIN:]),
        strategy=Coordinate(settings=settings, critic=_critic(), applier=_applier(helps=helps)),
        seed=number,
        concurrency=64,
    )


def _answer(number: int, candidate: Candidate, case: Case, draw: int) -> str:
    chance = 0.3 + 0.5 * _luck("case", case.id) + gain(str(candidate.values["text"]))
    return "yes" if _luck(number, candidate.id, case.id, draw) < chance else "no"


def _critic() -> ScriptedRole[CritiqueRequest, Gradient]:
    same = Gradient(
        failing_pattern="some are wrong",
        root_cause_hypothesis="who knows",
        suggested_change_direction="another sentence",
        confidence=1.0,
        citations=[],
    )
    return ScriptedRole(
        name="critic",
        respond=lambda _request, _draw: same,
        request_type=CritiqueRequest,
        answer_type=Gradient,
    )


def _applier(*, helps: bool) -> ScriptedRole[EditRequest, Edit]:
    def respond(request: EditRequest, draw: int) -> Edit:
        kind = "helpful" if helps else "idle"
        return Edit(
            edit_type="insert",
            rationale="one more",
            new_text=f"{request.current_text} A {kind} sentence, number {draw}.",
            diff_summary="one sentence",
        )

    return ScriptedRole(name="applier", respond=respond, request_type=EditRequest, answer_type=Edit)


def _luck(*names: object) -> float:
    material = "\0".join(map(str, names)).encode()
    return int.from_bytes(hashlib.sha256(material).digest()[:8], "big") / 2**64
