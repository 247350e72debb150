"""Results and runs in a notebook: what a cell shows, and calls inside the notebook's own loop."""

import ast
import asyncio
import signal
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from burnish import Case, Result, evaluate, optimize
from burnish.core.errors import BurnishError
from burnish.journal.limits import Budget
from burnish.system.shutdown import notebook_display
from tests.strategies import reflection_world

CASES = [Case.single("no", "NO", name="one"), Case.single("no <b>", "NEIN", name="two")]


def shown(result: Any) -> str:
    """What a cell shows of its last value."""
    return getattr(result, "_repr_html_")()  # noqa: B009 - as notebooks ask


def shout(text: str) -> str:
    return text.upper()


def whisper(text: str) -> str:
    return text.lower()


@dataclass
class Cell:
    """IPython's `display` in a cell: remembers all that the cell showed."""

    outputs: list[str] = field(default_factory=list[str])
    displays: int = 0
    """Outputs that were begun; the others renew one of them."""

    def __call__(self, view: Any, *, display_id: bool) -> "Cell":
        assert display_id
        self.displays += 1
        self.update(view)
        return self

    def update(self, view: Any) -> None:
        self.outputs.append(shown(view))


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """A notebook's kernel in this process."""
    cell, shell = Cell(), SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=cell))
    return cell


def searched(folder: Path) -> Result:
    return optimize(reflection_world.setup(budget=Budget(max_metric_calls=120)), folder=folder)


class TestShown:
    def test_an_evaluation(self) -> None:
        found = evaluate(shout, cases=CASES, metric="equality")
        assert "failed: 1 of 2 cases fails" in shown(found)
        assert "<table>" in shown(found)
        assert shown(found.evaluation).startswith("<p><b>2 cases of train, 1 times</b></p><table>")
        assert "<td>equality</td><td>0.500</td>" in shown(found.evaluation)

    def test_a_comparison(self) -> None:
        before = evaluate(shout, cases=CASES, metric="equality").report
        now = evaluate(whisper, cases=CASES, metric="equality").report.against(before)
        text = shown(now.baseline)
        assert "1 new fail" in text
        assert "<td>equality</td><td>0.500</td><td>0.000</td><td>-0.500</td>" in text

    def test_a_result(self, tmp_path: Path) -> None:
        text = shown(searched(tmp_path / "a <b>"))
        assert "<b>" not in text.replace("<p><b>", "")
        assert "a &lt;b&gt;" in text
        assert "result.adopt() writes it into your files" in text


class TestKernel:
    async def test_calls_work_inside_the_loop_of_the_notebook(self, cell: Cell) -> None:
        assert notebook_display() is cell
        assert evaluate(shout, cases=CASES[:1], metric="equality").passed

    async def test_the_progress_of_a_run_is_one_output_that_is_renewed(
        self, cell: Cell, tmp_path: Path
    ) -> None:
        assert searched(tmp_path / "run").claim is not None
        assert "<progress value=" in "".join(cell.outputs)
        assert "baseline" in "".join(cell.outputs)
        assert "best score" in cell.outputs[-1]

    async def test_what_fails_is_raised_in_the_cell(self, cell: Cell, tmp_path: Path) -> None:
        with pytest.raises(BurnishError, match="cannot be called"):
            optimize({}, folder=tmp_path / "run")
        assert cell.outputs == []

    @pytest.mark.usefixtures("cell")
    async def test_stopping_the_cell_stops_the_run(self, tmp_path: Path) -> None:
        main, ended = threading.get_ident(), list[str]()

        async def forever(text: str) -> str:
            signal.pthread_kill(main, signal.SIGINT)  # as the notebook's button does
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(text)
            return text

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                evaluate(forever, cases=CASES[:1], metric="equality", folder=tmp_path / "run")
        finally:
            signal.signal(signal.SIGINT, before)
        assert ended == ["no"]


DEFINITIONS = """
import burnish

def answer(question, instructions):
    return question.upper() if "loud" in instructions else question

def right(output, expected):
    return output == expected, f"expected {expected}, loud"

def rewrite(messages):
    return "Be loud."

rows = [(f"word {number}", f"WORD {number}") for number in range(50)]
texts = {"instructions": "Answer."}
settings = dict(cases=rows, metric=right, reflector=rewrite, budget=150)
"""
PLAIN = """
result = burnish.optimize(answer, texts, **settings, folder="plain")
result
"""
AWAITED = """
result = await burnish.aoptimize(answer, texts, **settings, folder="awaited")
result
"""
MEASURED = """
await burnish.aevaluate(answer, result.best, cases=rows[:3], metric=right)
"""


async def executed(source: str, namespace: dict[str, Any]) -> Any:
    """Run a cell as IPython does, inside the running loop; its last value is what it shows."""
    *statements, last = ast.parse(source).body
    is_value = isinstance(last, ast.Expr)
    parts: list[ast.Module | ast.Expression] = [ast.Module(statements, [])]
    parts.append(ast.Expression(last.value) if is_value else ast.Module([last], []))
    value = None
    for tree in parts:
        mode = "eval" if isinstance(tree, ast.Expression) else "exec"
        code = compile(tree, "<cell>", mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(code, namespace)
        if asyncio.iscoroutine(value):
            value = await value
    return value


class TestExecuted:
    """A notebook whose cells are run one by one, as a kernel runs them."""

    async def test_plain_calls_awaited_calls_and_what_they_show(
        self, cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        notebook: dict[str, Any] = {"__name__": "__main__"}
        await executed(DEFINITIONS, notebook)
        for source in (PLAIN, AWAITED):
            cell.displays, cell.outputs = 0, []
            found = await executed(source, notebook)
            assert found.best == {"instructions": "Be loud."}
            assert "<b>Improved</b>" in shown(found)
            assert cell.displays == 1
            assert len(cell.outputs) > 2
            assert all(each.startswith("<p>") and each.count("<p>") == 1 for each in cell.outputs)
            assert all("\n" not in each and "<pre>" not in each for each in cell.outputs)
            assert any("<progress value=" in each for each in cell.outputs)
            assert cell.outputs[-1].startswith("<p>finished · best score 1.000 · spent ")
        assert "passed" in shown(await executed(MEASURED, notebook))


async def test_a_running_loop_elsewhere_is_no_notebook() -> None:
    assert notebook_display() is None
    assert evaluate(shout, cases=CASES[:1], metric="equality").passed
