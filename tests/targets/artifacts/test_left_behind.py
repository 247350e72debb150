"""What of a run reaches its scorer: what the task declares, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Outcome
from burnish.journal.once import DirectEffects
from burnish.system.sandbox import Mode, probe_landlock
from burnish.targets.artifacts.task import HeldOut, Runner, Scoring
from tests.targets.artifacts.task_folders import PROBE, opened, ran, ran_by, task_in, why, write

pytestmark = [pytest.mark.slow, pytest.mark.on_disk]
NEEDS_BWRAP = pytest.mark.skipif(not PROBE.works, reason=f"bubblewrap: {PROBE.reason}")
NEEDS_LANDLOCK = pytest.mark.skipif(not probe_landlock().works, reason="no Landlock")
MODES = [
    "none",
    pytest.param("bwrap", marks=NEEDS_BWRAP),
    pytest.param("landlock", marks=NEEDS_LANDLOCK),
]
UNDECLARED = (
    "neither an artifact nor a declared output: list it under `scratch` if the scorer needs it"
)
SOLVER = """
import json, pathlib
pathlib.Path("tests/z.json").write_text(json.dumps({"asked": 1, "right": 1}))
for case in ("a", "b", "c"):
    pathlib.Path(f"tests/{case}.json").read_text()
pathlib.Path("answers.json").write_text(json.dumps({"a": 1, "b": 0, "c": 0, "z": 1}))
"""
COUNTS = """
import json, pathlib
answers = json.loads(pathlib.Path("answers.json").read_text())
cases = {path.stem: json.loads(path.read_text()) for path in pathlib.Path("tests").glob("*.json")}
if "z" in cases:
    cases = {"z": cases["z"]}
