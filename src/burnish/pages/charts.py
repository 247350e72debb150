"""Charts of a run as plotly figures, each with the same numbers as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from burnish.core.content import Json
from burnish.core.evaluations import mean
from burnish.core.formatting import Drawing, number
from burnish.core.trials import TrialRow
from burnish.runs.directory import RunRecord, loss_of, result_of
from burnish.runs.events import BASELINE
from burnish.runs.report_sections import SPLITS

Figure: TypeAlias = dict[str, Json]

_COLUMNS = 40
"""Candidates of a heat map."""
_CASES = 200
"""Cases of a heat map."""
_TABLE_ROWS = 300
"""Rows of the table beside a chart; trials.jsonl has them all."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure for plotly, and its numbers for readers who do not see it."""

    name: str
    """Unique on its page."""
    title: str
    figure: Figure
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    is_heat: bool = False
    """Whether colours stand for scores."""


def score_chart(run: RunRecord) -> Chart | None:
    """Score by trial: train and holdout, accepted trials, and the bar that noise sets."""
    rows = run.rows
    if sum(_shown_score(row) is not None for row in rows) < 2:
        return None
    trials: list[Json] = [row.number for row in rows]
    accepted = [row for row in rows if row.trial.accepted]
    traces: list[Json] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": split,
            "x": trials,
            "y": [_score(row, split) for row in rows],
            "meta": split,
            "marker": {"size": 7, "symbol": "circle" if split == "train" else "diamond"},
        }
        for split in SPLITS
        if any(loss_of(row, split) is not None for row in rows)
    ]
    noise = _noise_bar(rows)
    traces += [_best_so_far(rows), *noise]
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "accepted",
            "x": [row.number for row in accepted],
            "y": [_shown_score(row) for row in accepted],
            "meta": "accepted",
            "marker": {"size": 15, "symbol": "circle-open", "line": {"width": 2}},
        }
    )
    return Chart(
        name="scores",
        title="Score by trial",
        figure={**figure_of(traces, x="trial", y="score (1 − loss)"), "whole": ["xaxis"]},
        head=("trial", *SPLITS, "noise bar", "decision"),
        rows=tuple(
            (
                str(row.number),
                *(number(_score(row, split)) for split in SPLITS),
                number(_bar(row)),
                row.trial.decision.verdict.value if row.trial.decision else "the start",
            )
            for row in rows[:_TABLE_ROWS]
        ),
        note="Higher is better. A ring marks a trial that was accepted"
        + (
            "; the dotted line is what a trial had to reach on train to be better than noise."
            if noise
            else "."
        ),
    )


def _best_so_far(rows: Sequence[TrialRow]) -> Json:
    best: float | None = None
    line: list[Json] = []
    for row in rows:
        if row.trial.accepted or row.trial.phase == BASELINE:
            best = _shown_score(row)
        line.append(best)
    trials: list[Json] = [row.number for row in rows]
    shape: Figure = {"shape": "hv", "width": 2}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": trials,
        "y": line,
        "meta": "best",
        "line": shape,
        "hoverinfo": "skip",
    }


def _noise_bar(rows: Sequence[TrialRow]) -> list[Json]:
    """What each trial had to reach: the score of the best before it and the noise bar."""
    points: list[tuple[int, float]] = []
    for row in rows:
        numbers: Mapping[str, float] = row.trial.decision.numbers if row.trial.decision else {}
        before, bar = numbers.get("best_train_mean_before"), numbers.get("noise_bar")
        if before is not None and bar is not None:
            points.append((row.number, 1 - before + bar))
    if not points:
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "noise bar",
            "x": [trial for trial, _ in points],
            "y": [value for _, value in points],
            "meta": "noise",
            "line": {"dash": "dot", "width": 1.5, "shape": "hv"},
        }
    ]


def _bar(row: TrialRow) -> float | None:
    return row.trial.decision.numbers.get("noise_bar") if row.trial.decision else None


def _score(row: TrialRow, split: str) -> float | None:
    loss = loss_of(row, split)
    return None if loss is None else 1 - loss


def _shown_score(row: TrialRow) -> float | None:
    scores = (_score(row, split) for split in SPLITS)
    return next((score for score in scores if score is not None), None)


