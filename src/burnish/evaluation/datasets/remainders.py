"""What an extra says beside texts and calls, which have places of their own in a case."""

from collections.abc import Callable, Mapping

from burnish.core.content import Json
from burnish.evaluation.datasets.complaints import listed, mapped

Remainder = Callable[[Json], Json]

_TOLD = frozenset({"role", "content", "parts"})
_TOLD_BEFORE = _TOLD | {"tool_calls", "tool_id", "tool_name"}
_SAID_BEFORE = frozenset({"text", "function_call", "function_response", "inline_data"})


def of_message(value: Json) -> Json:
    """A message of a turn without its texts."""
    return _without(value, _TOLD, frozenset({"text"}))


def of_messages(value: Json) -> Json:
    """Messages without what a history holds: texts, pictures, calls and answers of tools."""
    rests = (_without(message, _TOLD_BEFORE, _SAID_BEFORE) for message in listed(value))
    return [rest for rest in rests if rest]


def _without(value: Json, keys: frozenset[str], parts: frozenset[str]) -> dict[str, Json]:
    message = mapped(value)
    others = [part for part in listed(message.get("parts")) if not parts & mapped(part).keys()]
    rest = {key: held for key, held in message.items() if key not in keys}
    return {**rest, "parts": others} if others else rest


def of_intermediate(value: Json) -> Json:
    """What happened before a reply, without plain calls and responses."""
    told = ("tool_uses", "tool_responses")
    return {key: held for key, held in mapped(value).items() if key not in told and held}


def of_turns(value: Json) -> Json:
    """The extras of turns without their texts and calls, those that are nothing else left out."""
    kept: list[Json] = []
    for turn in map(mapped, listed(value)):
        rest = {key: remainder(OF_TURNS, key, held) for key, held in turn.items()}
        kept.append({key: held for key, held in rest.items() if held})
    return [rest for rest in kept if rest]


OF_TURNS: Mapping[str, Remainder] = {
    "user_content": of_message,
    "final_response": of_message,
    "intermediate_data": of_intermediate,
}
OF_CASES: Mapping[str, Remainder] = {"context_messages": of_messages, "recorded_turns": of_turns}


def remainder(known: Mapping[str, Remainder], key: str, value: Json) -> Json:
    """What is left of an extra; all of it where nothing of it has another place."""
    return known[key](value) if key in known else value
