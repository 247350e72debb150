"""Coordinate descent as lines: HoloDeck's idiom, in the room there is."""

import io
import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from burnish.cli import main
from burnish.core.content import Json, codec
from burnish.core.money import NOTHING, Spend, to_nano
from burnish.journal.limits import Budget
from burnish.reports.progress import LineView, LiveView
from burnish.runs.directory import RunRecord
from burnish.runs.events import Event
from burnish.strategies.coordinate.phases import Headroom, expected
from burnish.strategies.coordinate.plugin import CoordinatePlugin
from burnish.strategies.coordinate.trials import CoordinateSettings, PhaseLimits
from tests.reports.records import event, recorded


def checked_headroom() -> dict[str, Json]:
    """What a run says of its headroom: a trial of 4 calls on train and 2 on holdout."""
    call = Spend(calls=1, nano_usd=to_nano(0.001))
    settings = CoordinateSettings(
        numbers=("x",), max_cycles=3, numeric_phase=PhaseLimits(max_trials=4, patience=4)
    )
    costs = expected(
        settings,
        baseline=call.times(6),
        train=call.times(4),
        holdout=call.times(2),
        roles=NOTHING,
        sealed=call.times(4),
    )
    found = Headroom(
        repeats=3,
        accept_sigma=1.0,
        loss=0.5,
        train_std=0.02,
        holdout_std=0.04,
        holdout_cases=20,
        holdout_pass_rate=0.5,
        least_shown=0.46,
        costs=costs,
        measured=True,
    )
    told = codec(Headroom).encode(found)
    assert isinstance(told, dict)
    return told


TRIAL: dict[str, Json] = {
    "trial": 2,
    "index": 2,
    "cycle": 1,
    "phase": "numeric",
    "note": "top_k 8",
    "accepted": True,
    "code": "better",
    "reason": "train improved",
    "numbers": {"train_improvement": 0.019, "noise_bar": 0.013},
    "train": 0.215,
    "train_std": 0.009,
    "holdout": 0.243,
    "usd": 1.05,
    "seconds": 48.0,
}
HEADROOM = checked_headroom()
UNSURE: dict[str, Json] = {
    **TRIAL,
    "phase": "textual",
    "note": "tools[name=subtract].description",
    "accepted": False,
    "code": "crit",
    "reason": "low confidence: 0.20",
    "numbers": {},
    "train": None,
    "train_std": None,
    "holdout": None,
    "usd": 0.014,
    "seconds": 3.0,
}
SEEN: dict[str, Json] = {
    **UNSURE,
    "phase": "numeric",
    "note": "top_k 8",
    "code": "seen",
    "reason": "the same candidate (7f2e11aa90bd3c44) was tried before",
    "usd": 0.0,
    "seconds": 0.0,
}


@pytest.mark.parametrize(
    ("width", "trial", "line"),
    [
        (80, TRIAL, "[c1/n  2] top_k 8           train 0.215 hold 0.243 accept ✓   $1.05 48s"),
        (
            100,
            TRIAL,
            "[c1/n  2] top_k 8           train 0.215 ±0.009 (▼0.019 > bar 0.013) hold 0.243 "
            "accept ✓   $1.05 48s",
        ),
        (
            120,
            TRIAL,
            "[c1/n  2] top_k 8                      train 0.215 ±0.009 (▼0.019 > bar 0.013) "
            "hold 0.243 accept ✓   $1.05 48s",
        ),
        (
            100,
            {**TRIAL, "accepted": False, "code": "holdout"},
            "[c1/n  2] top_k 8           train 0.215 ±0.009 (▼0.019 > bar 0.013) hold 0.243 "
            "hold ✗     $1.05 48s",
        ),
        (80, UNSURE, "[c1/t  2] tools[name=subtr… (low confidence: 0.20) crit ✗   $0.0140 3.0s"),
        (
            100,
            UNSURE,
            "[c1/t  2] tools[name=subtr… (low confidence: 0.20)                             "
            "crit ✗   $0.0140 3.0s",
        ),
        (
            120,
            UNSURE,
            "[c1/t  2] tools[name=subtract].descri… (low confidence: 0.20)                  "
            "           crit ✗   $0.0140 3.0s",
        ),
        (40, UNSURE, "[c1/t  2] tools[name=subtr… crit ✗  (lo…"),
        (80, SEEN, "[c1/n  2] top_k 8           (the same candidate (… seen ✗     $0.00 0.0s"),
    ],
)
def test_a_trial_at_the_widths_people_have(width: int, trial: dict[str, Json], line: str) -> None:
    assert CoordinatePlugin().progress().trial(recorded(trial), width) == line
    assert cell_len(line) <= width


STARTED = event("run_started", strategy="coordinate")


def told(*events: Event, width: int = 100) -> list[str]:
    lines: list[str] = []
    view = LineView(lines.append, width=lambda: width)
    view.event(STARTED)
    lines.clear()
    for one in events:
        view.event(one)
    return lines


def phase(cycle: int, name: str) -> Event:
    return event("phase_started", cycle=cycle, phase=name)


def tried(**changes: Json) -> Event:
    return Event(id="t", kind="trial_recorded", at="", data={**TRIAL, **changes})


