"""`burnish.optimize` from a program: a function, its texts, rows, a metric, a model."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, assert_type

import pydantic_ai
import pytest

import burnish
from burnish import Case, Evaluated, Result, aoptimize, evaluate, optimize, optimize_text
from burnish.core.errors import (
    ConfigError,
    NotImproved,
    ProposerFailed,
    ResumeRefused,
    WrongArgument,
)
from burnish.models.factory import Models
from burnish.projects.call_arguments import budget_keys
from burnish.projects.call_errors import CallWords
from burnish.system.code_hash import code_hash
from burnish.targets.callables.texts import unit_score
from burnish.testing import ScriptedBackend
from tests.strategies import reflection_world

pytestmark = pytest.mark.slow
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

ROWS = [{"question": f"{a} + {b}", "answer": str(a + b)} for a in range(2, 10) for b in range(2, 8)]
START = {"instructions": "Answer."}
BETTER = "Answer with the number alone."


def add(question: str, instructions: str) -> str:
    one, other = map(int, question.split(" + "))
    return str(one + other) if "number" in instructions else f"It is {one + other}."


def exact(output: str, expected: str) -> tuple[bool, str]:
    return output == expected, f"expected {expected!r} and nothing else"


def rewrite(messages: list[dict[str, str]]) -> str:
    assert "nothing else" in messages[-1]["content"]  # the metric's reason is shown
    return BETTER


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def run(agent: Any = add, texts: Any = START, **changes: Any) -> Result:
    arguments: dict[str, Any] = {
        "cases": ROWS, "metric": exact, "reflector": rewrite, "budget": 120, "progress": False,
    }  # fmt: skip
    return optimize(agent, texts, **{**arguments, **changes})


def test_a_function_its_text_and_a_metric() -> None:
    result = run()
    assert_type(result, Result)
    assert result.best == {"instructions": BETTER}
    assert (result.baseline, result.score, result.basis) == (0.0, 1.0, "sealed test")
    assert result.gain is not None
    assert result.gain.low > 0
    assert (result.verdict, result.improved) == ("Improved", True)
    assert "{+ with the number alone+}" in result.diff()
    assert result.cost.metric_calls <= 120
    assert result.report.startswith("# ")


def test_what_is_printed_is_five_lines() -> None:
    lines = str(run()).splitlines()
    assert len(lines) == 5
    assert lines[0].endswith("improved")
    assert lines[1:3] == ["- instructions: Answer.", f"+ instructions: {BETTER}"]
    assert "results/optimizer" in lines[-1]


def test_rows_for_tables() -> None:
    result = run()
    trials = result.trials
    assert [(row["trial"], row["accepted"]) for row in trials] == [(0, False), (1, True)]
    row = result.cases[0]
    assert str(row["before"]).startswith("It is")
    assert (row["after"], row["score before"], row["score after"]) == (row["expected"], 0.0, 1.0)


def test_a_notebook_shows_verdict_diff_and_cases() -> None:
    shown = getattr(run(), "_repr_html_")()  # noqa: B009 - as notebooks ask
    assert "<b>Improved</b>" in shown
    assert "<ins> with the number alone</ins>" in shown
    assert "<td>0.000 → 1.000</td>" in shown


def test_one_text_without_a_name() -> None:
    assert run(texts="Answer.").best == BETTER


def test_an_async_agent_metric_and_model_in_a_running_loop() -> None:
    async def agent(question: str, instructions: str) -> str:
        return add(question, instructions)

    async def metric(output: str, expected: str) -> tuple[bool, str]:
        return exact(output, expected)

    async def model(messages: list[dict[str, str]]) -> str:
        return rewrite(messages)

    async def program() -> Result:
        return await aoptimize(agent, START, cases=ROWS, metric=metric, reflector=model, budget=120)

    assert asyncio.run(program()).best == {"instructions": BETTER}

    async def blocked() -> Result:
        return run()

    assert asyncio.run(blocked()).improved


def test_parameters_that_are_no_texts_get_the_columns_of_their_names() -> None:
    rows = [{"question": f"{n}?", "unit": "cm", "answer": f"{n} cm"} for n in range(50)]

    def measure(question: str, unit: str, instructions: str) -> str:
        return f"{question[:-1]} {unit}" if "number" in instructions else question

    assert run(measure, cases=rows).score == 1.0


def test_a_parameter_named_like_the_column_of_the_input_gets_it() -> None:
    def sort(ticket: str, lang: str, instructions: str) -> str:
        return f"{ticket} {lang}" if "number" in instructions else "?"

    rows = [{"ticket": f"t{n}", "label": f"t{n} en", "lang": "en"} for n in range(48)]
    result = run(sort, cases=rows, input="ticket", expected="label")
    assert result.improved
    measured = evaluate(
        sort, {"instructions": BETTER}, cases=rows, input="ticket", expected="label", metric=exact
    )
    assert measured.passed


_calls = 0


def count_and_add(question: str, instructions: str) -> str:
    global _calls
    _calls += 1
    return add(question, instructions)


def test_an_agent_that_counts_its_calls_is_the_same_agent(tmp_path: Path) -> None:
    first = run(count_and_add, folder=tmp_path / "run")
    paid = _calls
    assert paid
    again = run(count_and_add, folder=tmp_path / "run")
    assert (again.best, _calls) == (first.best, paid)


def test_a_trial_that_was_turned_away_says_why() -> None:
    result = run(reflector=lambda _: START["instructions"], budget=60)
    turned_away = [row for row in result.trials if row["phase"] != "baseline"]
    assert turned_away
    assert all(row["reason"] for row in turned_away)


def test_the_same_call_with_a_folder_pays_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def counted(question: str, instructions: str) -> str:
        asked.append(question)
        return add(question, instructions)

    first = run(counted, folder=tmp_path / "run")
    paid = len(asked)
    again = run(counted, folder=tmp_path / "run")
    assert (len(asked), again.best, again.score) == (paid, first.best, first.score)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"texts": {"instructions": "Reply."}}, "texts"),
        ({"cases": ROWS[1:]}, "cases"),
        ({"metric": lambda output, expected: output == expected}, "metric"),
        ({"agent": lambda question, instructions: question}, "agent"),
    ],
)
def test_a_folder_of_another_call_is_refused(
    tmp_path: Path, changes: dict[str, Any], word: str
) -> None:
    run(folder=tmp_path / "run")
    with pytest.raises(ResumeRefused, match=rf"another .*{word}"):
        run(folder=tmp_path / "run", **changes)


def _hash_of_call(file: Path, text: str) -> str:
    file.write_text(text, encoding="utf-8")
    space: dict[str, Any] = {"__name__": "own"}
    exec(compile(text, str(file), "exec"), space)
    return code_hash(space["call"])


def test_code_counts_with_what_it_uses_and_nothing_else(tmp_path: Path) -> None:
    call = "LIMIT = 3\n\ndef call(question):\n    return helper(question)[:LIMIT]\n"
    helper = "def helper(text):\n    return text.upper()\n"
    before = _hash_of_call(tmp_path / "before.py", call + helper)
    assert _hash_of_call(tmp_path / "same.py", f"budget = 3\n{call}\n\n{helper}") == before
    lower = helper.replace("upper", "lower")
    assert _hash_of_call(tmp_path / "helper.py", call + lower) != before
    longer = call.replace("LIMIT = 3", "LIMIT = 4")
    assert _hash_of_call(tmp_path / "constant.py", longer + helper) != before


# -- What is wrong is said at once, before anything is paid ----------------------------------------


def never(*_: object, **__: object) -> Any:
    raise AssertionError("nothing may be called")


def paid_agent(question: str, instructions: str) -> str:
    return never(question, instructions)


SETUP = reflection_world.setup()
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"metrc": exact}, "no argument 'metrc' — did you mean 'metric'"),
    ({"texts": ["Answer."]}, "cases are passed by name: cases="),
    ({"texts": Path("prompt.md")}, "expected a text, or texts by name"),
    ({"texts": None}, "there is nothing that may be rewritten"),
    ({"texts": {}}, "there is no text"),
    ({"texts": " "}, "the text is empty"),
    ({"texts": {"instructions": 3}}, "each must be a text with a name"),
    ({"texts": {"instruction": "Answer."}}, "did you mean 'instructions'"),
    ({"agent": 7}, "cannot be called"),
    ({"cases": None}, "there are no cases"),
    ({"cases": 7}, "expected rows or a file, found int"),
    ({"cases": []}, "there are no rows"),
    ({"cases": ["2 + 2"]}, r"cases\[0\]: expected a row or a pair, found '2 \+ 2'"),
    ({"cases": [("2 + 2", "4", "easy")]}, r"cases\[0\]: expected a row or a pair, found tuple"),
    ({"cases": ROWS, "train": ROWS}, "pass cases, or train, not both"),
    ({"cases": None, "train": ROWS}, "there is no holdout"),
    ({"cases": ROWS[:1]}, "too few to divide"),
    ({"cases": ROWS[:1] * 50}, "50 cases, which are alike or repeated, are too few to divide"),
    ({"cases": [{"inptu": "?"}] * 50}, "no column is plainly the question"),
    ({"metric": None}, "nothing says how good an answer is"),
    ({"metric": 7}, "expected a function or a name, found int"),
    ({"metric": "eqality"}, "did you mean 'equality'"),
    ({"metric": "faithfulness"}, 'name one: judge="openai:gpt-5-mini"'),
    ({"metric": "faithfulness", "judge": rewrite}, "expected a model's name, .* found a function"),
    ({"metric": lambda gold, pred: gold == pred}, "asks for 'gold', which is not known"),
    ({"reflector": 7}, "expected a model's name or a function"),
    ({"reflector": "gpt-5"}, "not a reference to a model"),
    ({"reflector": None}, "no model was named, and none can be called"),
    ({"budget": "2 dollars"}, "is no budget"),
    ({"budget": 0}, "is no budget"),
    ({"budget": 5}, "cannot finish one round"),
    ({"budget": "$2"}, 'limit runs of cases, or time: budget=300, or budget="30 min"'),
    ({"seed": "7"}, "seed: expected a whole number, found '7'"),
    ({"concurrency": 0}, "concurrency: expected a whole number from 1, found 0"),
    ({"folder": 7}, "folder: expected a path, found 7"),
    ({"folder": __file__}, "exists already\nname another folder$"),
    ({"track": "sentry"}, "track: 'sentry' is not known — there are: mlflow, wandb, otel"),
    ({"track": 7}, "track: expected 'mlflow'"),
    ({"progress": "no"}, "progress: expected True or False, found 'no'"),
    ({"models": {"openai": never}}, "models: expected"),
    ({"goal": "best"}, "unknown goal 'best'"),
    ({"strategy": "atuo"}, "did you mean 'auto'"),
    ({"strategy": "measure"}, r"burnish\.evaluate\(…\) measures"),
    ({"agent": SETUP}, "a Setup says this itself"),
    ({"agent": __file__}, "is a file, which has its own texts"),
    ({"agent": "answer"}, "there is no file answer — pass a function"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_a_wrong_argument_is_one_clear_error(
    changes: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BURNISH_HOME", str(tmp_path / "home"))
    with pytest.raises(burnish.BurnishError, match=words) as raised:
        run(**{"agent": paid_agent, "reflector": never, **changes})
    assert "--" not in str(raised.value)


WRONG_MEASUREMENTS: list[tuple[dict[str, Any], str]] = [
    ({"reflector": never}, "evaluate\\(\\) has no argument 'reflector'"),
    ({"texts": None}, "no value is known for its parameter instructions .* pass its texts"),
    ({"cases": None}, "cases: there are none"),
    ({"cases": []}, "there are no rows"),
    ({"metric": None}, "nothing says how good an answer is"),
    ({"metric": "relevance"}, 'name one: judge="openai:gpt-5-mini"'),
    ({"repeats": 0}, "repeats: expected a whole number from 1, found 0"),
    ({"policy": 7}, "policy: expected a burnish.CasePolicy"),
    ({"budget": "$2"}, "limit runs of cases, or time"),
    ({"user_simulator": never}, "user_simulator: expected a model's name"),
    (
        {"cases": [{"input": "hi", "scenario": {"plan": "ask"}}]},
        'set a model to simulate it: user_simulator="openai',
    ),
]


@pytest.mark.parametrize(("changes", "words"), WRONG_MEASUREMENTS)
def test_a_wrong_measurement_is_one_clear_error(changes: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"texts": START, "cases": ROWS, "metric": exact, **changes}
    with pytest.raises(burnish.BurnishError, match=words) as raised:
        evaluate(paid_agent, **arguments)
    assert "--" not in str(raised.value)


def test_arguments_by_position_are_the_agent_and_its_texts() -> None:
    call: Any = optimize
    with pytest.raises(TypeError, match="too many positional arguments — all but the first two"):
        call(paid_agent, START, ROWS)
    with pytest.raises(TypeError, match="missing a required argument: 'agent'"):
        call()


def test_an_agent_of_a_framework_without_a_model_names_the_keyword() -> None:
    agent = pydantic_ai.Agent(system_prompt="Answer.")
    with pytest.raises(ConfigError, match=r'name one: reflector="openai:gpt-5-mini"$'):
        optimize(agent, cases=ROWS, metric=exact, progress=False)


def test_a_reflector_that_answers_nothing_ends_in_words_of_the_call() -> None:
    with pytest.raises(ProposerFailed, match=r"call it again with another folder$"):
        run(reflector=lambda messages: "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("resume the run (`burnish runs resume a-1`)", "make the same call with folder='runs/a'"),
        ("restore it, or fork it with --fork: the new run marks its test as spent", "restore it, "
         "or call it again with another folder"),
        ("give a price, or use --goal faster", 'give a price, or use goal="faster"'),
        ("the agent said: unknown option --verbose", "the agent said: unknown option --verbose"),
    ],
)  # fmt: skip
def test_what_the_command_line_would_be_told(text: str, words: str) -> None:
    in_words = CallWords()
    in_words.folder = Path("runs/a")
    assert in_words(text).startswith(words)


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"cases": ROWS[1:]}, "cases"), ({"texts": {"instructions": "?"}}, "texts")],
)
def test_a_measurement_of_another_call_is_refused(
    tmp_path: Path, changes: dict[str, Any], word: str
) -> None:
    arguments: dict[str, Any] = {"texts": START, "cases": ROWS, "metric": exact}
    evaluate(add, **arguments, folder=tmp_path / "run")
    with pytest.raises(ResumeRefused, match=rf"another .*{word}") as raised:
        evaluate(add, **{**arguments, **changes}, folder=tmp_path / "run")
    assert "--" not in str(raised.value)


def test_a_parameter_that_nothing_is_known_for() -> None:
    def agent(question: str, colour: str, instructions: str) -> str:
        return never(question, colour, instructions)

    with pytest.raises(WrongArgument, match=r"no text has this name, and case .* no such column"):
        run(agent)
    with pytest.raises(TypeError):  # it is one of these too
        run(agent)


def test_an_agent_does_not_get_to_see_the_answer() -> None:
    def cheat(question: str, expected: str, instructions: str) -> str:
        return never(question, expected, instructions)

    with pytest.raises(ConfigError, match="does not get to see what is expected"):
        run(cheat)


@pytest.mark.parametrize("value", [3.5, -1, None, "good"])
def test_a_metric_in_another_unit_ends_the_run(value: Any) -> None:
    with pytest.raises(ConfigError, match="return True or False, a number from 0 to 1"):
        run(metric=lambda output: value)


# -- Models, budgets, metrics ----------------------------------------------------------------------


def test_a_model_by_name_that_a_double_plays() -> None:
    backend = ScriptedBackend(respond=lambda request, draw: f"```\n{BETTER}\n```")
    result = run(reflector="openai:gpt-5-mini", models=Models(backends={"openai": backend}))
    assert result.best == {"instructions": BETTER}


def test_the_usual_model_for_the_key_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    backend = ScriptedBackend(respond=lambda request, draw: f"```\n{BETTER}\n```")
    result = run(reflector=None, models=Models(backends={"openai": backend}))
    assert "the reflector is openai:" in (result.folder / "events.jsonl").read_text("utf-8")


@pytest.mark.parametrize(
    ("budget", "limits"),
    [
        (300, {"max_metric_calls": 300}),
        ("$2", {"max_usd": 2.0}),
        ("$0.50", {"max_usd": 0.5}),
        ("30 min", {"max_minutes": 30.0}),
        ("90s", {"max_minutes": 1.5}),
        ("2 h", {"max_minutes": 120.0}),
    ],
)
def test_budgets(budget: Any, limits: dict[str, float]) -> None:
    assert budget_keys(budget) == limits


def test_several_metrics_count_equally() -> None:
    def short(output: str) -> float:
        return 1.0 if len(output) < 4 else 0.0

    result = run(metric=[exact, short, "equality"])
    assert result.score == 1.0


def test_data_frames_pairs_cases_and_generators_are_rows() -> None:
    class Frame:
        columns = ("question", "answer")

        def __iter__(self) -> Iterator[str]:
            return iter(self.columns)

        def to_dict(self, orient: str) -> list[dict[str, str]]:
            assert orient == "records"
            return ROWS

    pairs = [(row["question"], row["answer"]) for row in ROWS]
    cases = [Case.single(question, answer) for question, answer in pairs]
    kinds: list[Callable[[], Any]] = [Frame, lambda: pairs, lambda: iter(cases), lambda: iter(ROWS)]
    for rows in kinds:
        found = evaluate(add, {"instructions": BETTER}, cases=rows(), metric=exact)
        assert_type(found, Evaluated)
        assert (found.passed, len(found.cases)) == (True, len(ROWS))


def test_splits_of_ones_own_and_few_cases() -> None:
    train, holdout, test = ROWS[:10], ROWS[10:20], ROWS[20:36]
    assert run(cases=None, train=train, holdout=holdout, test=test).basis == "sealed test"
    few = run(cases=ROWS[:30])
    assert few.basis == "fresh draws" or few.basis == "selected on holdout"
    events = (few.folder / "events.jsonl").read_text("utf-8")
    assert "no sealed test with fewer than 40 cases" in events


def test_a_setup_is_a_whole_run(tmp_path: Path) -> None:
    result = optimize(SETUP, folder=tmp_path / "run", progress=False)
    assert result.folder == tmp_path / "run"
    assert result.best == dict(result.ending.best.values)


def test_what_a_measurement_says_is_short() -> None:
    found = evaluate(add, START, cases=ROWS[:3], metric=exact)
    assert repr(found).splitlines() == ["failed: 3 of 3 cases fail", "exact 0.00"]


def test_a_gain_may_be_required() -> None:
    assert run(require="improved").improved
    with pytest.raises(NotImproved, match="required: improved; the run says nothing better"):
        run(require="improved", reflector=lambda messages: "Reply.")
    with pytest.raises(WrongArgument, match="it may be 'improved'"):
        run(paid_agent, require="better", reflector=never)


# -- Files and adoption ----------------------------------------------------------------------------

PROGRAM = """
INSTRUCTIONS = "Answer."