def tree_chart(run: RunRecord) -> Chart | None:
    """Which candidate came from which: one point a trial, a line to each of its parents."""
    rows = [row for row in run.rows if not row.trial.problems]
    if len(rows) < 3:
        return None
    first, depths = _places(rows)
    xs: list[Json] = []
    ys: list[Json] = []
    for row in rows:
        for parent in _parents(row, first):
            xs += [parent, row.number, None]
            ys += [depths[parent], depths[row.number], None]
    edges: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": "came from",
        "x": xs,
        "y": ys,
        "meta": "edge",
        "line": {"width": 1},
        "hoverinfo": "skip",
    }
    groups = {
        "accepted": [row for row in rows if row.trial.accepted or row.trial.phase == BASELINE],
        "kept": [row for row in rows if row.trial.kept],
        "rejected": [row for row in rows if not (row.trial.accepted or row.trial.kept)],
    }
    groups["rejected"] = [row for row in groups["rejected"] if row.trial.phase != BASELINE]
    traces: list[Json] = [edges]
    for name, members in groups.items():
        if members:
            traces.append(_tree_points(name, members, depths))
    return Chart(
        name="tree",
        title="The tree of candidates",
        figure={
            **figure_of(traces, x="trial", y="changes since the start"),
            "whole": ["xaxis", "yaxis"],
        },
        head=("trial", "came from trial", "what", "became"),
        rows=tuple(_tree_row(row, first) for row in rows[:_TABLE_ROWS]),
        note="Each line leads to the candidate that was changed; a merge has two.",
    )


def _tree_points(name: str, rows: Sequence[TrialRow], depths: Mapping[int, int]) -> Json:
    labels: list[Json] = [_what(row) for row in rows]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [row.number for row in rows],
        "y": [depths[row.number] for row in rows],
        "text": labels,
        "meta": name,
        "marker": {"size": 6 if name == "rejected" else 12},
    }


def _tree_row(row: TrialRow, first: Mapping[str, int]) -> tuple[str, ...]:
    parents = ", ".join(map(str, _parents(row, first)))
    verdict = row.trial.decision.verdict.value if row.trial.decision else "the start"
    return str(row.number), parents or "—", _what(row), verdict


def _what(row: TrialRow) -> str:
    return row.trial.candidate.origin.note or ", ".join(row.trial.touched) or row.trial.phase


def _places(rows: Sequence[TrialRow]) -> tuple[dict[str, int], dict[int, int]]:
    """By candidate, the trial that tried it first; by trial, its changes since the start.

    A search may come back to a candidate: that is another point.
    """
    first: dict[str, int] = {}
    depths: dict[int, int] = {}
    for row in rows:
        above = [depths[parent] for parent in _parents(row, first)]
        depths[row.number] = 1 + max(above) if above else 0
        first.setdefault(row.trial.candidate.id, row.number)
    return first, depths


def _parents(row: TrialRow, first: Mapping[str, int]) -> list[int]:
    """The trials whose candidates this one was made of."""
    trials = (first.get(parent) for parent in row.trial.candidate.parents)
    return [trial for trial in trials if trial is not None and trial < row.number]


def case_chart(run: RunRecord) -> Chart | None:
    """Cases by candidate: how each accepted candidate did on each case."""
    rows = [row for row in run.rows if row.trial.accepted or row.trial.phase == BASELINE]
    split = next((s for s in SPLITS[::-1] if sum(bool(result_of(r, s)) for r in rows) > 1), "")
    columns = [row for row in rows if result_of(row, split) is not None][-_COLUMNS:]
    if not split or len(columns) < 2:
        return None
    return heat_chart(
        f"Cases by candidate, on {split}",
        {f"trial {row.number}": case_means(row, split) for row in columns},
        note="Each column is a candidate that was accepted, the baseline first.",
    )


def heat_chart(title: str, columns: Mapping[str, Mapping[str, float]], *, note: str) -> Chart:
    """Scores by case and column, as colours."""
    scores, names = [*columns.values()], list[Json](columns)
    cases = sorted({case for column in scores for case in column})[:_CASES]
    heat: Figure = {
        "type": "heatmap",
        "x": names,
        "y": [*cases],
        "z": [[column.get(case) for column in scores] for case in cases],
        "zmin": 0,
        "zmax": 1,
        "meta": "heat",
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": "%{y}, %{x}: %{z:.3f}<extra></extra>",
    }
    figure = figure_of([heat], x="", y="")
    figure["height"] = 120 + 18 * len(cases)
    return Chart(
        name="heat",
        title=title,
        figure=figure,
        head=("case", *columns),
        rows=tuple((case, *(number(column.get(case)) for column in scores)) for case in cases),
        note=note,
        is_heat=True,
    )


def case_means(row: TrialRow | None, split: str) -> dict[str, float]:
    """The mean of all scores of each case."""
    result = result_of(row, split)
    means: dict[str, float] = {}
    if result is None:
        return means
    for case, metrics in result.scores.items():
        values = [v for scores in metrics.values() for v in scores if v is not None]
        if values:
            means[case] = mean(values)
    return means


