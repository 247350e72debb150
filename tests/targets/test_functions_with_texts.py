"""Functions whose texts are optimised: what each parameter gets, and the contract of targets."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from burnish import Case, Turn
from burnish.core.errors import WrongArgument
from burnish.datasets.columns import cases_of_rows
from burnish.journal.once import DirectEffects
from burnish.metrics.functions import FunctionMetric
from burnish.targets.callables.functions import FunctionTarget, only_text
from burnish.testing import check_metric, check_target

ROW = {"id": "lamp", "question": "a lamp?", "unit": "euros", "answer": "40 euros"}
(CASE,) = cases_of_rows([ROW]).cases
TALK = Case(turns=tuple(Turn(input=word) for word in "ab"))


def plain(question: str, instructions: str) -> str:
    return f"{instructions} {question}"


async def awaited(question: str, instructions: str) -> str:
    return plain(question, instructions)


def with_column(question: str, unit: str, instructions: str, rate: int = 1) -> str:
    return f"{instructions} {question} {unit} {rate}"


def by_place(question: str, instructions: str, /) -> str:
    return plain(question, instructions)


def with_any(question: str, **texts: str) -> str:
    return plain(question, **texts)


def with_the_whole_case(**given: str) -> str:
    return given["instructions"]


class Desk:
    def answer(self, query: str, *, instructions: str) -> str:
        return plain(query, instructions)

    def __call__(self, ticket: str, instructions: str) -> str:
        return plain(ticket, instructions)


FUNCTIONS: list[tuple[Callable[..., Any], str]] = [
    (plain, "Say a lamp?"),
    (awaited, "Say a lamp?"),
    (with_column, "Say a lamp? euros 1"),
    (by_place, "Say a lamp?"),
    (with_any, "Say a lamp?"),
    (with_the_whole_case, "Say"),
    (Desk().answer, "Say a lamp?"),
    (Desk(), "Say a lamp?"),
    (partial(with_column, rate=2), "Say a lamp? euros 2"),
]


def _name(value: object) -> str:
    return getattr(value, "__name__", type(value).__name__) if callable(value) else ""


@pytest.mark.parametrize(("function", "reply"), FUNCTIONS, ids=_name)
async def test_each_parameter_gets_what_its_name_says(
    function: Callable[..., Any], reply: str
) -> None:
    target = FunctionTarget.of(function, {"instructions": "Say"})
    assert target.parameters.problems(target.title, [CASE]) == []
    ran = await target.run(target.baseline, CASE, draw=0, effects=DirectEffects())
    assert ran.value.output == reply
    await check_target(target, [CASE])


async def test_a_conversation_is_seen_by_who_asks_for_it() -> None:
    def counted(message: str, history: list[Any], instructions: str) -> str:
        return f"{instructions} {message} {len(history)}"

    target = FunctionTarget.of(counted, {"instructions": "Say"})
    ran = await target.run(target.baseline, TALK, draw=0, effects=DirectEffects())
    assert ran.value.replies == ("Say a 0", "Say b 2")


def styled(query: str, style: str) -> str:
    return query + style


def twice(ticket: str, style: str, rule: str) -> str:
    return ticket + style + rule


def test_where_a_text_without_a_name_goes() -> None:
    assert (only_text(plain), only_text(styled)) == ("instructions", "style")
    with pytest.raises(WrongArgument, match=r"not clear which parameter of twice\(\) is the text"):
        only_text(twice)


async def test_a_function_as_a_metric_keeps_the_contract_of_metrics() -> None:
    def exact(output: str, expected: str) -> tuple[bool, str]:
        return output == expected, f"expected {expected}"

    target = FunctionTarget.of(plain, {"instructions": "Say"})
    ran = await target.run(target.baseline, CASE, draw=0, effects=DirectEffects())
    await check_metric(FunctionMetric.of(exact), CASE, [ran.value])
