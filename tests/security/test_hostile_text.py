"""Half surrogates, null characters and escape sequences cost their case, and reach no terminal."""

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

from burnish.cli.program import run as burnish
from burnish.core.cases import Case, Outcome, Split
from burnish.core.content import codec
from burnish.core.evaluations import Score
from burnish.core.formatting import visible
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Call, Receipt
from burnish.core.surfaces import Candidate
from burnish.core.trials import SplitResult, Trial
from burnish.reports.rendering import write_report
from burnish.runs.run import Run
from tests.runs.small import driven, small

_ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil"
_ODD = {"t0": "half \ud800", "t1": "null \0 here", "t2": "line\u2028end", "t3": _ESCAPES}


def _odd(candidate: Candidate, case: Case, draw: int) -> str:
    return _ODD.get(case.id, case.expected or "")


async def _measure(run: Run) -> None:
    train = await run.evaluate(run.target.baseline, split=Split.TRAIN)
    result = SplitResult.of(train, run.objective)
    run.record(Trial(candidate=run.target.baseline, phase="baseline", train=result))
    run.advance(run.target.baseline)
    _OUTCOMES.update({each.case: each.outcome for each in train.results})


_OUTCOMES: dict[str, Outcome] = {}


async def test_odd_answers_cost_their_case_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path / "home"))
    _OUTCOMES.clear()
    ending = await driven(small(steps=_measure, agent=_odd), tmp_path / "run")
    assert not ending.interrupted
    failure = _OUTCOMES["t0"].failure
    assert failure is not None
    assert failure.error == "InvalidOutput"
    assert _OUTCOMES["t1"].output == "null \0 here"
    assert _OUTCOMES["t5"].failure is None
    write_report(tmp_path / "run")
    assert "\x1b" not in (tmp_path / "run" / "report.md").read_text("utf-8")
    for words in (["runs", "show"], ["runs", "show", "--trial", "0"], ["runs", "report"]):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            burnish([words[0], words[1], str(tmp_path / "run"), *words[2:]])
        assert not set("\x1b\x07\x9b\u202e") & set(out.getvalue() + err.getvalue())


class _AsksModel:
    """A metric that sends the answer on, as a judge does."""

    name = "expected_text"
    fingerprint = "1"

    def estimate(self, case: Case) -> Spend:
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Any) -> list[Score]:
        text = "\ud800" if case.id == "t0" else outcome.output
        call = Call(kind="ask", request=text, codec=codec(str))

        async def answer(_: Any) -> Receipt[str]:
            return Receipt(value="yes")

        await effects.once(call, answer)
        return [Score(metric=self.name, value=1.0)]


async def test_half_a_pair_on_the_way_to_a_judge_costs_one_score(tmp_path: Path) -> None:
    scores: dict[str, float | None] = {}

    async def measure(run: Run) -> None:
        train = await run.evaluate(run.target.baseline, split=Split.TRAIN)
        scores.update({each.case: each.scores[0].value for each in train.results})

    ending = await driven(small(steps=measure, metrics=(_AsksModel(),)), tmp_path / "run")
    assert not ending.interrupted
    assert scores["t0"] is None
    assert {scores[name] for name in scores if name != "t0"} == {1.0}


def test_nothing_speaks_to_the_terminal() -> None:
    shown = visible(f"{_ESCAPES} \ud800")
    shown.encode()
    assert not set("\x1b\x07\x9b\u202e\ud800") & set(shown)
    assert "evil" in shown


def test_error_messages_are_made_visible(tmp_path: Path) -> None:
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        code = burnish(["runs", "show", "no\x1b[2Jrun"])
    assert code == 1
    assert "\x1b" not in err.getvalue()
