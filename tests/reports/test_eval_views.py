"""Progress of a measurement: cases, no splits and no loss, and a pace that is that of the cases."""

import io
import re

from rich.console import Console

from burnish.core.cases import Split
from burnish.core.money import NOTHING, Spend
from burnish.journal.limits import Budget
from burnish.reports.progress import LineView, LiveView
from burnish.runs.events import Event, Tick
from tests.reports.records import event

STARTED = event("run_started", target="agent", strategy="measure", cases={"train": 16, "test": 0})
BASELINE = event("trial_recorded", phase="baseline", train=0.5, train_std=0.1, best_score=0.5)


def told(*events: Event) -> list[str]:
    lines: list[str] = []
    view = LineView(lines.append)
    for one in events:
        view.event(one)
    return lines


def test_lines_say_cases_and_no_loss() -> None:
    assert told(STARTED, BASELINE) == ["agent · 16 cases"]
    assert told(STARTED, event("warning", message="no price")) == ["agent · 16 cases", "! no price"]
    assert told(STARTED, event("stopping"))[1] == "stopping; a second Ctrl-C stops at once"


def test_a_resume_pays_nothing_twice() -> None:
    resumed = event("run_resumed", target="agent", strategy="measure", cases={"train": 1})
    assert told(resumed) == ["agent · 1 case", "resuming; nothing is paid for twice"]


def panel(*ticks: Tick) -> list[str]:
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    view = LiveView(console, Budget(max_calls=100))
    view.event(STARTED)
    for one in ticks:
        view.tick(one)
    out = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    with out.capture() as capture:
        out.print(view.panel())
    return [re.sub(r"\x1b\[[\d;]*m", "", line).strip() for line in capture.get().splitlines()]


def test_the_live_view_counts_cases_and_what_they_cost_so_far() -> None:
    assert panel()[0] == "measuring"
    tick = Tick(
        candidate="c",
        split=Split.TRAIN,
        done=4,
        total=16,
        failed=1,
        missing=0,
        spent=NOTHING,
        billed=Spend(calls=25, nano_usd=500_000_000),
        active_seconds=10.0,
    )
    lines = panel(tick)
    assert lines[0].startswith("measuring ━")
    assert lines[0].endswith("4/16 1 failed")
    assert lines[1].endswith("25%")
    assert lines[2] == "spent 25 calls · $0.5000  time 10s  left ~30s"
