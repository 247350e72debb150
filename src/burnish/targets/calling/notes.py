"""What cases ask for that an agent which is called cannot be given, in words."""

from collections.abc import Iterator, Sequence

from burnish.core.cases import Case
from burnish.evaluation.matching.excerpts import counted
from burnish.targets.calling.target import CallingTarget


def notes_for(target: CallingTarget, cases: Sequence[Case]) -> tuple[str, ...]:
    """What the user should know before the start."""
    live = [case for case in cases if case.recorded is None]
    return tuple(_notes(target, live))


def _notes(target: CallingTarget, cases: Sequence[Case]) -> Iterator[str]:
    talks = sum(len(case.turns) > 1 or case.scenario is not None for case in cases)
    earlier = sum(bool(case.history) for case in cases)
    files = sum(any(turn.attachments for turn in case.turns) for case in cases)
    tools = sum(any(turn.expected_tools is not None for turn in case.turns) for case in cases)
    if talks and not target.remembers:
        told = f"{counted(talks, 'case')} of several turns: each turn is asked on its own"
        yield f"the agent keeps no memory, and there {_is(talks)} {told}"
    if earlier and not target.remembers:
        told = "begin in the middle of a conversation, which the agent is not told"
        yield f"{counted(earlier, 'case')} {told}"
    if files:
        yield f"{counted(files, 'case')} come with files: the agent is given the text only"
    if tools:
        told = "expect tools: which tools the agent used is not known, so that is not scored"
        yield f"{counted(tools, 'case')} {told}"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def price_notes(target: CallingTarget, *, settable: bool = True) -> tuple[str, ...]:
    """What to say where nobody knows what a call costs; `settable` where the file could tell."""
    if target.usd_per_call is not None:
        return ()
    message = "what a call of the agent costs is not known, unless it says so itself"
    how = " (usd_per_call says it)" if settable else ""
    return (f"{message}: US dollars leave it out{how}",)
