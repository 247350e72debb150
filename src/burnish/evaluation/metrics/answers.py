"""What metrics read of an answer: the whole reply, its JSON, or one place in it."""

from dataclasses import dataclass

from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.matching.excerpts import a_kind, spelled
from burnish.evaluation.matching.json_paths import read_path
from burnish.evaluation.matching.json_texts import JsonReading, parse_json


@dataclass(frozen=True, kw_only=True)
class AnswerText:
    """The text of an answer, or why there is none to compare."""

    text: str = ""
    problem: str = ""


def answer_json(exchange: Exchange) -> JsonReading:
    """The structured answer where the agent gives one, else the reply read as JSON."""
    if exchange.data is not None:
        return JsonReading(value=exchange.data)
    return parse_json(exchange.reply)


def answer_text(exchange: Exchange, response_path: str = "") -> AnswerText:
    """The reply, or what stands at a path of the answer."""
    if not response_path:
        return AnswerText(text=exchange.reply)
    answer = answer_json(exchange)
    found = answer if answer.problem else read_path(answer.value, response_path)
    if found.problem:
        return AnswerText(problem=found.problem)
    if isinstance(found.value, dict | list) or found.value is None:
        told = f"at '{response_path}' there is {a_kind(found.value)}, not one plain value"
        return AnswerText(problem=told)
    return AnswerText(text=spelled(found.value))
