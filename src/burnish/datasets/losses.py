"""What a format cannot hold of a case."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache

from burnish.core.cases import AS_WRITTEN, Case, Turn
from burnish.core.content import Json
from burnish.datasets.agent_cases import AS_TURNS, listed, mapped
from burnish.datasets.case_files import CaseFile
from burnish.datasets.splits import listed as joined_names

_Remainder = Callable[[Json], Json]


def _of_message(value: Json) -> Json:
    return _without(value, {"role", "content", "parts"}, {"text"})


def _of_messages(value: Json) -> Json:
    """Messages without what a history holds: texts, images, calls and responses."""
    keys = {"role", "content", "parts", "tool_calls", "tool_id", "tool_name"}
    parts = {"text", "function_call", "function_response", "inline_data"}
    return list(filter(None, (_without(message, keys, parts) for message in listed(value))))


def _without(value: Json, keys: set[str], parts: set[str]) -> dict[str, Json]:
    message = mapped(value)
    others = [part for part in listed(message.get("parts")) if not parts & mapped(part).keys()]
    rest = {key: held for key, held in message.items() if key not in keys}
    return {**rest, "parts": others} if others else rest


def _of_intermediate(value: Json) -> Json:
    plain_keys = ("tool_uses", "tool_responses")
    return {key: held for key, held in mapped(value).items() if key not in plain_keys and held}


def _of_turns(value: Json) -> Json:
    """The extras of turns without their texts and calls."""
    remainders: list[Json] = []
    for turn in map(mapped, listed(value)):
        rest = {key: _remainder(_OF_TURNS, key, held) for key, held in turn.items()}
        if any(rest.values()):
            remainders.append({key: held for key, held in rest.items() if held})
    return remainders


_OF_TURNS: Mapping[str, _Remainder] = {
    "user_content": _of_message,
    "final_response": _of_message,
    "intermediate_data": _of_intermediate,
}
_OF_CASES: Mapping[str, _Remainder] = {
    "context_messages": _of_messages,
    "recorded_turns": _of_turns,
}


def _remainder(rules: Mapping[str, _Remainder], key: str, value: Json) -> Json:
    """The part of an extra that has no other place."""
    return rules[key](value) if key in rules else value


_WORDS = {
    "input": "inputs",
    "expected": "expected answers",
    "context": "context",
    "expected_tools": "expected tools",
    "expected_calls": "expected tool calls",
    "attachments": "files",
    "metrics": "the choice of metrics",
    "settings": "settings for graders",
    "labels": "labels",
    "history": "earlier messages",
    "rubrics": "rubrics",
    "scenario": "the simulated user",
    "recorded": "the recorded run",
}
_EXTRA_WORDS = {
    "user_content": "messages that are more than plain text",
    "final_response": "messages that are more than plain text",
    "context_messages": "messages that are more than plain text",
    "intermediate_data": "what happened before a reply",
    "intermediate_responses": "what happened before a reply",
    "recorded_turns": "details of the recorded run",
}
_SPELLINGS = (AS_WRITTEN, AS_TURNS, "tools")
"""Extras that only describe how a file was written."""


def _lost_parts(case: Case, again: Case) -> Iterator[str]:
    if case.name and case.name != again.name:
        yield "names"
    if len(case.turns) != len(again.turns):
        yield "turns after the first"
    yield from _changed(case, again, without=("name", "turns"))
    yield from _lost_extras(case.extras, again.extras, _OF_CASES)
    for turn, other in zip(case.turns, again.turns, strict=False):
        yield from _changed(turn, other)
        yield from _lost_extras(turn.extras, other.extras, _OF_TURNS)


def loss_notes(pairs: Iterable[tuple[Case, Case]], format: str) -> list[str]:  # noqa: A002
    """A sentence for each lost part, with the cases that lose it."""
    losers: dict[str, list[str]] = {}
    for case, again in pairs:
        for part in () if case is again else dict.fromkeys(_lost_parts(case, again)):
            losers.setdefault(part, []).append(case.id)
    return [
        f"{format} cannot hold {part}: lost in {'case' if len(ids) == 1 else 'cases'} "
        f"{joined_names([repr(each) for each in ids], 3)}"
        for part, ids in losers.items()
    ]


def dropped_labels(file: CaseFile, format: str) -> list[str]:  # noqa: A002
    """A sentence for what only labels the set, such as its id; no case depends on it."""
    about = ("eval_set_id", "app_name", "name", "description", "creation_timestamp")
    names = [name for name in about if getattr(file, name)]
    return [f"{format} has no place for {joined_names(names)} of the set"] if names else []


def _changed(
    before: Case | Turn, after: Case | Turn, without: tuple[str, ...] = ()
) -> Iterator[str]:
    for name, usual in _usual(type(before)).items():
        held, left = getattr(before, name), getattr(after, name)
        if name not in without and held != left and held != usual:
            yield _WORDS[name] if left == usual else f"all of {_WORDS[name]}"


@cache
def _usual(kind: type[Case | Turn]) -> Mapping[str, object]:
    """The fields of a case or turn, without extras, with their defaults."""
    return {
        part.name: part.default if part.default_factory is MISSING else part.default_factory()
        for part in fields(kind)
        if part.name != "extras"
    }


def _lost_extras(
    before: Mapping[str, Json], after: Mapping[str, Json], rules: Mapping[str, _Remainder]
) -> Iterator[str]:
    for key, value in before.items():
        left = _remainder(rules, key, after.get(key))
        if key not in _SPELLINGS and _remainder(rules, key, value) != left:
            yield _EXTRA_WORDS.get(key, repr(key))
