"""Scripted reflection: a rewrite that knows no more than the reasons it was shown."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial

from burnish.testing.reflection_world_truth import World, always, luck, never, stated

_STYLE = re.compile(r"style \d{6}")


def lacking(field: str, rule: str) -> str:
    """How a failure's reason names a rule that was not kept."""
    return f"the {field} lacks [{rule}]"


def rewrite(
    world: World, field: str, text: str, reasons: Sequence[str], draw: int
) -> tuple[str, str]:
    """A diagnosis and a new text: idle, harmful or helpful, by the luck of what it was asked.

    Every rewrite is worded anew, so that no two are the same text by chance. A helpful one states
    the rule that the reasons name most often; where they name none, it is idle.
    """
    fate = partial(luck, world, "rewrite", field, text, "\n".join(reasons), draw)
    worded = _STYLE.sub(f"style {int(fate('style') * 1e6):06d}", text)
    kind = fate("kind")
    if kind < world.idle_share:
        return "nothing stands out; say the same in other words", worded
    if kind < world.idle_share + world.harmful_share:
        return _harm(worded, fate("victim"), fate("how"))
    return _help(field, worded, reasons)


def revealed(field: str, reasons: Sequence[str]) -> list[str]:
    """The rules that the reasons say this text lacks, the most often named first."""
    named = Counter(re.findall(rf"the {field} lacks \[(r\d\d)\]", "\n".join(reasons)))
    return [rule for rule, _ in named.most_common()]


def _help(field: str, text: str, reasons: Sequence[str]) -> tuple[str, str]:
    kept = stated(text)
    fresh = [rule for rule in revealed(field, reasons) if rule not in kept]
    if not fresh:
        return "the text asks for it already; say it in other words", text
    rule = fresh[0]
    return f"answers lack [{rule}]", f"{_without(text, rule)}\n{always(rule)}"


def _harm(text: str, victim: float, how: float) -> tuple[str, str]:
    kept = stated(text)
    if not kept:
        return "shorten it", text
    rule = kept[int(victim * len(kept))]
    if how < 0.5:
        return f"[{rule}] is not worth its place", _without(text, rule)
    return f"[{rule}] does harm", f"{_without(text, rule)}\n{never(rule)}"


def _without(text: str, rule: str) -> str:
    gone = {always(rule), never(rule)}
    return "\n".join(line for line in text.split("\n") if line not in gone)
