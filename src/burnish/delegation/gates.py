"""The gates that a completion must pass: files, structure, texts."""

import ast
import csv
import io
import re
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

from burnish.core.content import Json, from_json
from burnish.core.errors import ConfigError
from burnish.metrics.document_matching import check_schema
from burnish.metrics.text_matching import cut
from burnish.system.user_code import SlowPattern
from burnish.system.yaml import parse_tree

_CODE = frozenset((".py", ".js", ".ts", ".sh", ".c", ".h", ".java", ".go", ".rs", ".rb", ".sql"))
_BRACKETED = _CODE - {".py", ".sh", ".sql"}
_PROSE = frozenset((".md", ".txt", ".html", ".htm", ".rst", ".tex"))
_MARKDOWN = frozenset((".md", ".markdown"))


@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """How strict the gates are."""

    min_score_to_complete: float = 0.6
    """The critic's mean score of each worker's last result."""
    min_prose_bytes: int = 512
    """The minimum size of a document, if the task asks for one."""
    strict_criteria: bool = False
    """Whether open subtasks reject a completion; otherwise they are only noted."""
    smoke_seconds: float = 10.0


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A completion as the gates see it."""

    task: str
    result: str
    declared: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Every new or changed file, by path."""
    earlier_sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Sizes of deliverables at the last attempt, and of input files of the same name."""
    criticised: bool = False
    """Whether there is a critic and a result to criticise."""
    critique: float | None = None
    open_subtasks: tuple[str, ...] = ()
    schemas: Mapping[str, Json] = field(default_factory=dict[str, Json])
    settings: GateSettings = field(default_factory=GateSettings)

    @cached_property
    def delivered(self) -> dict[str, bytes]:
        return {path: self.files[path] for path in self.declared if path in self.files}

    @cached_property
    def texts(self) -> dict[str, str]:
        decoded = {path: _text_in(content) for path, content in self.files.items()}
        return {path: text for path, text in decoded.items() if text is not None}

    @cached_property
    def delivered_texts(self) -> dict[str, str]:
        return {path: text for path, text in self.texts.items() if path in self.delivered}


@dataclass(frozen=True)
class GateFinding:
    """One thing that a gate found."""

    file: str
    detail: str
    check: str
    severity: str = "error"


@dataclass(frozen=True, kw_only=True)
class GateVerdict:
    """The verdict of a gate."""

    gate: str
    findings: tuple[GateFinding, ...] = ()
    ends: bool = False
    """Whether the run has failed for good and may not be repaired."""

    @property
    def passed(self) -> bool:
        return all(finding.severity != "error" for finding in self.findings)

    @property
    def first(self) -> GateFinding | None:
        return next((each for each in self.findings if each.severity == "error"), None)

    @property
    def reason(self) -> str:
        finding = self.first
        if finding is None:
            return ""
        at = f"{finding.file}: " if finding.file else ""
        return f"{finding.check}: {at}{finding.detail}"


def suffix(path: str) -> str:
    """The lower-case suffix of a path."""
    return PurePosixPath(path).suffix.lower()


def _text_in(content: bytes) -> str | None:
    """The content as text; None if it is binary."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


_ASKS_FOR_A_FILE = re.compile(
    r"\b(report|pdf|document|spreadsheet|csv|script|image|chart|slides?|file|essay|article)\b"
    r"|\b[\w-]+\.(md|txt|pdf|csv|json|py|html|docx|xlsx|png|svg|ya?ml)\b",
    re.IGNORECASE,
)


def deliverable_presence(completion: Completion) -> Iterator[GateFinding]:
    """Every declared deliverable exists and is not empty."""
    check = "deliverable_presence"
    for path in completion.declared:
        if path not in completion.files:
            yield GateFinding(path, "the file does not exist", check)
        elif not completion.files[path].strip():
            yield GateFinding(path, "the file is empty", check)
    if not completion.declared and _ASKS_FOR_A_FILE.search(completion.task):
        detail = "the task asks for a file, but no plan names one under required_outputs"
        yield GateFinding("", detail, check)


