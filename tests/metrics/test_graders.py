"""Code graders: loaded from a folder, given the whole context, never mistaken for the agent."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from burnish.core.cases import Case, Outcome, Step, ToolCall, Trace, Turn
from burnish.core.errors import ConfigError
from burnish.core.evaluations import Score
from burnish.journal.once import DirectEffects
from burnish.metrics.graders import CodeGrader, load_grader

TYPES = "from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult\n"


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.split(".")[0] in ("graders", "holodeck", "common_words"):
            del sys.modules[name]


def metric(folder: Path, source: str, *, threshold: float | None = None) -> CodeGrader:
    (folder / "graders.py").write_text(source, encoding="utf-8")
    grader = load_grader("graders:grade", folder)
    return CodeGrader(name="grade", grader=grader, threshold=threshold)


async def score(
    folder: Path, body: str, *, case: Case | None = None, outcome: Outcome | None = None
) -> Score:
    found = await metric(folder, f"{TYPES}\ndef grade(ctx):\n    {body}\n").score(
        case or Case.single("What is 2 + 2?", "4", name="sum"),
        outcome or Outcome(replies=("4",)),
        effects=DirectEffects(),
    )
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("body", "value", "passed"),
    [
        ("return True", 1.0, True),
        ("return False", 0.0, False),
        ("return 0.25", 0.25, None),
        ("return 0", 0.0, None),
        ("return GraderResult(score=0.5, passed=False, reason='half')", 0.5, False),
        ("return GraderResult(score=1)", 1.0, None),
        ("return ctx.agent_response == ctx.ground_truth", 1.0, True),
    ],
)
async def test_what_a_grader_may_give(
    tmp_path: Path, body: str, value: float, passed: bool | None
) -> None:
    found = await score(tmp_path, body)
    assert (found.value, found.passed) == (value, passed)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise KeyError('turn_program')", "raised KeyError: 'turn_program'"),
        ("return {'score': 1}", "returned dict; it must return a bool, a number or a GraderResult"),
        ("return None", "returned NoneType"),
        ("return 'yes'", "returned str"),
        ("return 1.5", "returned the score 1.5; a score must be in [0, 1]"),
        ("return float('nan')", "returned float"),
        ("return GraderResult(score=-1)", "returned the score -1"),
    ],
)
async def test_a_broken_grader_makes_the_score_missing_never_0(
    tmp_path: Path, body: str, words: str
) -> None:
    found = await score(tmp_path, body)
    assert found.missing
    assert words in found.reason
    assert "graders:grade" in found.reason


async def test_defect_000_10_a_single_turn_grader_gets_tools_name_and_settings(
    tmp_path: Path,
) -> None:
    call = ToolCall(name="add", arguments={"a": 2, "b": 2}, result="4")
    step = Step(id="s", node="agent", tools=(call,))
    case = Case(
        name="sum",
        turns=(Turn(input="2 + 2?", context=("two and two",), settings={"program": "add(2, 2)"}),),
    )
    body = (
        "t = ctx.tool_invocations[0]; "
        "return GraderResult(score=1, reason=repr((ctx.test_case_name, ctx.turn_index, "
        "ctx.turn_config['program'], t.name, t.args, t.result, t.bytes, t.error, "
        "ctx.retrieval_context, ctx.ground_truth)))"
    )
    found = await score(
        tmp_path, body, case=case, outcome=Outcome(replies=("4",), trace=Trace(steps=(step,)))
    )
    expected = (
        "sum", 0, "add(2, 2)", "add", {"a": 2, "b": 2}, "4", 1, None, ["two and two"], None,
    )  # fmt: skip
    assert found.reason == repr(expected)


async def test_the_context_cannot_be_changed(tmp_path: Path) -> None:
    found = await score(tmp_path, "ctx.agent_response = '5'")
    assert "FrozenInstanceError" in found.reason


async def test_a_grader_may_be_a_coroutine(tmp_path: Path) -> None:
    source = "import asyncio\nasync def grade(ctx):\n    await asyncio.sleep(0)\n    return 0.5\n"
    found = await metric(tmp_path, source, threshold=0.6).score(
        Case.single("q"), Outcome(replies=("a",)), effects=DirectEffects()
    )
    assert [(s.value, s.passed) for s in found] == [(0.5, False)]


async def test_every_turn_is_graded_on_its_own(tmp_path: Path) -> None:
    source = f"{TYPES}\ndef grade(ctx):\n    return ctx.turn_index == 1\n"
    case = Case(turns=(Turn(input="a"), Turn(input="b")))
    found = await metric(tmp_path, source).score(
        case, Outcome(replies=("x", "y")), effects=DirectEffects()
    )
    assert [(s.turn, s.value) for s in found] == [(0, 0.0), (1, 1.0)]


async def test_details_that_are_no_json_are_kept_in_words(tmp_path: Path) -> None:
    found = await score(tmp_path, "return GraderResult(score=1, details={'seen': {1, 1}})")
    assert found.details == {"details": "{'seen': {1}}"}


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("graders", "not of the form module.path:callable"),
        ("graders:", "not of the form"),
        ("graders:absent", "graders has no function 'absent'"),
        ("graders:NUMBER", "graders has no function 'NUMBER'"),
        ("nowhere_at_all:grade", "importing it raised ModuleNotFoundError"),
        ("graders.py:grade", "importing it raised"),
    ],
)
def test_a_grader_that_cannot_be_had_is_said_at_load(
    tmp_path: Path, reference: str, words: str
) -> None:
    (tmp_path / "graders.py").write_text("NUMBER = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        load_grader(reference, tmp_path)


def test_a_module_that_does_not_load_is_said_with_its_error(tmp_path: Path) -> None:
    (tmp_path / "graders.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="raised ZeroDivisionError: division by zero"):
        load_grader("graders:grade", tmp_path)


def test_two_folders_may_each_have_their_graders(tmp_path: Path) -> None:
    for name, value in (("one", 1), ("two", 0)):
        package = tmp_path / name / "graders"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "common.py").write_text(f"VALUE = {value}\n", encoding="utf-8")
        source = "from graders.common import VALUE\ndef grade(ctx):\n    return VALUE\n"
        (package / "sums.py").write_text(source, encoding="utf-8")
    first = load_grader("graders.sums:grade", tmp_path / "one")
    second = load_grader("graders.sums:grade", tmp_path / "two")
    assert (first.function(None), second.function(None)) == (1, 0)


def test_a_changed_grader_has_another_fingerprint(tmp_path: Path) -> None:
    before = metric(tmp_path, "def grade(ctx):\n    return 1\n").fingerprint
    del sys.modules["graders"]
    assert metric(tmp_path, "def grade(ctx):\n    return 0  # now\n").fingerprint != before


def test_the_stand_in_gives_way_to_the_real_package(tmp_path: Path) -> None:
    real = tmp_path / "holodeck" / "lib" / "test_runner"
    real.mkdir(parents=True)
    (real / "code_grader.py").write_text(
        "class GraderContext: ...\nclass GraderResult: real = True\n", encoding="utf-8"
    )
    for folder in (tmp_path / "holodeck", tmp_path / "holodeck" / "lib", real):
        (folder / "__init__.py").touch()
    (tmp_path / "graders.py").write_text(f"{TYPES}\ngrade = GraderResult\n", encoding="utf-8")
    assert getattr(load_grader("graders:grade", tmp_path).function, "real", False) is True


def test_without_that_package_its_other_modules_stay_unknown(tmp_path: Path) -> None:
    (tmp_path / "graders.py").write_text(f"{TYPES}\ngrade = GraderResult\n", encoding="utf-8")
    load_grader("graders:grade", tmp_path)
    assert importlib.util.find_spec("holodeck.lib.evaluators") is None


def test_a_candidate_finds_the_graders_of_its_agent(tmp_path: Path) -> None:
    (tmp_path / "graders.py").write_text("def grade(ctx):\n    return 1\n", encoding="utf-8")
    below = tmp_path / "results" / "optimizer" / "run" / "candidates"
    below.mkdir(parents=True)
    assert load_grader("graders:grade", below).function(None) == 1
