"""Labelled replies: what an agent once said, and whether somebody called it good.

A file of cases with two columns more: `reply`, what was said, and `label`, which is pass or
fail (good or bad, yes or no, true or false), or a number from 0 to 1.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.errors import ConfigError, Problem
from burnish.core.outcomes import Outcome
from burnish.evaluation.datasets.formats import read_cases

_WORDS = {
    **dict.fromkeys(("pass", "good", "yes", "true", "valid"), True),
    **dict.fromkeys(("fail", "bad", "no", "false", "invalid"), False),
}


@dataclass(frozen=True, kw_only=True)
class LabelledReply:
    """A case that carries its reply, and the label somebody gave it."""

    case: Case
    label: bool | float


def read_labelled(path: Path) -> tuple[LabelledReply, ...]:
    """Read labelled replies; everything that is wrong is said at once."""
    found: list[LabelledReply] = []
    problems: list[Problem] = []
    for number, case in enumerate(read_cases(path).cases, start=1):
        try:
            found.append(_labelled(case))
        except ValueError as error:
            where = f"{path.name} case {case.name or number}"
            problems.append(Problem(where=where, message=str(error)))
    if not found and not problems:
        problems.append(Problem(where=path.name, message="there are no labelled replies in it"))
    if problems:
        raise ConfigError(problems, remedy="each row has input, reply and label; expected if known")
    return tuple(found)


def _labelled(case: Case) -> LabelledReply:
    if len(case.turns) != 1:
        raise ValueError("a labelled reply is one turn")
    settings = dict(case.turns[0].settings)
    if "reply" not in settings:
        raise ValueError("there is no reply to judge")
    reply = str(settings.pop("reply"))
    label = _label(case.labels)
    turn = replace(case.turns[0], settings=settings)
    told = replace(case, turns=(turn,), labels=(), recorded=Outcome(replies=(reply,)))
    return LabelledReply(case=told, label=label)


def _label(labels: tuple[str, ...]) -> bool | float:
    if len(labels) != 1:
        raise ValueError("there is no label" if not labels else "there are several labels")
    word = labels[0].strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"the label '{labels[0]}' is neither pass nor fail nor a number in [0, 1]")
    return value