def test_a_numeric_phase_says_that_its_study_is_new_and_against_what() -> None:
    better = tried(phase="textual")
    first, _, text, _, again, third = told(
        phase(1, "numeric"),
        tried(),
        phase(1, "textual"),
        better,
        phase(2, "numeric"),
        phase(3, "numeric"),
    )
    assert first.startswith("── cycle 1 · numeric phase (fresh TPE study #1) ──")
    assert text.startswith("── cycle 1 · textual phase ──")
    assert again.startswith("── cycle 2 · numeric phase (fresh TPE study #2, vs changed prompt) ──")
    assert third.startswith("── cycle 3 · numeric phase (fresh TPE study #3) ──")
    assert {cell_len(line) for line in (first, text, again, third)} == {100}


def test_other_phases_go_by_their_name() -> None:
    (line,) = told(phase(1, "demonstrations"))
    assert line.startswith("── cycle 1 · demonstrations ──")


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            100,
            [
                "baseline          train 0.967 ±0.000   hold 0.950   one case of holdout is worth "
                "0.050"
            ],
        ),
        (
            72,
            [
                "baseline          train 0.967 ±0.000   hold 0.950",
                "   one case of holdout is worth 0.050",
            ],
        ),
    ],
)
def test_the_baseline_says_what_a_case_of_holdout_is_worth(width: int, lines: list[str]) -> None:
    first = tried(phase="baseline", train=0.967, train_std=0.0, holdout=0.95, holdout_cases=20)
    assert told(first, width=width) == lines


def test_headroom_is_told_in_labelled_lines_that_wrap() -> None:
    assert told(event("headroom", **HEADROOM), width=80) == [
        "   noise    ±0.020 on train, ±0.040 on holdout over 3 repeats: a gain on train",
        "            counts from about 0.028 on",
        "   holdout  one case of the holdout is 0.050 of the pass rate; a change under",
        "            0.46 may go unnoticed",
        "   the run  about 26 calls · $0.0260 if nothing helps (4 trials), at most about",
        "            82 calls · $0.0820 (12 trials)",
    ]


@pytest.mark.parametrize(
    ("changes", "said", "cost"),
    [
        ({"repeats": 1, "train_std": None}, "noise    not measured: repeats is 1", True),
        ({"loss": 0.0}, "outlook  nothing to gain: the loss on train is 0", False),
        ({"loss": 0.01}, "outlook  no gain can be told from noise", True),
        ({"holdout_cases": 3}, "holdout  no change of the pass rate can be told", True),
        ({"measured": False}, "the run  about 26 calls if nothing helps (4 trials)", True),
    ],
)
def test_headroom_says_what_is_not_to_be_had(
    changes: dict[str, Json], said: str, cost: bool
) -> None:
    lines = told(event("headroom", **(HEADROOM | changes)), width=200)
    assert [line for line in lines if said in line]
    assert any("if nothing helps" in line for line in lines) is cost


def test_a_dead_axis_is_named_with_the_reason() -> None:
    (line,) = told(event("dead_axis", axis="model.x", cycle=1, phase="numeric", runs=6), width=200)
    reason = "its changes reach no request; 6 measured runs would be the same"
    assert line == f"! model.x is not tuned in this phase: {reason}"
    over = event("phase_ended", cycle=1, phase="x", reason="dead_axes", trials=0, accepts=0)
    assert "dead_axes: no axis of this phase reaches a request" in told(over)[0]


def test_why_phases_and_the_search_ended() -> None:
    ended = event("phase_ended", cycle=1, phase="numeric", reason="patience", trials=6, accepts=1)
    over = event("search_ended", cycle=2, reason="dry_cycle")
    unknown = event("phase_ended", cycle=1, phase="x", reason="bored", trials=1, accepts=0)
    assert told(ended, over, unknown) == [
        "   over after 6 trials, 1 accepted · patience: too many trials without an accept",
        "   search over · dry_cycle: a whole cycle brought no gain",
        "   over after 1 trial, 0 accepted · bored",
    ]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_whole_run_fits_into_the_terminal(tuned: Path, width: int) -> None:
    run = RunRecord.read(tuned)
    lines = told(*run.events, width=width)
    assert max(map(cell_len, lines)) <= width
    trials = [line for line in lines if line.startswith("[c")]
    assert len(trials) == run.trials
    assert sum("accept ✓" in line for line in trials) == run.accepted
    assert sum("crit ✗" in line for line in trials) == 1
    outcomes = [re.search(r"(accept|tie|crit) [✓✗]", line) for line in trials]
    assert len({found.start() for found in outcomes if found is not None}) == 1
    assert None not in outcomes, "what became of each trial stands in one column"


def test_the_panel_names_the_phase() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    view = LiveView(console, Budget())
    view.event(STARTED)
    view.event(phase(2, "numeric"))
    with console.capture() as capture:
        console.print(view.panel())
    assert capture.get().startswith("cycle 2 · numeric phase · thinking")


def test_show_tells_why_it_ended(tuned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["runs", "show", str(tuned)])
    assert end.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tuned · finished: nothing_to_gain: the loss on train is 0"
    assert (
        "   over after 3 trials, 0 accepted · patience: too many trials without an accept" in lines
    )
    assert "   search over · nothing_to_gain: the loss on train is 0" in lines
