"""What a node is told: the question, what others gave before it, or a template of both."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.messages import Message
from burnish.system.config_errors import nearest

QUESTION = "question"
"""The name under which templates find what was asked."""
_PLACE = re.compile(r"(?<!\{)\{([^\W\d][\w-]*)\}(?!\})")


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a node gave: as text, and as data where it is structured."""

    text: str
    data: Json = None

    @property
    def value(self) -> Json:
        """The data, or else the text."""
        return self.text if self.data is None else self.data


@dataclass(frozen=True, kw_only=True)
class NodeInput:
    """What a function in a graph is called with."""

    question: str
    """What was asked in this turn."""
    text: str
    """The same as an agent would read here: the question with what came before, or a template."""
    outputs: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What each node that ran before gave last, by its name: text, or data."""
    history: tuple[Message, ...] = ()
    """What was said in earlier turns."""


def told(question: str, came: Sequence[tuple[str, Given]]) -> str:
    """What a node without a template reads: the question, then each node that led here."""
    parts = [f"{node}:\n{given.text}" for node, given in came]
    return "\n\n".join([question, *parts])


def filled(template: str, question: str, outputs: Mapping[str, Given]) -> str:
    """The template with what is known; a node that did not run yet gave nothing."""
    known = {QUESTION: question, **{node: given.text for node, given in outputs.items()}}
    return _PLACE.sub(lambda found: known.get(found[1], ""), template)


def asks_for(template: str, name: str) -> bool:
    """Whether a template has a place for this."""
    return name in _PLACE.findall(template)


def template_problems(template: str, nodes: Collection[str], where: str) -> Iterator[Problem]:
    """The places of a template that nothing can fill."""
    known = [QUESTION, *nodes]
    for name in dict.fromkeys(_PLACE.findall(template)):
        if name not in known:
            near = nearest(name, known)
            remedy = f"did you mean '{near}'?" if near else f"there are: {', '.join(known)}"
            message = f"the template has a place for '{name}', which is no node"
            yield Problem(where=where, message=message, remedy=remedy)
