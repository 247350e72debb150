"""The results of both parts as markdown."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from benchmarks.real.reflections import Rewritten, best_of
from benchmarks.real.searches import RealSearched

BEST_OF = 4


def reflection_table(rewrites: Sequence[Rewritten]) -> str:
    """By task and system, and for all tasks: mean and best of four on new cases."""
    head = ["task", "before", "system", "rewrites", "mean", f"best of {BEST_OF}"]
    head += ["of no use", "asked again", "tokens", "seconds"]
    tasks = dict.fromkeys(each.task for each in rewrites)
    systems = dict.fromkeys(each.system for each in rewrites)
    rows = [
        _reflection_row(task, system, [e for e in rewrites if (e.task, e.system) == (task, system)])
        for task in tasks
        for system in systems
    ]
    whole = [_all_tasks(system, [e for e in rewrites if e.system == system]) for system in systems]
    return _table(head, [*rows, *whole])


def _reflection_row(task: str, system: str, group: Sequence[Rewritten]) -> list[str]:
    if not group:
        return [task, "–", system, "0", *["–"] * 6]
    scores = [each.score for each in group]
    return [
        task,
        f"{group[0].start:.2f}",
        system,
        str(len(group)),
        f"{fmean(scores):.2f}",
        f"{best_of(scores, BEST_OF):.2f}",
        f"{sum(bool(each.fault) for each in group)}",
        f"{sum(each.asked_again for each in group)}",
        f"{fmean(each.tokens for each in group):,.0f}",
        f"{fmean(each.seconds for each in group):,.0f}",
    ]


def _all_tasks(system: str, group: Sequence[Rewritten]) -> list[str]:
    """The mean over the tasks, so that each counts the same."""
    by_task = [
        [each for each in group if each.task == task]
        for task in dict.fromkeys(each.task for each in group)
    ]
    return [
        "**all**",
        f"{fmean(each[0].start for each in by_task):.2f}",
        system,
        str(len(group)),
        f"**{fmean(fmean(e.score for e in each) for each in by_task):.2f}**",
        f"**{fmean(best_of([e.score for e in each], BEST_OF) for each in by_task):.2f}**",
        f"{sum(bool(each.fault) for each in group)}",
        f"{sum(each.asked_again for each in group)}",
        f"{fmean(each.tokens for each in group):,.0f}",
        f"{fmean(each.seconds for each in group):,.0f}",
    ]


def search_table(searches: Sequence[RealSearched]) -> str:
    """By task and system: the truth, the claim beside it, and what it took."""
    head = ["task", "before", "system", "true score", "claimed − true"]
    head += ["calls", "reflections", "tokens", "seconds"]
    return _table(
        head,
        [
            [
                each.task,
                f"{each.start:.3f}",
                each.system,
                f"{each.true:.3f}",
                f"{each.claimed - each.true:+.3f}",
                f"{each.calls:,}",
                f"{each.reflections:,}",
                f"{each.tokens:,}",
                f"{each.seconds:,.0f}",
            ]
            for each in searches
        ],
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
