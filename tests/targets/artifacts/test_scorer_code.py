"""What the text of a scorer shows: missing files, and artifacts whose code it runs."""

from pathlib import Path

import pytest

from burnish.targets.artifacts.safeguards import (
    artifacts_run_by,
    function_problem,
    missing_script,
)
from burnish.targets.artifacts.task import HeldOut, Runner, Scoring, Task
from tests.targets.artifacts.task_folders import opened, write

FILES = {
    "code.py": "def f(): return 1\n",
    "notes.md": "",
    "reads.py": "from pathlib import Path\nprint(len(Path('code.py').read_text()))\n",
    "imports.py": "import helper\n",
    "helper.py": "def score(workspace, run):\n    from code import f\n    return f()\n",
    "starts.py": "import subprocess\nsubprocess.run(['python', 'code.py'])\n",
    "loads.py": "import importlib\nimportlib.import_module('code')\n",
    "tests/test_it.py": "import code\n",
}


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("python reads.py", []),
        ("python imports.py", ["code.py"]),
        ("python -m helper", ["code.py"]),
        ("python starts.py", ["code.py"]),
        ("python loads.py", ["code.py"]),
        ("python code.py", ["code.py"]),
        ("pytest tests", ["code.py"]),
        ("make score", ["code.py"]),
    ],
)
def test_artifacts_that_a_scorer_runs(tmp_path: Path, command: str, run: list[str]) -> None:
    write(tmp_path, FILES)
    artifacts = ["code.py", "notes.md"]
    assert artifacts_run_by(Scoring(command=command), tmp_path, artifacts) == run
    assert artifacts_run_by(Scoring(command=command), tmp_path, ["notes.md"]) == []


def test_a_function_that_imports_an_artifact(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    scoring = Scoring(kind="python", function="helper:score")
    assert artifacts_run_by(scoring, tmp_path, ["code.py"]) == ["code.py"]
    metrics = Scoring(kind="metrics", reads="code.py")
    assert artifacts_run_by(metrics, tmp_path, ["code.py"]) == []


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("python reads.py", ""),
        ("python ./reads.py cases.json", ""),
        ("python scripts/score.py", "scripts/score.py"),
        ("./score --all", "./score"),
        ("python -c 'import x.py'", ""),
        ("make new.py && python new.py", ""),
        ("bash -x run.sh", "run.sh"),
        ("make && python new.py", ""),
        ("python $HOME/score.py", ""),
        ("python /opt/score.py", ""),
        ("python 'reads.py", ""),
    ],
)
def test_scripts_that_are_missing(tmp_path: Path, command: str, missing: str) -> None:
    write(tmp_path, FILES)
    assert missing_script(command, tmp_path) == missing


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("helper:score", ""),
        ("helper:scores", "helper.py has no function 'scores'"),
        ("nothing_here:score", "there is no module 'nothing_here'"),
        ("helper.deep:score", "there is no module 'helper.deep'"),
        ("broken:score", "broken.py is not valid Python"),
        ("json:dumps", ""),
    ],
)
def test_functions_that_are_missing(tmp_path: Path, function: str, problem: str) -> None:
    write(tmp_path, {**FILES, "broken.py": "def score(:"})
    told = function_problem(function, tmp_path)
    assert told.startswith(problem)
    assert bool(told) == bool(problem)


def test_a_task_says_what_can_be_forged_or_read(tmp_path: Path) -> None:
    write(tmp_path, {**FILES, "held/cases.json": "[]"})
    task = Task(
        folder=tmp_path,
        include=("code.py",),
        scoring=Scoring(command="python imports.py"),
        holdout=HeldOut(
            runner=Runner(command="python starts.py held/cases.json"), files=("held/**",)
        ),
    )
    forged, read = opened(task).doubts
    assert "the scorer runs code of code.py itself, so its score can be forged" in forged
    assert "the holdout's runner reads held/cases.json, and so can a candidate" in read
    assert set(opened(task).doubts) < set(opened(task).notes)