def add(question, instructions):
    one, other = map(int, question.split(" + "))
    return str(one + other) if "number" in instructions else f"It is {one + other}."
"""


def test_adopting_writes_the_text_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "adder_of_calls.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import adder_of_calls  # pyright: ignore[reportMissingImports]

    module: Any = adder_of_calls
    result = run(module.add, {"instructions": module.INSTRUCTIONS})
    assert [path.name for path in result.adopt()] == ["adder_of_calls.py"]
    assert f'INSTRUCTIONS = "{BETTER}"' in (tmp_path / "adder_of_calls.py").read_text("utf-8")


def test_a_reference_with_texts_is_a_function(tmp_path: Path) -> None:
    (tmp_path / "adder_by_name.py").write_text(PROGRAM, encoding="utf-8")
    assert run("adder_by_name:add").improved


# -- Texts that are scored as a whole --------------------------------------------------------------


def words(text: str) -> tuple[float, str]:
    return 10.0 * len(text.split()) + 100, f"{len(text.split())} words"


def lengthen(messages: list[dict[str, str]]) -> str:
    shown = messages[-1]["content"]
    assert "Scored 120: 2 words" in shown or "Scored 160: 6 words" in shown
    return "one two three four five six"


def test_a_text_is_improved_in_the_unit_of_its_score() -> None:
    result = optimize_text("hello there", words, reflector=lengthen, budget=100, progress=False)
    assert_type(result, Result)
    assert result.best == "one two three four five six"
    assert (result.baseline, result.score, result.improved) == (120.0, 160.0, True)
    assert str(result).startswith("sealed test, looked at once: score 120.000 → 160.000")


def test_a_score_of_chance_is_no_gain() -> None:
    draws = iter(range(1_000_000))

    def chance(text: str) -> float:
        return (next(draws) * 7919 % 101) / 101

    def reword(messages: list[dict[str, str]]) -> str:
        return f"version {len(messages[-1]['content'])}"

    result = optimize_text("hello", chance, reflector=reword, budget=150, progress=False)
    assert not result.improved


def test_a_text_is_scored_on_every_case() -> None:
    seen: set[int] = set()

    def on_case(text: str, case: dict[str, int]) -> float:
        seen.add(case["n"])
        return -abs(len(text) - 20) - case["n"] / 100

    result = optimize_text(
        "hello",
        on_case,
        cases=[{"n": number} for number in range(50)],
        reflector=lambda messages: "x" * 20,
        budget=200,
        progress=False,
    )
    assert result.best == "x" * 20
    assert result.baseline is not None
    assert result.baseline < -15
    assert len(seen) > 25


def test_a_text_on_which_scoring_fails_is_shown_with_its_error() -> None:
    def strict(text: str) -> float:
        if "ok" not in text:
            raise SyntaxError("line 1: ok is missing")
        return 1.0 if text == "ok!" else 0.5

    shown: list[str] = []

    def mend(messages: list[dict[str, str]]) -> str:
        shown.append(messages[-1]["content"])
        return "ok!" if len(shown) > 1 else "wrong"

    result = optimize_text("ok", strict, reflector=mend, budget=120, progress=False)
    assert "line 1: ok is missing" not in shown[0]
    assert "failed: SyntaxError: line 1: ok is missing" in shown[1]
    assert (result.best, result.gain and result.gain.low) == ("ok!", 0.5)


@pytest.mark.parametrize(
    ("text", "score", "cases", "message"),
    [
        (7, words, None, "expected a text, found int"),
        ("x", 7, None, "expected a function"),
        ("x", lambda text, case: 0.0, None, "cannot be called with the text alone"),
        ("x", lambda text: 0.0, [1, 2], "cannot be called with the text and the case"),
        ("x", words, "cases.csv", "expected a list, found str"),
        ("x", lambda text: "good", None, "instead of a finite number"),
        ("x", lambda text: float("nan"), None, "instead of a finite number"),
    ],
)
def test_what_cannot_be_scored_is_said(text: Any, score: Any, cases: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        optimize_text(text, score, cases=cases, reflector=never, budget=100, progress=False)


@pytest.mark.parametrize(
    ("less", "more"), [(-1e9, -1e8), (-2, -1), (-1, 0), (0, 0.5), (0.5, 1), (1, 2), (12345, 12346)]
)
def test_a_larger_number_is_a_larger_score(less: float, more: float) -> None:
    assert 0 < unit_score(less) < unit_score(more) < 1