def file(completion: Completion) -> Iterator[GateFinding]:
    """No file is broken, that is, without the content its name promises."""
    for path, content in completion.files.items():
        if detail := _broken(suffix(path), content):
            severity = "error" if path in completion.delivered else "warning"
            yield GateFinding(path, detail, "file", severity)


def _broken(end: str, content: bytes) -> str:
    if not content:
        return "it has 0 bytes"
    if end == ".png":
        if not content.startswith(b"\x89PNG\r\n\x1a\n"):
            return "it is not a PNG image"
        size = (int.from_bytes(content[16:20]), int.from_bytes(content[20:24]))
        return "it is an image of one pixel" if size == (1, 1) else ""
    if end == ".pdf" and not content.startswith(b"%PDF"):
        return "it is not a PDF document"
    zipped = end in (".docx", ".xlsx", ".pptx", ".zip")
    if zipped and not zipfile.is_zipfile(io.BytesIO(content)):
        return f"it is not a {end} file"
    if end == ".csv" and len(content.strip().splitlines()) < 2:
        return "it has a header but no rows"
    return ""


def deliverable(completion: Completion) -> Iterator[GateFinding]:
    """Where a task asks for a document, one of more than a line exists."""
    if not _ASKS_FOR_A_FILE.search(completion.task) or not completion.delivered:
        return
    least = completion.settings.min_prose_bytes
    sizes = {path: len(content) for path, content in completion.delivered.items()}
    largest = max(sizes, key=lambda path: sizes[path])
    if all(suffix(path) in _PROSE for path in sizes) and sizes[largest] < least:
        detail = f"no deliverable has {least} bytes; the largest has {sizes[largest]}"
        yield GateFinding(largest, detail, "deliverable")


def _yaml(text: str) -> Any:
    try:
        return parse_tree(Path("deliverable.yaml"), text).data
    except ConfigError as error:
        raise ValueError(str(error.problems[0])) from None


def _markdown(text: str) -> str:
    fences = len(re.findall(r"^\s*(```|~~~)", text, re.MULTILINE))
    return "a code block is opened but not closed" if fences % 2 else ""


def _csv(text: str) -> str:
    widths = {len(row) for row in csv.reader(io.StringIO(text), strict=True) if row}
    return f"rows have {' or '.join(map(str, sorted(widths)))} fields" if len(widths) > 1 else ""


_PARSERS: dict[str, Callable[[str], Any]] = {
    ".py": ast.parse,
    ".json": from_json,
    ".yaml": _yaml,
    ".yml": _yaml,
    ".toml": tomllib.loads,
}
_CHECKS = {".csv": _csv, **dict.fromkeys(_MARKDOWN, _markdown)}


def syntax_compile(completion: Completion) -> Iterator[GateFinding]:
    """Deliverables parse as what their names say they are."""
    for path, text in completion.delivered_texts.items():
        parse, check, problem = _PARSERS.get(suffix(path)), _CHECKS.get(suffix(path)), ""
        try:
            if parse is not None:
                parse(text)
            elif check is not None:
                problem = check(text)
        except (ValueError, SyntaxError, RecursionError, csv.Error) as error:
            problem = cut(str(error) or type(error).__name__, 200)
        if problem:
            yield GateFinding(path, problem, "syntax_compile")


def schema(completion: Completion) -> Iterator[GateFinding]:
    """JSON and YAML deliverables match the schema that the workflow has for them."""
    for path, expected in completion.schemas.items():
        text = completion.delivered_texts.get(path)
        if text is None:
            continue
        try:
            problem = check_schema(_yaml(text), expected)
        except SlowPattern as error:
            problem = str(error)
        except ValueError as error:
            problem = f"it cannot be parsed: {error}"
        if problem:
            yield GateFinding(path, cut(problem, 200), "schema")


