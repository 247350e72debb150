"""Cheats that lose a little with every accept: a tie, or a loss within noise, many times over."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.truth.cheats import Attempt, Cheat
from burnish.core.cases import Case, Dataset, Outcome
from burnish.core.evaluations import Objective, TieBreaker
from burnish.core.surfaces import Candidate, FileSurface, TextSurface
from burnish.journal.limits import Budget
from burnish.runs.directory import RunRecord
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
from burnish.strategies.edits import editors
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.edits.strategy import Edits
from burnish.testing import ExpectedText, ScriptedTarget
from burnish.testing.doubles import ScriptedRole

_LINES = 30


def driven(setup: Setup, folder: Path) -> tuple[Ending, RunRecord]:
    """How a run ended, and its record."""

    async def go() -> Ending:
        run = start(setup, folder=folder)
        try:
            return await drive(run)
        finally:
            await run.close()

    return asyncio.run(go()), RunRecord.read(folder)


# -- Edits that make a file shorter, and the score a little lower ---------------------------------


def _score(candidate: Candidate) -> float:
    """The true score: every line that is taken out costs 0.04."""
    return 1.0 - 0.04 * (_LINES - str(candidate.values["code"]).count("x"))


@dataclass(frozen=True, kw_only=True)
class _Shorter:
    """An editor that takes out a line at a time, where shorter files win a tie."""

    settings: EditsSettings
    noise: float = 0.0
    within: float
    """The most that all ties together may lose."""

    def play(self, folder: Path) -> Attempt:
        ending, record = driven(self._setup(), folder / "run")
        least = 1.0 - self.within
        cheats = [row for row in record.rows if _score(row.trial.candidate) < least]
        decisions = [row.trial.decision for row in cheats if row.trial.decision]
        return Attempt(
            accepted=any(row.trial.accepted for row in cheats),
            offered=_score(ending.best) < least,
            reason=decisions[0].reason if decisions else "",
        )

    def _setup(self) -> Setup:
        return Setup(
            target=ScriptedTarget(
                respond=self._respond,
                surfaces=(FileSurface(id="code", path="code"),),
                values={"code": "x\n" * _LINES},
            ),
            metrics=(),
            objective=Objective(
                weights={}, tie_breakers=(TieBreaker(metric="lines", prefer="lower"),)
            ),
            dataset=Dataset(
                train=(Case.single("run", name="task"),),
                holdout=(Case.single("decide", name="holdout"),),
            ),
            strategy=Edits(
                editor=ScriptedRole(
                    name="editor",
                    respond=_shortened,
                    request_type=editors.EditRequest,
                    answer_type=editors.Edit,
                ),
                settings=self.settings,
            ),
            budget=Budget(max_trials=20),
        )

    def _respond(self, candidate: Candidate, case: Case, draw: int) -> Outcome:
        text = str(candidate.values["code"])
        noise = random.Random(f"{text} {case.id} {draw}").gauss(0, self.noise)
        measures = {"score": _score(candidate) + noise, "lines": float(text.count("x"))}
        return Outcome(replies=("ran",), measures=measures)


def _shortened(request: editors.EditRequest, draw: int) -> editors.Edit:
    # A comment makes each edit a new one, so that a rejection does not end the attack.
    content = "x\n" * (request.texts["code"].count("x") - 1) + f"# {draw}\n"
    files = [editors.WholeFile(path="code", content=content)]
    return editors.Edit(rationale="shorter", files=files)


# -- Texts that learn train by heart, and lose a little of holdout each time ----------------------


_CASES, _STEPS = 20, 5


def _version(candidate: Candidate) -> int:
    return int(str(candidate.values["prompt"]).split()[-1])


def _passes(case: Case, passing: int) -> str:
    return "yes" if int(case.id[1:]) < passing else "no"


def _by_heart(candidate: Candidate, case: Case, draw: int) -> str:
    """Each version gains three cases of train and loses one of holdout, which wavers by two."""
    version = _version(candidate)
    if case.id.startswith("t"):
        return _passes(case, 4 + 3 * version + (1, 0, -1)[draw])
    return _passes(case, 16 - version + (2, 0, -2)[draw])


def _diagnosed(request: CritiqueRequest, draw: int) -> Gradient:
    del request, draw
    return Gradient(
        failing_pattern="some cases fail",
        root_cause_hypothesis="the text lacks something",
        suggested_change_direction="the next version",
        confidence=0.9,
        citations=[],
    )


def _edited(request: EditRequest, draw: int) -> Edit:
    del draw
    version = int(request.current_text.split()[-1]) + 1
    return Edit(
        edit_type="replace",
        rationale="the next version",
        new_text=f"version {version}",
        diff_summary="one up",
    )


def _cases(letter: str) -> Sequence[Case]:
    return [Case.single(f"{letter} {n}?", "yes", name=f"{letter}{n}") for n in range(_CASES)]


def text_setup(
    respond: Callable[[Candidate, Case, int], str],
    edited: Callable[[EditRequest, int], Edit],
    *,
    trials: int,
    repeats: int,
    confirm: bool = False,
) -> Setup:
    """A search over one text, with twenty cases of train and holdout each."""
    limits = PhaseLimits(max_trials=trials, patience=trials)
    return Setup(
        target=ScriptedTarget(
            respond=respond,
            surfaces=(TextSurface(id="prompt"),),
            values={"prompt": "version 0"},
        ),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=tuple(_cases("t")), holdout=tuple(_cases("h"))),
        strategy=Coordinate(
            settings=CoordinateSettings(
                texts=("prompt",), repeats=repeats, max_cycles=1, textual_phase=limits
            ),
            critic=ScriptedRole(
                name="critic",
                respond=_diagnosed,
                request_type=CritiqueRequest,
                answer_type=Gradient,
            ),
            applier=ScriptedRole(
                name="applier", respond=edited, request_type=EditRequest, answer_type=Edit
            ),
        ),
        confirm=confirm,
    )


def drifting_setup() -> Setup:
    """A run of five edits, each better on train and within the noise of holdout."""
    return text_setup(_by_heart, _edited, trials=_STEPS, repeats=3)


def _drifting(folder: Path) -> Attempt:
    ending, record = driven(drifting_setup(), folder / "run")
    # Each step is within its noise, so the rule accepts it; three of them together are not, and
    # what they lead to may not be offered.
    worse = [row for row in record.rows if _version(row.trial.candidate) >= 3]
    assert worse, "the world never got so far"
    offered = record.best in worse or _version(ending.best) >= 3
    warnings = [event.data["reason"] for event in record.events if event.kind == "withheld"]
    reason = " ".join(map(str, warnings))
    return Attempt(accepted=False, by_rule=True, offered=offered, reason=reason)


def _cheat(name: str, strategy: str, play: Callable[[Path], Attempt]) -> Cheat:
    return Cheat(name=f"ties: {name}", strategy=strategy, play=play)


CHEATS = (
    _cheat(
        "many ties within the tolerance",
        "edits",
        _Shorter(settings=EditsSettings(tolerance=0.05), within=0.05).play,
    ),
    _cheat(
        "many ties within the noise",
        "edits",
        _Shorter(settings=EditsSettings(repeats=3, accept_sigma=2.0), noise=0.05, within=0.25).play,
    ),
    _cheat("many losses on holdout, each within its noise", "coordinate", _drifting),
)
