"""A notebook in a real kernel: burnish in its cells, and what they show."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

nbclient: Any = import_module("nbclient")
nbformat: Any = import_module("nbformat")

IMPORTS = """\
import IPython, burnish

def answer(question, instructions):
    return question.upper() if "loud" in instructions else question

def rewrite(messages):
    return "Be loud."

rows = [(f"word {number}", f"WORD {number}") for number in range(50)]
settings = dict(cases=rows, metric="equality", reflector=rewrite, budget=150)
from burnish import Case, evaluate, optimize
from burnish.journal.limits import Budget
from tests.strategies import reflection_world
"""
EVALUATE = """\
cases = [Case.single("no", "NO", name="one"), Case.single("no", "NEIN", name="two")]
found = evaluate(str.upper, cases=cases, metric="equality")
found
"""
SEARCH = """\
optimize(reflection_world.setup(budget=Budget(max_metric_calls=120)), folder="run")
"""
PLAIN = """\
result = burnish.optimize(answer, "Answer.", **settings)
assert result.best == "Be loud."
result
"""
AWAITED = """\
await burnish.aoptimize(answer, "Answer.", **settings)
"""


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """By cell, all that it shows as HTML."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    sources = {
        "imports": IMPORTS,
        "evaluate": EVALUATE,
        "search": SEARCH,
        "plain": PLAIN,
        "awaited": AWAITED,
    }
    cells = [nbformat.v4.new_code_cell(each) for each in sources.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = nbclient.NotebookClient(
        notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    return {
        name: [
            "".join(output.data["text/html"])
            for output in cell.outputs
            if output.output_type in ("display_data", "execute_result")
            and "text/html" in output.data
        ]
        for name, cell in zip(sources, notebook.cells, strict=True)
    }


def test_cells_show_an_evaluation_a_search_and_its_progress(outputs: dict[str, list[str]]) -> None:
    (evaluated,) = outputs["evaluate"]
    assert "failed: 1 of 2 cases fails" in evaluated
    progress, result = outputs["search"]
    assert "best score" in progress
    assert "result.adopt() writes it into your files" in result
    for name in ("plain", "awaited"):
        line, result = outputs[name]  # one line was renewed
        assert line.startswith("<p>finished · best score 1.000 · spent ")
        assert "<ins>Be loud</ins>" in result or "<b>Improved</b>" in result