_WORDS = re.compile(
    r"\b(TODO|TBD|FIXME)\b|\?\?\?|\bXX+%|<placeholder>|\{\{\s*\w+\s*\}\}|(?i:lorem ipsum)"
)
_MORE_WORDS = re.compile(rf"{_WORDS.pattern}|(?i:\[?\bplaceholder\b\]?)|^\s*N/A\s*$", re.MULTILINE)
_COMMENT = re.compile(r"(#|//|/\*|--).*$", re.MULTILINE)
_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$", re.MULTILINE)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def l0(completion: Completion) -> Iterator[GateFinding]:
    """No deliverable has placeholders, loops, repeated headings or broken syntax, or shrank."""
    for path, text in completion.delivered_texts.items():
        end = suffix(path)
        problems = {
            "no_placeholder": _placeholder_in(path, text, _WORDS),
            "no_text_loop": "" if end in (".csv", ".tsv", ".json") else _repeated_line(text),
            "file_size_delta": _shrunk(completion.earlier_sizes.get(path, 0), len(text.encode())),
            "no_duplicate_headings": _repeated_heading(text) if end in _MARKDOWN else "",
            "balanced_delimiters": _unbalanced(text) if end in _BRACKETED else "",
            "json_valid_if_claimed": _invalid_json(text) if end == ".json" else "",
        }
        for check, detail in problems.items():
            if detail:
                yield GateFinding(path, detail, check)


def placeholder(completion: Completion) -> Iterator[GateFinding]:
    """Neither the report nor any text that was written has placeholders."""
    texts = {"": completion.result, **completion.texts}
    for path, text in texts.items():
        if detail := _placeholder_in(path, text, _MORE_WORDS):
            yield GateFinding(path, detail, "placeholder" if path else "final_result")


def _placeholder_in(path: str, text: str, words: re.Pattern[str]) -> str:
    code = suffix(path) in _CODE
    # What a comment leaves for later is the programmer's; templates have braces of their own.
    match = _WORDS.search(_COMMENT.sub("", text)) if code else words.search(text)
    if match is None or (code and match[0].startswith(("{{", "<"))):
        return ""
    return f"found placeholder token '{cut(match[0].strip(), 40)}'"


def _repeated_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 3]
    longest = max((len(list(same)) for _, same in groupby(lines)), default=0)
    return f"the same line appears {longest} times in a row" if longest >= 8 else ""


def _shrunk(before: int, now: int) -> str:
    # Losing half of a very small file is no sign of anything.
    lost = before >= 400 and now < before * 0.5
    return f"it has {now} bytes and had {before} before" if lost else ""


def _repeated_heading(text: str) -> str:
    titles = [(len(level), title.lower()) for level, title in _headings(text) if len(level) <= 2]
    twice = next((title for level, title in titles if titles.count((level, title)) > 1), "")
    return f"the heading '{cut(twice, 60)}' appears twice" if twice else ""


def _unbalanced(text: str) -> str:
    """Brackets outside of quotes and comments."""
    bare = re.sub(r"'(\\.|[^'\\\n])*'|\"(\\.|[^\"\\\n])*\"|`[^`]*`", "", _COMMENT.sub("", text))
    for opening, closing in ("()", "[]", "{}"):
        if (more := bare.count(opening) - bare.count(closing)) != 0:
            return f"{abs(more)} '{opening if more > 0 else closing}' too many"
    return ""


def _invalid_json(text: str) -> str:
    try:
        from_json(text, finite=True)
    except ValueError as error:
        return f"not valid JSON: {error}"
    return ""


def _headings(text: str) -> list[tuple[str, str]]:
    matches = _HEADING.findall(_FENCED.sub("", text))
    return [(str(level), str(title)) for level, title in matches]


