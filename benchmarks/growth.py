"""Whether long runs stay as quick as they began: 5,000 trials of a search, 100,000 results.

`python -m benchmarks growth` prints the figures, a part of `make bench`. `python -m
benchmarks.growth docs/images/growth.svg` also draws them.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks.figures import Figure
from benchmarks.overhead import make_cases, setup, sweep
from burnish.core.cases import Case, Dataset
from burnish.core.evaluations import Objective
from burnish.core.surfaces import Candidate, TextSurface
from burnish.journal.limits import Budget
from burnish.runs.driver import drive
from burnish.runs.events import Event, Tick, TrialRecorded
from burnish.runs.setup import Setup, start
from burnish.strategies.reflective.reflection import ROLE, Reflection, ReflectRequest
from burnish.strategies.reflective.search import Reflective
from burnish.testing import ExpectedText, ScriptedRole, ScriptedTarget

TRIALS = 5_000
RESULTS = 100_000
_PARTS = 20
_SWEEP = 1_000
_MOST = 1.25
"""How many times the first parts the last ones may take."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Processor time for each unit, in parts of a run from its first to its last."""

    what: str
    units: int
    """In each part."""
    times: Sequence[float]
    """Seconds for a unit, one number a part."""

    @property
    def ratio(self) -> float:
        """The last quarter by the second: the first has what is loaded and compiled once."""
        quarter = len(self.times) // 4
        return median(self.times[-quarter:]) / median(self.times[quarter : 2 * quarter])

    @property
    def figures(self) -> list[Figure]:
        """What a unit takes, and how that grows."""
        last = self.units * len(self.times)
        return [
            Figure(what=f"{self.what}, CPU", value=1e3 * median(self.times), unit="ms"),
            Figure(
                what=f"the same at the end of {last:,}, by an earlier quarter",
                value=self.ratio,
                unit="×",
                goal=_MOST,
            ),
        ]


def figures() -> list[Figure]:
    """Both measurements."""
    return [figure for growth in measured() for figure in growth.figures]


def measured() -> list[Growth]:
    """Trials of a search that finds nothing, and results of a run."""
    return [asyncio.run(_trials()), asyncio.run(_results())]


# -- Trials ---------------------------------------------------------------------------------------


async def _trials() -> Growth:
    with tempfile.TemporaryDirectory() as folder:
        run = start(_hopeless(), folder=Path(folder) / "run")
        clock = _Clock()
        run.listen(clock)
        try:
            await drive(run)
        finally:
            await run.close()
    size = TRIALS // _PARTS
    marks = clock.marks[: size * _PARTS + 1 : size]
    times = [(end - begin) / size for begin, end in pairwise(marks)]
    return Growth(what="a trial of reflective", units=size, times=times)


@dataclass
class _Clock:
    """Looks at the processor time whenever a trial is recorded."""

    marks: list[float] = field(default_factory=list[float])

    def event(self, event: Event) -> None:
        """Keep the time."""
        if event.kind in TrialRecorded.kinds:
            self.marks.append(time.process_time())

    def tick(self, tick: Tick) -> None:
        """Nothing: only trials count."""


def _hopeless() -> Setup:
    """A search in which every rewrite is new, and none helps."""

    def reflect(request: ReflectRequest, draw: int) -> Reflection:
        del request
        return Reflection(diagnosis="It was too short.", new_text=f"Answer well, rule {draw}.")

    cases = make_cases(32)
    return Setup(
        target=ScriptedTarget(
            respond=_wrong, surfaces=(TextSurface(id="text"),), values={"text": "Answer."}
        ),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(train=cases[:16], holdout=cases[16:]),
        strategy=Reflective(
            reflector=ScriptedRole(
                name=ROLE,
                respond=reflect,
                request_type=ReflectRequest,
                answer_type=Reflection,
            )
        ),
        budget=Budget(max_trials=TRIALS + 1),
    )


def _wrong(candidate: Candidate, case: Case, draw: int) -> str:
    del candidate, case, draw
    return "no"


# -- Results --------------------------------------------------------------------------------------


async def _results() -> Growth:
    cases = make_cases(_SWEEP)
    size = RESULTS // _PARTS
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        run = start(setup(cases), folder=Path(folder) / "run")
        for part in range(_PARTS):
            began = time.process_time()
            for number in range(size // _SWEEP):
                await sweep(run, cases, part * size + number)
            times.append((time.process_time() - began) / size)
        await run.close()
    return Growth(what="a journaled result", units=size, times=times)


# -- The plot -------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _TOP, _BELOW = 360, 220, 52, 34, 36


def plot(growths: Sequence[Growth]) -> str:
    """Both as an SVG, side by side."""
    body = "".join(_panel(each, place * _WIDTH) for place, each in enumerate(growths))
    size = f'width="{_WIDTH * len(growths)}" height="{_HEIGHT}"'
    box = f'viewBox="0 0 {_WIDTH * len(growths)} {_HEIGHT}"'
    style = "font: 12px sans-serif; fill: #57606a"
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} style="{style}">'
        f"{background}{body}</svg>\n"
    )


def _panel(growth: Growth, left: int) -> str:
    wide, high = _WIDTH - _LEFT - 16, _HEIGHT - _TOP - _BELOW
    top = 1.3e3 * max(growth.times)
    x0, y0 = left + _LEFT, _TOP + high
    last = growth.units * len(growth.times)
    points = " ".join(
        f"{x0 + wide * (part + 0.5) / len(growth.times):.1f},{y0 - high * 1e3 * each / top:.1f}"
        for part, each in enumerate(growth.times)
    )
    marks = "".join(
        f'<text x="{x0 - 6}" y="{y0 - high * share + 4:.0f}" text-anchor="end">'
        f"{top * share:.2f}</text>"
        for share in (0.0, 0.5, 1.0)
    )
    return (
        f'<text x="{x0}" y="20">{growth.what}: ms of CPU</text>{marks}'
        f'<path d="M{x0},{_TOP}V{y0}h{wide}" fill="none" stroke="#d0d7de"/>'
        f'<polyline points="{points}" fill="none" stroke="#0969da" stroke-width="2"/>'
        f'<text x="{x0}" y="{y0 + 20}">0</text>'
        f'<text x="{x0 + wide}" y="{y0 + 20}" text-anchor="end">{last:,}</text>'
    )


def main() -> None:
    """Measure, draw, and print the figures."""
    growths = measured()
    Path(sys.argv[1]).write_text(plot(growths), encoding="utf-8")
    for growth in growths:
        for figure in growth.figures:
            print(f"{figure.what}: {figure.shown} {figure.goal_shown} {figure.mark}")


if __name__ == "__main__":
    main()