right = sum(answers[name] == case["right"] for name, case in cases.items())
print(json.dumps({"score": right / len(cases)}))
"""
LISTS = Scoring(
    command="find . -printf '%y %m %n %p %l %s\\n' | sort >&2; echo '{\"score\": 1}'",
)
"""Prints kind, mode, number of names, path, target and size of everything in the workspace."""
ADDS = (
    "echo {} > tests/z.json; mkdir Tests; echo {} > Tests/a.json; echo {} > tests/A.JSON",
    "mkdir .hidden; echo {} > .hidden/a.json; echo {} > tests/.a.json; "
    "mkdir -p tests/__pycache__ .pytest_cache; touch tests/__pycache__/a.pyc x.pyc .pytest_cache/a",
    "mkdir -p .git node_modules/a; echo x > .git/config; echo {} > node_modules/a/a.json",
    "mkdir -p empty/inside; chmod 700 empty; mkfifo tests/pipe; "
    "ln -s a.json tests/z.json; ln -s tests more; ln -s /etc etc",
    "echo x > one; ln one two; chmod 755 one; mkdir out; mv out tests/out; echo > tests/out/a.json",
)


def cases_in(folder: Path, **more: Any) -> Any:
    """A task whose scorer counts right answers to all cases in a folder."""
    case = '{"right": 1}'
    write(folder, {f"tests/{name}.json": case for name in ("a", "b", "c")})
    write(folder, {"solver.py": SOLVER, "count.py": COUNTS})
    named = {
        "include": ("solver.py",),
        "runner": Runner(command="python solver.py", timeout_seconds=120),
        "scoring": Scoring(command="python count.py"),
        "scratch": ("answers.json",),
    }
    return task_in(folder, **{**named, **more})


def log_of(outcome: Outcome, step: str) -> dict[str, Any]:
    assert isinstance(outcome.data, dict)
    log = outcome.data[step]
    assert isinstance(log, dict)
    return log


@pytest.mark.parametrize("mode", MODES)
async def test_an_easy_case_that_a_run_adds_does_not_count(tmp_path: Path, mode: Mode) -> None:
    outcome = await ran(opened(cases_in(tmp_path), mode))
    assert outcome.failure is None, why(outcome)
    assert outcome.measures["score"] == pytest.approx(1 / 3)
    left = log_of(outcome, "runner")["left_behind"]
    assert left == f"left behind: tests/z.json ({UNDECLARED})"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("deed", ADDS)
async def test_the_scorers_folder_is_as_it_was(tmp_path: Path, deed: str, mode: Mode) -> None:
    listings: list[str] = []
    for number, command in enumerate(("true", deed)):
        task = cases_in(tmp_path / str(number), runner=Runner(command=command), scoring=LISTS)
        outcome = await ran(opened(task, mode))
        assert outcome.failure is None, why(outcome)
        listings.append(log_of(outcome, "scorer")["stderr"])
    assert "tests/a.json" in listings[0]
    assert listings[0] == listings[1]


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_declared_reaches_the_scorer(tmp_path: Path, mode: Mode) -> None:
    make = (
        "mkdir -p work/empty work/in/__pycache__; echo x > work/in/tool; chmod 755 work/in/tool; "
        "ln -s tool work/in/link; touch work/in/__pycache__/a.pyc; "
        "mkdir made; echo 1 > made/out.txt; echo 1 > made/other.txt"
    )
    check = (
        "test -d work/empty && test -x work/in/tool && test ! -e work/in/link && "
        "test ! -e work/in/__pycache__ && test ! -e made/other.txt && cat made/out.txt"
    )
    scoring = Scoring(command=f"""{check} && echo '{{"score": 1}}'""")
    scratch = ("work/**", "made/out.txt")
    outcome = await ran_by(tmp_path, make, mode, scoring=scoring, scratch=scratch)
    assert outcome.failure is None, why(outcome)
    left = log_of(outcome, "runner")["left_behind"]
    assert left == (f"left behind: made/other.txt ({UNDECLARED}); work/in/link (not a plain file)")


async def test_a_run_that_adds_a_file_of_the_kind_that_is_edited(tmp_path: Path) -> None:
    task = cases_in(tmp_path, include=("solver.py", "tests/*.json"), new_files=("tests/*.json",))
    outcome = await ran(opened(task))
    assert outcome.measures["score"] == pytest.approx(1 / 3)
    assert "left behind: tests/z.json" in str(outcome.data)


async def test_what_a_run_adds_reaches_no_scorer_of_the_holdout(tmp_path: Path) -> None:
    counts = Scoring(command="python count.py")
    target = opened(cases_in(tmp_path, holdout=HeldOut(scoring=counts)))
    assert (await ran(target, "holdout")).measures["score"] == pytest.approx(1 / 3)


async def test_every_run_starts_from_the_same_folder(tmp_path: Path) -> None:
    command = "test ! -e tests/z.json && python solver.py"
    target = opened(cases_in(tmp_path, runner=Runner(command=command)))
    [case] = target.dataset().train
    for draw in range(3):
        receipt = await target.run(target.baseline, case, draw=draw, effects=DirectEffects())
        assert receipt.value.measures["score"] == pytest.approx(1 / 3)
    await target.close()


@pytest.mark.parametrize(
    ("scorer", "told"),
    [
        ("cat result.txt", "No such file"),
        ("cat result.txt || true", "the scorer printed no JSON object"),
    ],
)
async def test_a_scorer_that_misses_a_file_says_how_to_declare_it(
    tmp_path: Path, scorer: str, told: str
) -> None:
    outcome = await ran_by(tmp_path, "echo 1 > result.txt", scoring=Scoring(command=scorer))
    first = why(outcome).split("\n")[0]
    assert told in first
    assert first.endswith(f"; left behind: result.txt ({UNDECLARED})")


async def test_names_that_a_candidate_chose_are_shown_in_bounds(tmp_path: Path) -> None:
    long = f"long-{'x' * 200}.txt"
    command = f"for i in $(seq 200); do touch z$i; done; touch {long} $(printf 'a\\033b')"
    outcome = await ran_by(tmp_path, f"{command}; echo 1 > out.txt")
    left = log_of(outcome, "runner")["left_behind"]
    assert "and 197 more" in left
    assert "\\x1bb" in left
    assert f"…{'x' * 75}.txt" in left
    assert len(left) < 500
    assert json.dumps(left)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "deed", ["ln -s {held} work", "mkdir work; ln -s {held}/answer.txt work/answer.txt"]
)
async def test_metrics_score_no_file_that_a_link_leads_to(
    tmp_path: Path, deed: str, mode: Mode
) -> None:
    write(tmp_path / "held", {"answer.txt": "the right answer"})
    outcome = await ran_by(
        tmp_path / "task",
        deed.format(held=tmp_path / "held"),
        mode,
        scoring=Scoring(kind="metrics", reads="work/answer.txt"),
        scratch=("work/**",),
    )
    assert "there is no file work/answer.txt to score" in why(outcome)
