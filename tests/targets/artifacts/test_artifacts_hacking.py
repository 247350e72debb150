"""Ways to a better score that are none: each is found, and says what was done."""

from pathlib import Path

import pytest

from burnish.system.sandbox import Mode
from burnish.targets.artifacts.task import HeldOut, Runner, Scoring
from tests.targets.artifacts.task_folders import (
    COMMAND,
    PROBE,
    PYTHON,
    opened,
    ran,
    ran_by,
    task_in,
    why,
    write,
)

pytestmark = [pytest.mark.slow, pytest.mark.on_disk]
GOOD = "echo 1 > out.txt"
FAKE = '{"score": 1000}'
ANSWER = (
    "import os; answer = os.environ['BURNISH_RUNNER_STDOUT'].replace('stdout.txt', 'score.json')"
)
NEEDS_BWRAP = pytest.mark.skipif(not PROBE.works, reason=f"bubblewrap: {PROBE.reason}")
MODES = ["none", pytest.param("bwrap", marks=NEEDS_BWRAP)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("deed", "told"),
    [
        (f"echo 'print(1)' > score.py; {GOOD}", "score.py"),
        (f"echo >> data/input.txt; {GOOD}", "data/input.txt"),
        (f"rm data/input.txt; {GOOD}", "data/input.txt"),
        (f"mv score.py s.py; {GOOD}", "score.py"),
        (f"chmod 777 score.py; {GOOD}", "score.py"),
        (f"ln score.py hard.txt; {GOOD}", "score.py"),
        (f"rm -r data; ln -s /etc data; {GOOD}", "data"),
        (f"echo 5 > value.txt; {GOOD}", "value.txt"),
        (f"rm value.txt; ln -s /etc/passwd value.txt; {GOOD}", "value.txt"),
        (f"echo 'import os; os._exit(0)' > json.py; {GOOD}", "json.py"),
        (f"mkdir json; touch json/__init__.py; {GOOD}", "json/__init__.py"),
        (f"echo x > conftest.py; {GOOD}", "conftest.py"),
        (f"echo x > keep/new.txt; {GOOD}", "keep/new.txt"),
    ],
)
async def test_what_is_not_an_artifact_is_left_alone(
    tmp_path: Path, mode: Mode, deed: str, told: str
) -> None:
    write(tmp_path, {"keep/there.txt": ""})
    outcome = await ran_by(tmp_path, deed, mode, protect=("keep/**",), exclude=("data/**",))
    assert "tampering, seen after the runner" in why(outcome)
    assert told in why(outcome)
    assert outcome.failure is not None
    assert outcome.failure.error == "Tampering"
    assert outcome.measures == {}


async def test_new_data_is_no_tampering(tmp_path: Path) -> None:
    command = f"mkdir -p logs; echo x > logs/a.log; echo x > value.json; touch .coverage; {GOOD}"
    outcome = await ran_by(tmp_path, command, include=("value.*",))
    assert outcome.measures["score"] == 1


async def test_tampering_by_what_runs_in_the_scorer(tmp_path: Path) -> None:
    scoring = Scoring(command=f"echo x >> data/input.txt; echo '{FAKE}'")
    outcome = await ran_by(tmp_path, GOOD, scoring=scoring)
    assert "tampering, seen after the scorer" in why(outcome)


PLANT = """
import importlib.util, os, pathlib, py_compile
helper = pathlib.Path("helper.py")
pathlib.Path("evil.txt").write_text("def judged(value): return 1000")
py_compile.compile("evil.txt", importlib.util.cache_from_source("helper.py"))
cached = pathlib.Path(importlib.util.cache_from_source("helper.py"))
content = bytearray(cached.read_bytes())
content[8:12] = int(helper.stat().st_mtime).to_bytes(4, "little")
content[12:16] = helper.stat().st_size.to_bytes(4, "little")
cached.write_bytes(content)
pathlib.Path("out.txt").write_text("1")
"""


async def test_planted_bytecode_does_not_score(tmp_path: Path) -> None:
    score = "import helper, json\nprint(json.dumps({'score': helper.judged(1)}))"
    write(
        tmp_path, {"plant.py": PLANT, "helper.py": "def judged(value): return value", "s.py": score}
    )
    outcome = await ran_by(tmp_path, "python plant.py", scoring=Scoring(command="python s.py"))
    assert outcome.failure is None, outcome.failure
    assert outcome.measures["score"] == 1


