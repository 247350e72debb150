"""Charts and drawings: the Pareto front, series of a strategy, and weights on a graph."""

from dataclasses import replace
from typing import Any

from burnish.core.cases import Step, Trace
from burnish.core.formatting import Drawing
from burnish.core.surfaces import Origin
from burnish.core.trials import Decision, SplitResult, TrialRow, Verdict
from burnish.delegation.plugin import DelegatePlugin
from burnish.delegation.training.plugin import EpochsPlugin
from burnish.pages.charts import drawn, front_chart, score_chart, tree_chart
from burnish.pages.run_page import StepGraph, picture
from burnish.runs.directory import RunRecord
from burnish.strategies.edits.plugin import EditsPlugin


def _kept(row: TrialRow, number: int, scores: dict[str, float]) -> TrialRow:
    """The row as if its candidate had been built on, with these scores on holdout."""
    result = row.trial.holdout
    assert isinstance(result, SplitResult)
    loss = 1 - sum(scores.values()) / len(scores)
    changed = replace(
        result,
        scores={case: {"m": [value]} for case, value in scores.items()},
        measurement=replace(result.measurement, loss=loss),
    )
    decision = Decision(gate="g", verdict=Verdict.KEEP, code="kept", reason="best at a case")
    return replace(row, number=number, trial=replace(row.trial, holdout=changed, decision=decision))


def test_a_candidate_that_is_best_at_one_case_is_on_the_front(shown: RunRecord) -> None:
    row = shown.rows[1]
    rows = (
        _kept(row, 0, {"a": 1.0, "b": 0.2, "c": 0.4}),
        _kept(row, 1, {"a": 0.0, "b": 0.9, "c": 0.1}),
        _kept(row, 2, {"a": 0.9, "b": 0.8, "c": 0.3}),
    )
    chart = front_chart(replace(shown, rows=rows))
    assert chart is not None
    assert [(line[0], *line[3:]) for line in chart.rows] == [
        ("0", "2 of 3", "yes"),
        ("1", "1 of 3", "yes"),
        ("2", "0 of 3", "no"),
    ]


def test_a_search_that_builds_on_its_leader_only_has_no_front(shown: RunRecord) -> None:
    assert front_chart(shown) is None


def test_a_candidate_that_is_tried_again_is_another_point_of_the_tree(shown: RunRecord) -> None:
    start, _, better = shown.rows
    again = start.trial.candidate.child({}, origin=Origin(note="back to the start"))
    again = replace(again, parents=(better.trial.candidate.id,))
    assert again.id == start.trial.candidate.id
    rows = (*shown.rows, replace(better, number=3, trial=replace(better.trial, candidate=again)))
    chart = tree_chart(replace(shown, rows=rows))
    assert chart is not None
    assert [line[:2] for line in chart.rows] == [("0", "—"), ("1", "0"), ("2", "0"), ("3", "2")]
    groups: Any = chart.figure["data"]
    points = {x: y for each in groups[1:] for x, y in zip(each["x"], each["y"], strict=True)}
    assert points == {0: 0, 1: 1, 2: 1, 3: 2}


def test_the_noise_bar_is_explained_only_where_it_is_drawn(shown: RunRecord) -> None:
    with_bar = score_chart(shown)
    rows = [replace(row, trial=replace(row.trial, decision=None)) for row in shown.rows]
    without = score_chart(replace(shown, rows=tuple(rows)))
    assert with_bar is not None
    assert without is not None
    assert "dotted" in with_bar.note
    assert "dotted" not in without.note


def test_a_drawing_has_its_numbers_as_a_table_too() -> None:
    drawing = Drawing(
        title="Loss",
        labels=("1", "2"),
        series={"train": (0.5, None), "holdout": (0.25, 0.125)},
        unit="loss",
        label="epoch",
    )
    chart = drawn(drawing, "own")
    assert chart.head == ("epoch", "train", "holdout")
    assert chart.rows == (("1", "0.5", "0.25"), ("2", "—", "0.125"))
    assert chart.figure["words"] == "x"


def test_bars_of_surfaces_lie_so_that_their_names_have_room() -> None:
    series = {"P0": (1.0,), "P1": (2.0,)}
    drawing = Drawing(
        title="Blame", labels=("a#b",), series=series, unit="n", kind="bars", of_surfaces=True
    )
    data = drawn(drawing, "own").figure["data"]
    assert isinstance(data, list)
    assert data[0] == {
        "type": "bar",
        "name": "P0",
        "x": [1.0],
        "y": ["a#b"],
        "meta": "series-0",
        "orientation": "h",
    }


def _step(name: str, *before: str) -> Step:
    return Step(id=name, node=name, predecessors=before, surfaces=(f"{name}#text",))


def test_a_graph_is_drawn_from_left_to_right_with_the_way_back_below() -> None:
    steps = (_step("plan"), _step("write", "plan"), _step("check", "write"))
    again = Step(id="plan-2", node="plan", predecessors=("check",))
    graph = StepGraph.of([Trace(steps=(*steps, again))])
    assert graph.columns == {"plan": 0, "write": 1, "check": 2}
    assert graph.edges == (("plan", "write"), ("write", "check"), ("check", "plan"))
    drawing = picture(graph, {"plan": 0, "write": 4, "check": 1}, title="t", unit="gradients")
    assert [node.marked for node in drawing.nodes] == [False, True, True]
    assert drawing.nodes[1].stroke > drawing.nodes[2].stroke
    assert drawing.nodes[1].words == "4 gradients"
    forward, _, back = drawing.lines
    assert forward[2] > forward[0]
    assert back[2] < back[0]


def _with_parts(row: TrialRow, values: dict[str, float]) -> TrialRow:
    result = row.trial.train
    assert isinstance(result, SplitResult)
    measured = replace(result, measurement=replace(result.measurement, values=values))
    return replace(row, trial=replace(row.trial, train=measured))


def test_a_delegation_draws_what_its_loss_is_made_of(shown: RunRecord) -> None:
    first = _with_parts(shown.rows[0], {"eval": 0.5, "critique": 0.0, "loss": 0.2})
    again = _with_parts(shown.rows[2], {"eval": 0.25, "critique": 0.5})
    (drawing,) = DelegatePlugin().drawings(replace(shown, rows=(first, again)))
    assert drawing.labels == ("the first run", "kinder")
    assert drawing.series == {"eval": (0.2, 0.1), "critique": (0.0, 0.15)}
    assert [*DelegatePlugin().drawings(shown)] == []


def test_epochs_draw_their_losses(shown: RunRecord) -> None:
    (drawing,) = EpochsPlugin().drawings(shown)
    assert [*drawing.series] == ["train", "holdout"]
    assert len(drawing.labels) == 3
    assert [*EpochsPlugin().drawings(replace(shown, rows=shown.rows[:1]))] == []


def test_edits_draw_their_primary_number_and_the_best_so_far(shown: RunRecord) -> None:
    values: tuple[dict[str, float], ...] = ({"score": 40.0}, {}, {"score": 70.0})
    pairs = zip(shown.rows, values, strict=True)
    rows = tuple(_with_parts(row, numbers) for row, numbers in pairs)
    (drawing,) = EditsPlugin().drawings(replace(shown, rows=rows))
    assert drawing.series == {"train": (40.0, None, 70.0), "best so far": (40.0, 40.0, 70.0)}
    assert drawing.labels == ("0", "1", "2")
    assert [*EditsPlugin().drawings(replace(shown, rows=rows[:2]))] == []
