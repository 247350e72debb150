"""The live view's panel: true numbers, and never wider than the terminal."""

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from burnish.core.cases import Split
from burnish.core.money import Spend
from burnish.journal.limits import Budget
from burnish.reports.progress import LiveView
from burnish.runs.events import Tick
from tests.reports.records import event

MANY = Budget(
    max_metric_calls=100,
    max_calls=100,
    max_tokens=1000,
    max_usd=1.0,
    max_minutes=2.0,
    max_trials=10,
)


def tick(**changes: int) -> Tick:
    given = {"done": 3, "total": 12, "failed": 0, "missing": 0} | changes
    spent = Spend(calls=25, metric_calls=20, tokens_in=300, nano_usd=500_000_000)
    return Tick(
        candidate="c",
        split=Split.TRAIN,
        spent=spent,
        billed=spent,
        active_seconds=30.0,
        purpose="",
        **given,
    )


def drawn(view: LiveView, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(view.panel())
    return [re.sub(r"\x1b\[[\d;]*m", "", line) for line in capture.get().splitlines()]


def panel(budget: Budget, width: int, *, ticks: tuple[Tick, ...] = ()) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True)
    view = LiveView(console, budget)
    view.event(event("phase_started", cycle=1, phase="words"))
    view.event(event("trial_recorded", phase="words", trial=4, best_score=0.75))
    for one in ticks:
        view.tick(one)
    return drawn(view, width)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
@pytest.mark.parametrize("budget", [Budget(), MANY])
@pytest.mark.parametrize("busy", [True, False])
def test_three_lines_that_fit(width: int, budget: Budget, busy: bool) -> None:
    lines = panel(budget, width, ticks=(tick(failed=2, missing=1),) if busy else ())
    assert len(lines) == 3
    assert max(map(cell_len, lines)) <= width


def test_what_is_running_and_what_it_met() -> None:
    assert panel(MANY, 100)[0].strip() == "cycle 1 · words · thinking"
    line = panel(MANY, 100, ticks=(tick(failed=2, missing=1),))[0]
    assert line.startswith("cycle 1 · words · train ━")
    assert line.strip().endswith("3/12 2 failed 1 missing")


def test_the_shares_used_of_every_limit() -> None:
    line = panel(MANY, 80, ticks=(tick(),))[1]
    assert (
        line == "used: metric calls 20% · calls 25% · tokens 30% · usd 50% · trials 40% · minute…"
    )


def test_best_spent_time_and_what_is_left_at_this_pace() -> None:
    line = panel(Budget(max_usd=1.0), 100, ticks=(tick(),))[2]
    assert line == "best score 0.750  spent 25 calls · $0.5000  time 30s  left up to ~30s"


def test_without_limits_nobody_knows_what_is_left() -> None:
    lines = panel(Budget(), 100, ticks=(tick(),))
    assert lines[1].strip() == "no limit is set"
    assert lines[2].strip().endswith("left —")


def test_a_resumed_run_counts_the_trials_it_has() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    view = LiveView(console, Budget(max_trials=10))
    view.event(event("run_resumed", target="a", strategy="b", trials_recorded=6))
    assert drawn(view, 80)[1].strip().endswith("50%")


def test_what_is_measured_after_the_search_has_its_own_name() -> None:
    again = replace(tick(), split=Split.HOLDOUT, purpose="measuring again")
    assert panel(MANY, 80, ticks=(again,))[0].startswith("measuring again · holdout ━")


def test_the_first_lines_say_what_it_costs_and_how_to_stop() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    view = LiveView(console, MANY, opening="about 4 calls · $0.01; Ctrl-C stops")
    view.event(event("run_started", target="agent", strategy="climb", cases={"train": 4}))
    lines = [line.strip() for line in out.getvalue().splitlines()]
    assert lines[:2] == ["agent · climb · train 4 cases", "about 4 calls · $0.01; Ctrl-C stops"]
