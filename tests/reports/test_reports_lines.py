"""Progress as lines: each event says what it means, in the room there is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from burnish.core.content import Json
from burnish.reports.progress import LineView
from burnish.runs.events import Event
from burnish.runs.progress import trial_line
from tests.reports.records import event, recorded

TRIAL: dict[str, Json] = {
    "trial": 3,
    "index": 1,
    "cycle": 1,
    "phase": "words",
    "touched": ["instructions"],
    "note": "order was forgotten",
    "accepted": True,
    "code": "better",
    "reason": "train improved",
    "numbers": {"train_improvement": 0.111, "noise_bar": 0.014},
    "train": 0.889,
    "train_std": 0.014,
    "holdout": 0.9,
    "usd": 0.0308,
    "seconds": 0.2,
}


def told(*events: Event, width: int = 100) -> list[str]:
    lines: list[str] = []
    view = LineView(lines.append, width=lambda: width)
    for one in events:
        view.event(one)
    return lines


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (
            100,
            "[c1/w  1] order was forgot… train 0.889 ±0.014 (▼0.111 > bar 0.014) hold 0.900 "
            "accept ✓ $0.0308 0.2s",
        ),
        (
            96,
            "[c1/w  1] order was forgot… train 0.889 (▼0.111 > bar 0.014) hold 0.900 "
            "accept ✓ $0.0308 0.2s",
        ),
        (80, "[c1/w  1] order was forgot… train 0.889 hold 0.900 accept ✓ $0.0308 0.2s"),
        (60, "[c1/w  1] order was forgot… train 0.889 hold 0.900 accept ✓"),
        (40, "[c1/w 1] order was… train 0.889 accept ✓"),
    ],
)
def test_what_matters_least_is_left_out_first(width: int, line: str) -> None:
    assert trial_line(recorded(TRIAL), width) == line


def test_an_unknown_price_is_not_zero() -> None:
    assert "$?" in trial_line(recorded({**TRIAL, "usd": None}), 120)


def test_a_candidate_turned_away_says_why() -> None:
    away = {**TRIAL, "accepted": False, "code": "turned away", "reason": "too long"}
    away |= {"train": None, "holdout": None}
    assert (
        trial_line(recorded({**away, "index": 12}), 80)
        == "[c1/w 12] order was forgot… turned away ✗  too long"
    )


def test_a_candidate_that_was_run_on_holdout_alone_says_what_became_of_it() -> None:
    merged = {**TRIAL, "note": "merge of two", "train": None, "train_std": None, "numbers": {}}
    assert trial_line(recorded(merged), 100).split() == [
        *("[c1/w", "1]", "merge", "of", "two", "——"),
        *("hold", "0.900", "accept", "✓", "$0.0308", "0.2s"),
    ]


def test_without_a_note_the_surfaces_name_the_trial() -> None:
    assert "instructions" in trial_line(recorded({**TRIAL, "note": ""}), 100)


NOTES = st.text() | st.sampled_from(
    ["日本語" * 20, "👩‍👩‍👧 family", "a\nb\tc", "\x1b[31mred", "[bold]x"]
)


@given(NOTES, NOTES, st.sampled_from([60, 80, 100, 140]), st.booleans())
def test_no_line_is_wider_than_the_terminal(
    note: str, reason: str, width: int, measured: bool
) -> None:
    data: dict[str, Any] = {**TRIAL, "note": note, "reason": reason}
    data |= {} if measured else {"train": None, "accepted": False, "code": "turned away"}
    line = trial_line(recorded(data), width)
    assert cell_len(line) <= width
    assert "\x1b" not in line
    assert "\n" not in line


def test_trials_are_numbered_within_their_phase() -> None:
    second = Event(id="t", kind="trial_recorded", at="", data={**TRIAL, "index": 2})
    phase, line = told(event("phase_started", cycle=1, phase="words"), second)
    assert line.startswith("[c1/w  2] ")
    assert cell_len(phase) == 100


def test_runs_of_an_earlier_version_are_numbered_throughout() -> None:
    earlier = {name: value for name, value in TRIAL.items() if name != "index"}
    assert trial_line(recorded(earlier), 100).startswith("[c1/w  3] ")


def test_a_run_starts_with_its_splits_in_order() -> None:
    cases: dict[str, Json] = {"holdout": 2, "test": 3, "train": 1}
    started = event("run_started", target="agent", strategy="climb", cases=cases)
    assert told(started) == ["agent · climb · train 1, holdout 2, test 3 cases"]


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        (0, "continuing from the start"),
        (1, "continuing after the baseline"),
        (2, "continuing after 1 recorded trial"),
        (8, "continuing after 7 recorded trials"),
    ],
)
def test_a_resume_says_where_it_goes_on(recorded: int, words: str) -> None:
    lines = told(event("run_resumed", target="a", strategy="b", trials_recorded=recorded))
    assert lines[1] == f"{words}; nothing is paid twice"


def test_the_baseline_and_a_warning() -> None:
    first = event("trial_recorded", phase="baseline", train=0.5, train_std=0.1, holdout=None)
    assert told(first) == ["baseline          train 0.500 ±0.100   hold —"]
    assert told(event("warning", message="careful\x1b[0m")) == ["! careful␛[0m"]


def test_what_says_nothing_to_people_is_silent() -> None:
    assert told(event("advanced", trial=1), width=80) == []


EDITED: dict[str, Json] = {"name": "latency_ms", "train": 37.31, "holdout": 37.57}


@pytest.mark.parametrize("strategy", ["coordinate", "reflective", "backprop", "edits"])
@pytest.mark.parametrize("seconds", [0.2, 200.0])
def test_at_80_columns_every_trial_has_verdict_holdout_cost_and_time(
    strategy: str, seconds: float
) -> None:
    begun = event("run_started", target="agent", strategy=strategy, cases={"train": 4})
    own: dict[str, Json] = {"parent_train": 0.5} if strategy == "reflective" else {}
    own |= {"primary": EDITED} if strategy == "edits" else {}
    trial = event("trial_recorded", **{**TRIAL, "seconds": seconds, **own})
    line = told(begun, trial, width=80)[-1]
    assert cell_len(line) <= 80
    held = "hold 37.57" if strategy == "edits" else "hold 0."
    verdict = "keep ✓" if strategy == "edits" else "accept ✓"
    time = "0.2s" if seconds < 1 else "3m 20s"
    assert all(part in line for part in (held, verdict, "$0.0308", time)), line


def test_a_run_that_is_asked_to_stop_says_how_long_that_may_take() -> None:
    baseline = event("trial_recorded", **{**TRIAL, "trial": 0, "phase": "baseline", "seconds": 200})
    trial = event("trial_recorded", **TRIAL)
    asked = told(baseline, trial, event("stopping"), width=300)[-1]
    assert "when this trial ends, which may take 3m 20s, as long as the longest so far" in asked
    assert "A second Ctrl-C stops at once: a resume then asks again what had no answer" in asked
    assert "minutes: none has ended yet" in told(event("stopping"), width=300)[0]