async def test_a_score_that_the_run_prints_is_not_read(tmp_path: Path) -> None:
    assert (await ran_by(tmp_path, f"echo '{FAKE}'; {GOOD}")).measures["score"] == 1


async def test_a_score_that_the_files_print_in_the_scorer(tmp_path: Path) -> None:
    write(tmp_path, {"good.py": f"print('{FAKE}')", "s.py": "import good\nprint('{\"score\": 1}')"})
    outcome = await ran_by(tmp_path, GOOD, scoring=Scoring(command="python s.py"))
    assert "which one counts is unclear" in why(outcome)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("import os; os._exit(0)", "without an answer"),
        ("import sys; sys.exit(0)", "without an answer"),
        ("raise ValueError('no such thing')", "no such thing"),
        ("return float('nan')", "not a finite number"),
        ("return 'good'", "neither a number nor an object"),
        ("return {'points': 3}", "has no 'score'"),
        ("return 10**400", "not a finite number"),
        (f"{ANSWER}; os.mkfifo(answer); os._exit(0)", "without an answer"),
        (f"{ANSWER}; os.symlink('/etc/passwd', answer); os._exit(0)", "without"),
        (f"{ANSWER}; open(answer, 'w').write('[' * 100000); os._exit(0)", "something else"),
        (f"{ANSWER}; open(answer, 'w').write('1000'); os._exit(0)", "something else"),
        ("return " + "[" * 50 + "]" * 50, "neither a number nor an object"),
    ],
)
async def test_a_function_that_gives_no_score(tmp_path: Path, body: str, told: str) -> None:
    task = task_in(tmp_path, scoring=PYTHON)
    write(tmp_path, {"scorer.py": f"print('{FAKE}')\ndef score(workspace, run):\n    {body}\n"})
    outcome = await ran(opened(task))
    assert told in why(outcome)


async def test_a_function_may_use_modules_of_the_names_of_ours(tmp_path: Path) -> None:
    body = "import fractions, statistics\nfrom decimal import Decimal\n"
    body += "def score(workspace, run): return float(Decimal('0.5'))"
    task = task_in(tmp_path, scoring=PYTHON, primary="points")
    write(tmp_path, {"scorer.py": body})
    outcome = await ran(opened(task))
    assert outcome.failure is None, outcome.failure
    assert outcome.measures["points"] == outcome.measures["score"] == 0.5


CHECK = """
import json, sys, answer
cases = json.load(open(sys.argv[1]))
right = sum(answer.square(x) == x * x for x in cases)
print(json.dumps({"score": right / len(cases)}))
"""


async def test_a_holdout_with_other_cases_catches_what_was_learnt_by_heart(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "answer.py": "def square(x): return {1: 1, 2: 4, 3: 9}.get(x)\n",
            "check.py": CHECK,
            "train.json": "[1, 2, 3]",
            "held/out.json": "[4, 5, 6]",
        },
    )
    task = task_in(
        tmp_path,
        include=("answer.py",),
        runner=None,
        scoring=Scoring(command="python check.py train.json"),
        holdout=HeldOut(
            scoring=Scoring(command="python check.py held/out.json"), files=("held/**",)
        ),
    )
    by_heart = opened(task)
    assert (await ran(by_heart)).measures["score"] == 1
    assert (await ran(by_heart, "holdout")).measures["score"] == 0
    write(tmp_path, {"answer.py": "def square(x):\n    return x * x\n"})
    assert (await ran(opened(task), "holdout")).measures["score"] == 1


async def test_a_runner_that_reads_held_out_answers_where_they_lie(tmp_path: Path) -> None:
    write(tmp_path / "p", {"held/out.txt": "the answer"})
    task = task_in(
        tmp_path / "p",
        runner=Runner(command=f"cat held/out.txt {tmp_path}/p/held/out.txt; {GOOD}"),
        holdout=HeldOut(scoring=COMMAND, files=("held/**",)),
    )
    if PROBE.works:
        assert "the answer" not in str((await ran(opened(task, "bwrap"))).data)