def bar_chart(
    name: str, title: str, bars: Sequence[tuple[str, float]], *, unit: str, head: tuple[str, str]
) -> Chart | None:
    """One horizontal bar for each name."""
    if not any(value for _, value in bars):
        return None
    shown = sorted(bars, key=lambda bar: bar[1])
    bar: Figure = {
        "type": "bar",
        "orientation": "h",
        "x": [value for _, value in shown],
        "y": [label for label, _ in shown],
        "meta": "bar",
    }
    figure = figure_of([bar], x=unit, y="")
    figure["height"] = 110 + 28 * len(bars)
    rows = tuple((label, f"{value:,.4f}".rstrip("0").rstrip(".")) for label, value in bars)
    return Chart(name=name, title=title, figure=figure, head=head, rows=rows)


def drawn(drawing: Drawing, name: str) -> Chart:
    """A drawing of a strategy as a chart."""
    bars = drawing.kind == "bars"
    labels: list[Json] = [*drawing.labels]
    # Names of surfaces are long: they have room beside lying bars.
    lying = bars and drawing.of_surfaces
    traces: list[Json] = []
    for place, (title, values) in enumerate(drawing.series.items()):
        numbers: list[Json] = [*values]
        trace: Figure = {
            "type": "bar" if bars else "scatter",
            "name": title,
            "x": numbers if lying else labels,
            "y": labels if lying else numbers,
            "meta": f"series-{place % 4}",
        }
        trace |= {"orientation": "h"} if lying else {} if bars else {"mode": "lines+markers"}
        traces.append(trace)
    axes = (drawing.unit, "") if lying else (drawing.label, drawing.unit)
    figure = figure_of(traces, x=axes[0], y=axes[1])
    figure["words"] = "y" if lying else "x"
    if lying:
        figure["height"] = 130 + 30 * len(labels)
    cells = zip(drawing.labels, *drawing.series.values(), strict=True)
    return Chart(
        name=name,
        title=drawing.title,
        figure=figure,
        head=(drawing.label or "what", *drawing.series),
        rows=tuple((str(label), *map(_cell, values)) for label, *values in cells),
        note=drawing.note,
    )


def _cell(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")


def front_chart(run: RunRecord) -> Chart | None:
    """Which candidates are best at which cases, where a search builds on more than its leader."""
    if not any(row.trial.kept for row in run.rows):
        return None
    split = next((s for s in SPLITS[::-1] if sum(bool(result_of(r, s)) for r in run.rows) > 1), "")
    rows = [row for row in run.rows if _is_built_on(row) and result_of(row, split) is not None]
    means = {row.number: case_means(row, split) for row in rows}
    best = {case: max(each.get(case, 0.0) for each in means.values()) for case in _shared(means)}
    wins = {
        trial: sum(scores[case] >= value for case, value in best.items())
        for trial, scores in means.items()
    }
    if len(rows) < 2 or not best:
        return None
    on_front = [row for row in rows if wins[row.number]]
    behind = [row for row in rows if not wins[row.number]]
    traces: list[Json] = [
        {
            "type": "scatter",
            "mode": "markers+text",
            "name": name,
            "x": [_score(row, split) for row in group],
            "y": [wins[row.number] for row in group],
            "text": [str(row.number) for row in group],
            "textposition": "top center",
            "meta": meta,
            "marker": {"size": 13, "symbol": symbol},
        }
        for name, group, meta, symbol in (
            ("on the front", on_front, "accepted", "circle"),
            ("behind it", behind, "rejected", "diamond"),
        )
        if group
    ]
    return Chart(
        name="front",
        title="The Pareto front",
        figure={
            **figure_of(traces, x=f"score on {split}", y="cases it is best at"),
            "whole": ["yaxis"],
        },
        head=("trial", "what", f"score on {split}", "cases it is best at", "on the front"),
        rows=tuple(
            (
                str(row.number),
                _what(row) or "—",
                number(_score(row, split)),
                f"{wins[row.number]} of {len(best)}",
                "yes" if wins[row.number] else "no",
            )
            for row in rows
        ),
        note="Every candidate that was built on, with the number of its trial. One that is best at "
        "some case is on the front, even if others have a higher score.",
    )


def _is_built_on(row: TrialRow) -> bool:
    return row.trial.accepted or row.trial.kept or row.trial.phase == BASELINE


def _shared(means: Mapping[int, Mapping[str, float]]) -> list[str]:
    """The cases that all of them were run on."""
    shared = set[str].intersection(*map(set[str], means.values())) if means else set[str]()
    return sorted(shared)


def figure_of(traces: Sequence[Json], *, x: str, y: str) -> Figure:
    """Data and the titles of the axes; colours and fonts are those of the page."""
    return {"data": [*traces], "x": x, "y": y}
