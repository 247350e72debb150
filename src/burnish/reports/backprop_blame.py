"""Where losses led: surfaces by severity, kinds of failure, crashes, and what was asked in vain."""

from collections import Counter
from collections.abc import Iterator, Mapping

from burnish.core.content import Json
from burnish.core.trials import TrialRow
from burnish.core.words import cell, counted
from burnish.evaluation.failure_classes import FailureClass
from burnish.reports.backprop_rounds import label_of, rounds_of
from burnish.runs.record import RunRecord
from burnish.strategies.backprop.packets import Severity

_LISTED = 20
"""Lost answers that are listed."""
_NAMED = 5
"""Cases that are named with a kind of failure."""


def landed(run: RunRecord) -> Iterator[str]:
    """How much was said of each surface, how bad it was, and by how many cases."""
    yield from ("", "## Where the gradients landed", "")
    said = [each for row in rounds_of(run) for each in _items(row, "gradients")]
    if not said:
        yield "Nothing was said of any surface."
        return
    levels = [severity.value for severity in Severity]
    yield f"| surface | gradients | {' | '.join(levels)} | cases |"
    yield f"|---|---|{'---|' * len(levels)}---|"
    counts = Counter(str(each.get("surface")) for each in said)
    for surface, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        own = [each for each in said if each.get("surface") == surface]
        found = Counter(str(each.get("severity")) for each in own)
        cells = " | ".join(str(found.get(level, 0) or "·") for level in levels)
        cases = len({str(each.get("case")) for each in own})
        yield f"| `{cell(surface, 80)}` | {count} | {cells} | {cases} |"
    yield ""
    yield "Over all rounds. Cases are those of train whose runs were walked back."


def failure_classes(run: RunRecord) -> Iterator[str]:
    """The kinds of failure on train, in the first round and in the last one that had any."""
    yield from ("", "## What kind of failure", "")
    told = [(row, classes) for row in rounds_of(run) if (classes := _classes(row))]
    if not told:
        yield "No case of train failed."
        return
    sides = [told[0], told[-1]] if len(told) > 1 else [told[0]]
    heads = [f"round {label_of(run, row)}" for row, _ in sides]
    yield f"| failure | {' | '.join(heads)} | cases in {heads[-1]} |"
    yield f"|---|{'---|' * len(heads)}---|"
    for kind in FailureClass:
        counts = [sum(each == kind.value for each in found.values()) for _, found in sides]
        if any(counts):
            last = [case for case, each in sides[-1][1].items() if each == kind.value]
            named = cell(_some(last), 200) or "—"
            yield f"| {kind.value} | {' | '.join(map(str, counts))} | {named} |"
    yield ""
    yield "By the earliest cause that can be seen in a run of train: another way through the"
    yield "nodes than the case says, a tool or its arguments, then form and content of the answer."


def crashes(run: RunRecord) -> Iterator[str]:
    """What the agent raised on train, each error once with the cases it came up in."""
    cases: dict[str, list[str]] = {}
    for row in rounds_of(run):
        told = row.trial.details.get("train_failed")
        for case, error in (told if isinstance(told, dict) else {}).items():
            cases.setdefault(str(error), []).append(case)
    if not cases:
        return
    yield from ("", "## Where the agent itself failed", "")
    for error, names in list(cases.items())[:_LISTED]:
        yield f"- {cell(error, 300)}: {cell(_some([*dict.fromkeys(names)]), 200)}"
    if len(cases) > _LISTED:
        yield f"- {len(cases) - _LISTED} other errors"


def lost_answers(run: RunRecord) -> Iterator[str]:
    """What was asked of a role in vain: it costs that packet, not the run."""
    lost = [(row, each) for row in rounds_of(run) for each in _items(row, "lost")]
    if not lost:
        return
    yield from ("", "## Lost on the way", "")
    yield f"{counted(len(lost), 'question')} to a role brought nothing; the rest was used."
    yield ""
    for row, each in lost[:_LISTED]:
        where, reason = cell(str(each.get("where")), 80), cell(str(each.get("why")), 200)
        yield f"- round {label_of(run, row)}, {each.get('role')}, {where}: {reason}"
    if len(lost) > _LISTED:
        yield f"- {len(lost) - _LISTED} more"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")


def _items(row: TrialRow, key: str) -> list[Mapping[str, Json]]:
    told = row.trial.details.get(key)
    return [each for each in told if isinstance(each, dict)] if isinstance(told, list) else []


def _classes(row: TrialRow) -> dict[str, str]:
    told = row.trial.details.get("failure_classes")
    return {case: str(kind) for case, kind in told.items()} if isinstance(told, dict) else {}