_CITED = re.compile(r"(?<![\w!\]])\[(\d{1,3})\](?![(:])")
_DEFINED = re.compile(r"^\s*(?:\[(\d{1,3})\][:.]?|(\d{1,3})[.)])\s+\S", re.MULTILINE)
_REFERENCES = re.compile(
    r"^#{1,6}\s+(references|sources|bibliography)\b.*$", re.MULTILINE | re.IGNORECASE
)
_FIGURE = re.compile(r"\b(?:Figure|Fig\.)\s+(\d{1,2})\b")
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]+\)|<img\b")
_ANCHOR = re.compile(r"(?<!!)\[[^\]]*\]\(#([^)\s]+)\)")
_AUTHOR = re.compile(r"\([A-Z][\w'-]+(?: et al\.| and [A-Z][\w'-]+)?,? \d{4}[a-z]?\)")


def critique(completion: Completion) -> Iterator[GateFinding]:
    """The critic's mean score reaches the bar; a missing score does not."""
    if not completion.criticised:
        return
    least = completion.settings.min_score_to_complete
    if completion.critique is None:
        yield GateFinding("", "the last results have no critique", "critique")
    elif completion.critique < least:
        detail = f"the critic's mean score is {completion.critique:.2f}, below {least:g}"
        yield GateFinding("", detail, "critique")


def cross_reference(completion: Completion) -> Iterator[GateFinding]:
    """Citations are listed under the references, and every mentioned figure exists."""
    for path, text in _markdown_structure(completion):
        if problem := _undefined(text):
            yield GateFinding(path, problem, "cross_reference")
        figures = [int(number) for number in _FIGURE.findall(text)]
        images = len(_IMAGE.findall(text))
        if figures and max(figures) > images:
            detail = f"it mentions figure {max(figures)} but shows {images}"
            yield GateFinding(path, detail, "cross_reference")


def success_criteria(completion: Completion) -> Iterator[GateFinding]:
    """Every subtask with criteria was worked on and has no critical defect."""
    severity = "error" if completion.settings.strict_criteria else "warning"
    for subtask in completion.open_subtasks:
        yield GateFinding("", f"subtask '{subtask}' is open", "success_criteria", severity)


def structural_integrity(completion: Completion) -> Iterator[GateFinding]:
    """Internal links work, references have one style, and little is repeated."""
    for path, text in _markdown_structure(completion):
        titles = (re.sub(r"[^\w\- ]", "", title.strip().lower()) for _, title in _headings(text))
        anchors = {title.replace(" ", "-") for title in titles}
        anchors.update(re.findall(r"(?:id|name)=[\"']([^\"']+)[\"']", text))
        lost = next((each for each in _ANCHOR.findall(text) if each not in anchors), "")
        if lost:
            detail = f"the link #{cut(lost, 60)} leads to no heading"
            yield GateFinding(path, detail, "structural_integrity")
        if _CITED.search(text) and _AUTHOR.search(text):
            detail = "references are given by number and by author: keep one style"
            yield GateFinding(path, detail, "structural_integrity")
        if problem := _repetition(text):
            yield GateFinding(path, problem, "structural_integrity")


def _markdown_structure(completion: Completion) -> Iterator[tuple[str, str]]:
    texts = completion.delivered_texts.items()
    return ((path, text) for path, text in texts if suffix(path) in _MARKDOWN)


def _undefined(text: str) -> str:
    start = _REFERENCES.search(text)
    if start is None:
        return ""
    cited = {int(number) for number in _CITED.findall(text[: start.start()])}
    below = _DEFINED.findall(text[start.end() :])
    defined = {int(one or other) for one, other in below}
    missing = sorted(cited - defined)
    return f"[{missing[0]}] is cited but not listed in the references" if missing else ""


def _repetition(text: str) -> str:
    paragraphs = [each.strip() for each in re.split(r"\n\s*\n", text)]
    long = [each for each in paragraphs if len(each) >= 80]
    repeated = len(long) - len(set(long))
    if len(long) >= 4 and repeated / len(long) >= 0.2:
        return f"{repeated} of {len(long)} paragraphs are repeated"
    return ""
