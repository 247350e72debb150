"""Templates of requests: `{{input}}`, `{{history}}`, `{{messages}}`, `{{session}}` and prompts.

`{{prompts.NAME}}` is the text of a prompt field, where prompts are optimised.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import quote

from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.evaluation.matching.excerpts import spelled
from burnish.targets.calling.talks import Said

_PLACE = re.compile(r"\{\{\s*(prompts\.[^{}]*[^{}\s]|\w+)\s*\}\}")
_PROMPT = re.compile(r"\{\{\s*(prompts\.[^{}]*[^{}\s])\s*\}\}")
PROMPTS = "prompts."
"""What the places of prompt fields begin with."""
_NAMES = ("input", "history", "messages", "session")
REMEMBERING = ("history", "messages", "session")
"""With one of these an endpoint can know what was said before."""


def values_of(said: Said) -> dict[str, Json]:
    """What the places stand for in one turn."""
    now: Json = {"role": "user", "content": said.input}
    return {
        "input": said.input,
        "history": said.messages(),
        "messages": [*said.messages(), now],
        "session": said.session,
    }


def filled(template: Json, values: Mapping[str, Json], expand: Callable[[str], str]) -> Json:
    """The template with its places filled; `expand` looks at the template's own texts only.

    A text that is one place alone becomes the value, whatever it is. In a longer text the value
    is spelled out.
    """
    if isinstance(template, str):
        return _filled_text(template, values, expand)
    if isinstance(template, list):
        return [filled(item, values, expand) for item in template]
    if isinstance(template, dict):
        return {key: filled(item, values, expand) for key, item in template.items()}
    return template


def _filled_text(text: str, values: Mapping[str, Json], expand: Callable[[str], str]) -> Json:
    alone = _PLACE.fullmatch(text.strip())
    if alone is not None:
        return values[alone[1]]
    # Taken apart first: what is filled in may look like a place, or like a variable.
    parts = _PLACE.split(text)
    told = (
        spelled(values[part]) if number % 2 else expand(part) for number, part in enumerate(parts)
    )
    return "".join(told)


def filled_header(text: str, values: Mapping[str, Json], expand: Callable[[str], str]) -> str:
    """A header with its prompts filled in, percent-encoded: a header has one line of ASCII."""
    parts = _PROMPT.split(text)
    told = (
        quote(str(values[part])) if number % 2 else expand(part)
        for number, part in enumerate(parts)
    )
    return "".join(told)


def prompts_in(template: Json) -> set[str]:
    """The names of the prompt fields that a template has a place for."""
    places = {name for text in texts_in(template) for name in _PROMPT.findall(text)}
    return {name.removeprefix(PROMPTS) for name in places}


def places_in(template: Json) -> set[str]:
    """The names of the places that a template has."""
    return {name for text in texts_in(template) for name in _PLACE.findall(text)}


def texts_in(template: Json) -> Iterator[str]:
    """Every text of a template."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, list):
        for item in template:
            yield from texts_in(item)
    elif isinstance(template, dict):
        for item in template.values():
            yield from texts_in(item)


def problems_in(template: Json) -> Iterator[Problem]:
    """Places that nothing is known for, and a template that leaves the input out."""
    names = {name for name in places_in(template) if not name.startswith(PROMPTS)}
    for name in sorted(names - set(_NAMES)):
        known = ", ".join(f"{{{{{each}}}}}" for each in _NAMES)
        yield Problem(message=f"unknown place {{{{{name}}}}}", remedy=f"there are: {known}")
    if not names & {"input", "messages"}:
        remedy = 'put "{{input}}" where the agent reads what it is asked'
        yield Problem(message="nothing of it is what the agent is asked", remedy=remedy)
