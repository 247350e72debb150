"""What type checkers know of the calls; basedpyright checks this file with the others."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type, get_type_hints

import pytest

import burnish
from burnish import Evaluated, Result

ROWS = [("1 + 1", 2)]


def answer(question: str, instructions: str) -> int:
    raise AssertionError((question, instructions))


def right(output: int, expected: int) -> bool:
    return output == expected


def score(text: str) -> float:
    return len(text)


def checked_but_never_called() -> None:
    """The calls as type checkers see them."""
    texts = {"instructions": "Answer."}
    assert_type(burnish.optimize(answer, texts, cases=ROWS, metric=right), Result)
    assert_type(burnish.optimize("agent.yaml", goal="cheaper", require="improved"), Result)
    assert_type(burnish.optimize_text("x", score, cases=range(9), budget="30 min"), Result)
    assert_type(burnish.evaluate(answer, "Answer.", cases=ROWS, metric=["equality"]), Evaluated)
    assert_type(burnish.evaluate(Path("agent.yaml")).passed, bool)
    burnish.optimize(answer, texts, goal="best")  # pyright: ignore[reportArgumentType]
    burnish.optimize(answer, texts, ROWS)  # pyright: ignore[reportCallIssue]
    burnish.evaluate(answer, reflector=right)  # pyright: ignore[reportCallIssue]
    burnish.optimize_text(7, score)  # pyright: ignore[reportArgumentType]


async def checked_and_never_awaited() -> None:
    """The same for programs with a running loop."""
    assert_type(await burnish.aoptimize(answer, "Answer.", cases=ROWS, metric=right), Result)
    assert_type(await burnish.aoptimize_text("x", score), Result)
    assert_type(await burnish.aevaluate(answer, "Answer.", cases=ROWS), Evaluated)


@pytest.mark.parametrize(
    ("waits", "awaited"),
    [
        (burnish.optimize, burnish.aoptimize),
        (burnish.optimize_text, burnish.aoptimize_text),
        (burnish.evaluate, burnish.aevaluate),
    ],
)
def test_editors_are_shown_the_same_arguments(
    waits: Callable[..., Any], awaited: Callable[..., Any]
) -> None:
    assert inspect.signature(waits) == inspect.signature(awaited)
    assert get_type_hints(awaited)["return"] in (Result, Evaluated)
    documented = str(waits.__doc__)
    assert all(name in documented for name in inspect.signature(waits).parameters)
