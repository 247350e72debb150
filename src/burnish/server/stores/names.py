"""Names of apps and runs, held to what every database can keep and tell apart."""

import math

from burnish.core.errors import ConfigError, NotJournalable, Problem

LONGEST = 255


def check_names(app_name: str, run_id: str) -> None:
    """Refuse a name that a database would change or mistake for another."""
    named = (("the name of the app", app_name), ("the id of the run", run_id))
    problems = [
        Problem(message=f"{what} {fault}") for what, name in named if (fault := _fault(name))
    ]
    if problems:
        raise ConfigError(problems)


def can_be_kept(app_name: str, run_id: str) -> bool:
    """Whether a run may have this name at all."""
    return not (_fault(app_name) or _fault(run_id))


def _fault(name: str) -> str:
    if not name:
        return "is empty"
    if name != name.strip():
        return "begins or ends with a space"
    if len(name) > LONGEST:
        return f"is longer than {LONGEST} characters"
    printable = name.isprintable()
    return "" if printable else "has characters that cannot be printed"


def keepable_text(text: str) -> str:
    """Text that every database takes: no NUL, no half of a surrogate pair."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def check_score(score: float | None) -> None:
    """Refuse what is no number."""
    if score is not None and not math.isfinite(score):
        raise NotJournalable(
            f"the best score is {score}", remedy="leave it out while there is none"
        )
