"""Gates on how a document hangs together, on the plan, and on what the critic said."""

import re
from collections.abc import Iterator

from burnish.evaluation.matching.excerpts import cut
from burnish.targets.delegation.gates.completion import MARKDOWN, Completion, Finding, suffix
from burnish.targets.delegation.gates.texts import headings

_CITED = re.compile(r"(?<![\w!\]])\[(\d{1,3})\](?![(:])")
_DEFINED = re.compile(r"^\s*(?:\[(\d{1,3})\][:.]?|(\d{1,3})[.)])\s+\S", re.MULTILINE)
_REFERENCES = re.compile(
    r"^#{1,6}\s+(references|sources|bibliography)\b.*$", re.MULTILINE | re.IGNORECASE
)
_FIGURE = re.compile(r"\b(?:Figure|Fig\.)\s+(\d{1,2})\b")
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]+\)|<img\b")
_ANCHOR = re.compile(r"(?<!!)\[[^\]]*\]\(#([^)\s]+)\)")
_AUTHOR = re.compile(r"\([A-Z][\w'-]+(?: et al\.| and [A-Z][\w'-]+)?,? \d{4}[a-z]?\)")
_TWICE = 0.2
"""The share of paragraphs that are there twice which no author means."""


def critique(completion: Completion) -> Iterator[Finding]:
    """The critic's mean score reaches the bar; without a score nobody can say that it does."""
    if not completion.criticised:
        return
    least = completion.settings.min_score_to_complete
    if completion.critique is None:
        detail = "no critique could be had of the last results"
        yield Finding(file="", detail=detail, check="critique")
    elif completion.critique < least:
        detail = f"the critic's mean score is {completion.critique:.2f}, below {least:g}"
        yield Finding(file="", detail=detail, check="critique")


def cross_reference(completion: Completion) -> Iterator[Finding]:
    """Citations are defined under the references, and no figure is spoken of that is not there."""
    for path, text in _markdown(completion):
        if problem := _undefined(text):
            yield Finding(file=path, detail=problem, check="cross_reference")
        figures = [int(number) for number in _FIGURE.findall(text)]
        images = len(_IMAGE.findall(text))
        if figures and max(figures) > images:
            detail = f"it speaks of figure {max(figures)} and shows {images}"
            yield Finding(file=path, detail=detail, check="cross_reference")


def success_criteria(completion: Completion) -> Iterator[Finding]:
    """Subtasks with criteria that nobody worked on, or whose last result is critically flawed."""
    severity = "error" if completion.settings.strict_criteria else "warning"
    for subtask in completion.open_subtasks:
        detail = f"subtask '{subtask}' is open"
        yield Finding(file="", detail=detail, check="success_criteria", severity=severity)


def structural_integrity(completion: Completion) -> Iterator[Finding]:
    """Links inside a document lead somewhere, references have one style, little is said twice."""
    for path, text in _markdown(completion):
        known = {_slug(title) for _, title in headings(text)}
        known.update(re.findall(r"(?:id|name)=[\"']([^\"']+)[\"']", text))
        lost = next((each for each in _ANCHOR.findall(text) if each not in known), "")
        if lost:
            detail = f"the link #{cut(lost, 60)} leads to no heading"
            yield Finding(file=path, detail=detail, check="structural_integrity")
        if _CITED.search(text) and _AUTHOR.search(text):
            detail = "references are given by number and by author: keep one style"
            yield Finding(file=path, detail=detail, check="structural_integrity")
        if problem := _said_twice(text):
            yield Finding(file=path, detail=problem, check="structural_integrity")


def _markdown(completion: Completion) -> Iterator[tuple[str, str]]:
    texts = completion.delivered_texts.items()
    return ((path, text) for path, text in texts if suffix(path) in MARKDOWN)


def _undefined(text: str) -> str:
    start = _REFERENCES.search(text)
    if start is None:
        return ""
    cited = {int(number) for number in _CITED.findall(text[: start.start()])}
    below = _DEFINED.findall(text[start.end() :])
    defined = {int(one or other) for one, other in below}
    missing = sorted(cited - defined)
    return f"[{missing[0]}] is cited and not among the references" if missing else ""


def _said_twice(text: str) -> str:
    paragraphs = [each.strip() for each in re.split(r"\n\s*\n", text)]
    long = [each for each in paragraphs if len(each) >= 80]
    repeated = len(long) - len(set(long))
    if len(long) >= 4 and repeated / len(long) >= _TWICE:
        return f"{repeated} of {len(long)} paragraphs are there twice"
    return ""


def _slug(title: str) -> str:
    plain = re.sub(r"[^\w\- ]", "", title.strip().lower())
    return plain.replace(" ", "-")
