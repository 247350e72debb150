"""What a terminal shows: never wider than it is, cut where there is much, honest about the rest."""

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from burnish.core.cases import Outcome
from burnish.core.evaluations import CaseResult
from burnish.reports import evaluation_page
from burnish.reports.evaluation import EvalReport
from burnish.reports.evaluation_page import case_table, metric_table
from tests.reports.measured import AWAY, CRASH, failing, report, scored, sweeps


def shown(found: EvalReport, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        for part in (*case_table(found, width), *evaluation_page.troubles(found, width)):
            console.print(part)
        console.print(metric_table(found))
        if found.baseline:
            for part in evaluation_page.baseline(found.baseline, width):
                console.print(part)
        if found.noise:
            for part in evaluation_page.noise(found.noise, width):
                console.print(part)
    return [line.rstrip() for line in capture.get().splitlines()]


def both(case: str, **values: float) -> CaseResult:
    """One run scored by several metrics."""
    parts = [scored(case, value, metric=metric) for metric, value in values.items()]
    return replace(parts[0], scores=tuple(score for part in parts for score in part.scores))


def test_rows_are_cases_and_columns_are_metrics() -> None:
    lines = shown(report(both("good", faithful=1.0, short=0.75), both("bad", faithful=0.25)), 80)
    assert lines[:3] == [
        "case    faithful     short",
        "✓ good      1.00      0.75",
        "✗ bad     ✗ 0.25         —",
    ]


def test_missing_is_not_a_dash() -> None:
    lines = shown(report(scored("a", 1.0), failing("b", AWAY)), 80)
    assert lines[2] == "! b      missing"
    assert "429 too many requests" in "\n".join(lines)


def test_repeats_show_how_many_pass() -> None:
    lines = shown(sweeps({"a": [1.0, 0.0, 1.0]}), 80)
    assert lines[0].split() == ["case", "passes", "graded"]
    assert lines[1].split() == ["✗", "a", "2/3", "✗", "0.67"]
    assert any("0.00 in 1 of 3 repeats" in line for line in lines)


def test_a_case_that_fails_in_many_ways_is_cut() -> None:
    runs = (scored("a", 0.01 * draw, draw=draw) for draw in range(10))
    many = [replace(run, outcome=Outcome(replies=(f"try {run.draw}",))) for run in runs]
    lines = shown(report(*many), 80)
    assert "  … 7 more such replies" in lines
    assert sum(line.startswith("  actual") for line in lines) == 3


def test_a_failure_says_expected_actual_and_why() -> None:
    lines = shown(report(scored("a", 1.0, 0.2)), 80)
    start = lines.index("✗ a", 2)
    assert lines[start + 1 : start + 4] == [
        "  turn 2",
        "  actual    reply 1",
        "  graded    0.20  scored 0.2",
    ]
    crash = shown(report(failing("b", CRASH)), 80)
    assert "  agent     crashed  KeyError: 'order'" in crash


WIDE = "日本語の長い名前" * 8
NASTY = f"[bold]x[/bold] \x1b[31m\n\t👩‍👩‍👧 {WIDE} " * 40


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    bad = both(WIDE, **{f"a_metric_with_a_long_name_{n}": 0.1 * n for n in range(9)})
    told = tuple(replace(score, reason=NASTY) for score in bad.scores)
    bad = replace(bad, outcome=Outcome(replies=(NASTY,)), scores=told)
    found = report(bad, scored("ok", 1.0), failing("crash" * 40, CRASH))
    lines = shown(found.with_noise().against(found), width)
    assert max(map(cell_len, lines)) <= width
    assert not any("\x1b" in line for line in lines)
    assert "[bold]x[/bold]" in "".join(line.strip() for line in lines)


def test_metrics_without_room_are_counted_and_failing_ones_come_first() -> None:
    values = {f"metric_number_{n}": 1.0 for n in range(12)} | {"worst_of_all": 0.0}
    lines = shown(report(both("a", **values)), 80)
    assert "worst_o…" in lines[0]
    assert any("more metrics: see below" in line for line in lines)


def test_many_cases_show_what_fails_and_count_the_rest() -> None:
    found = report(*(scored(f"c{n}", 0.0 if n in (7, 300) else 1.0) for n in range(1000)))
    lines = shown(found, 80)
    assert [line.split()[1] for line in lines[1:3]] == ["c7", "c300"]
    assert lines[3].strip() == "998 other cases not shown"


def test_many_failures_are_cut_and_counted() -> None:
    lines = shown(report(*(scored(f"c{n}", 0.0) for n in range(100))), 80)
    assert "60 more cases that do not pass, 0 other cases not shown" in "\n".join(lines)
    assert "… and 80 cases more; --json FILE and report.md have them all" in lines
    assert len(lines) < 130


def test_a_baseline_shows_what_moved_worst_first() -> None:
    before = report(*(scored(name, 0.6) for name in "abcdefgh"), scored("z", 0.1))
    now = report(*(scored(name, 0.2) for name in "abcdefg"), scored("h", 0.7), scored("z", 0.9))
    lines = "\n".join(shown(now.against(before), 80))
    assert "since run-1\n  1 new pass, 7 new fail, 1 up\n  new fail 0.60 → 0.20  a" in lines
    assert "  up       0.60 → 0.70  h" in lines
    assert "graded  9" in lines


def test_noise_is_shown_with_its_flaky_cases() -> None:
    lines = shown(sweeps({"a": [1, 0, 1], "b": [1, 1, 1]}).with_noise(), 80)
    told = "\n".join(lines)
    assert "noise: the same agent, 3 sweeps over the same cases" in told
    assert "flaky: 1 case changes the verdict; 33% do between two sweeps" in told
    assert "  passes 2 of 3  a" in lines
