"""What notebooks show of results: small tables in HTML."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A titled table as HTML; all texts are escaped."""
    heads = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = ("".join(f"<td>{escape(each)}</td>" for each in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    top = f"<thead><tr>{heads}</tr></thead>" if head else ""
    return f"<p><b>{escape(title)}</b></p><table>{top}<tbody>{body}</tbody></table>"
