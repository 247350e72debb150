"""Cursors: where the next page of a list begins."""

from burnish.core.errors import ConfigError, Problem


def cursor_of(number: int) -> str:
    """The cursor behind the run with this number."""
    return f"before-{number}"


def number_of(cursor: str) -> int | None:
    """The number that a cursor stands for; None for the first page."""
    if not cursor:
        return None
    digits = cursor.removeprefix("before-")
    # A number that no database can hold was never given out.
    if digits == cursor or not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        remedy = "give back the cursor of the last page as it was, or none for the first page"
        raise ConfigError([Problem(message=f"{cursor!r} is no cursor", remedy=remedy)])
    return int(digits)
