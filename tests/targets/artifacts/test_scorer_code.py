"""Files and functions of a task that are missing, and what a candidate can read."""

from pathlib import Path

import pytest

from burnish.targets.artifacts.safeguards import (
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


def test_a_task_says_what_a_candidate_can_read(tmp_path: Path) -> None:
    write(tmp_path, {**FILES, "held/cases.json": "[]"})
    task = Task(
        folder=tmp_path,
        include=("code.py",),
        scoring=Scoring(command="python imports.py"),
        holdout=HeldOut(
            runner=Runner(command="python starts.py held/cases.json"), files=("held/**",)
        ),
    )
    (read,) = opened(task).doubts
    assert "the holdout's runner reads held/cases.json, and so can a candidate" in read
    assert set(opened(task).doubts) < set(opened(task).notes)
