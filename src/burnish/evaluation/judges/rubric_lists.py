"""The rubrics that count for a case, and what makes a list of them unfit."""

from collections import Counter
from collections.abc import Sequence

from burnish.core.cases import Case, Rubric
from burnish.core.errors import Problem


def rubrics_for(own: Sequence[Rubric], case: Case, metric: str) -> tuple[Rubric, ...]:
    """The metric's own rubrics and those that the case adds to it."""
    return (*own, *(rubric for rubric in case.rubrics if rubric.metric in ("", metric)))


def rubric_faults(rubrics: Sequence[Rubric]) -> list[str]:
    """Why a judge could not be asked by these rubrics."""
    counts = Counter(rubric.id.strip() for rubric in rubrics)
    faults = [f"two rubrics have the id '{each}'" for each, n in counts.items() if each and n > 1]
    if counts[""]:
        faults.append("a rubric has no id")
    return faults + [
        f"the rubric '{rubric.id}' has no text" for rubric in rubrics if not rubric.text.strip()
    ]


def rubric_problems(metric: str, rubrics: Sequence[Rubric]) -> list[Problem]:
    """The same as problems of a metric's settings."""
    remedy = "give each rubric an id of its own and a text"
    where = f"{metric}.rubrics"
    return [Problem(where=where, message=text, remedy=remedy) for text in rubric_faults(rubrics)]


def clash(case: Case, rubrics: Sequence[Rubric]) -> str:
    """What is wrong with the rubrics of a metric and a case together; empty if nothing."""
    faults = rubric_faults(rubrics)
    return f"case '{case.id}': {'; '.join(faults)}" if faults else ""


def listed(rubrics: Sequence[Rubric]) -> str:
    """The rubrics as a judge is shown them."""
    return "\n".join(f"{rubric.id.strip()}: {' '.join(rubric.text.split())}" for rubric in rubrics)
