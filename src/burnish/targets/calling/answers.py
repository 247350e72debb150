"""What an agent may give back in a turn, as an outcome of that turn."""

from pydantic_core import PydanticSerializationError, to_jsonable_python

from burnish.core.content import Json
from burnish.core.outcomes import Failure, FailureKind, Outcome
from burnish.evaluation.matching.excerpts import a_kind, spelled
from burnish.evaluation.matching.json_paths import read_path
from burnish.evaluation.matching.json_texts import parse_json


class AgentUnreachable(ConnectionError):
    """Nobody answered, or somebody said to come back later: not the agent's fault."""


def failed(message: str, error: str) -> Outcome:
    """The agent's own failure."""
    return Outcome(
        failure=Failure(kind=FailureKind.AGENT, message=message, error=error), nano_usd=None
    )


def of_value(found: object) -> Outcome:
    """What a Python function returned: text, something structured, or an outcome of its own."""
    if isinstance(found, Outcome):
        return found
    if isinstance(found, str):
        return Outcome(replies=(found,), nano_usd=None)
    if found is None:
        return failed("the agent returned None: it should return what it says", "InvalidReply")
    try:
        structured: Json = to_jsonable_python(found)
    except (PydanticSerializationError, ValueError) as error:
        told = f"the agent returned {type(found).__name__}, which is neither text nor JSON"
        return failed(f"{told}: {error}", "InvalidReply")
    return _structured(structured)


def of_text(text: str, path: str = "") -> Outcome:
    """What an endpoint or a command wrote: all of it, or what stands at a path in its JSON."""
    if not path:
        whole = parse_json(text).value
        return Outcome(
            replies=(text,),
            data=whole if isinstance(whole, dict | list) else None,
            nano_usd=None,
        )
    reading = parse_json(text)
    if not reading.problem:
        reading = read_path(reading.value, path)
    if not reading.problem and reading.value is None:
        return failed(f"'{path}' is {a_kind(None)}: there is no reply", "InvalidReply")
    if reading.problem:
        return failed(f"no reply could be read: {reading.problem}", "InvalidReply")
    value = reading.value
    return (
        Outcome(replies=(value,), nano_usd=None) if isinstance(value, str) else _structured(value)
    )


def _structured(value: Json) -> Outcome:
    return Outcome(replies=(spelled(value),), data=value, nano_usd=None)
