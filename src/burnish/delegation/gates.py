"""The gates that a completion must pass: files, structure, texts."""

import ast
import csv
import io
import json
import re
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

import jsonschema
from jsonschema.exceptions import SchemaError, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from burnish.core.content import Json
from burnish.metrics.text_matching import cut

_CODE = frozenset((".py", ".js", ".ts", ".sh", ".c", ".h", ".java", ".go", ".rs", ".rb", ".sql"))
_PROSE = frozenset((".md", ".txt", ".html", ".htm", ".rst", ".tex"))
_MARKDOWN = frozenset((".md", ".markdown"))


@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """How strict the gates are."""

    min_score_to_complete: float = 0.6
    """The critic's mean score of each worker's last result."""
    min_prose_bytes: int = 512
    """What counts as a document where the task asks for one."""
    strict_criteria: bool = False
    """Whether open subtasks reject; otherwise they are only noted."""
    smoke_seconds: float = 10.0


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A completion as the gates see it."""

    task: str
    result: str
    """What the manager reports."""
    declared: tuple[str, ...] = ()
    """The deliverables, by path."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Everything that was made, by path."""
    earlier_sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Of deliverables at the last attempt to complete, and of given files of the same name."""
    criticised: bool = False
    """Whether there is a critic, and something to criticise."""
    critique: float | None = None
    open_subtasks: tuple[str, ...] = ()
    schemas: Mapping[str, Json] = field(default_factory=dict[str, Json])
    settings: GateSettings = field(default_factory=GateSettings)

    @cached_property
    def delivered(self) -> dict[str, bytes]:
        """The declared files that are there."""
        return {path: self.files[path] for path in self.declared if path in self.files}

    @cached_property
    def texts(self) -> dict[str, str]:
        """Everything that was made and is text."""
        decoded = {path: _text_in(content) for path, content in self.files.items()}
        return {path: text for path, text in decoded.items() if text is not None}

    @cached_property
    def delivered_texts(self) -> dict[str, str]:
        """The deliverables that are text."""
        return {path: text for path, text in self.texts.items() if path in self.delivered}


@dataclass(frozen=True, kw_only=True)
class GateFinding:
    """One thing that a gate found."""

    file: str
    detail: str
    check: str
    severity: str = "error"


@dataclass(frozen=True, kw_only=True)
class GateVerdict:
    """What a gate says."""

    gate: str
    findings: tuple[GateFinding, ...] = ()
    ends: bool = False
    """Whether the run has failed for good: nothing may be mended any more."""

    @property
    def passed(self) -> bool:
        """Whether nothing was found that rejects."""
        return all(finding.severity != "error" for finding in self.findings)

    @property
    def first(self) -> GateFinding | None:
        """What rejects, the first of it."""
        return next((each for each in self.findings if each.severity == "error"), None)

    @property
    def reason(self) -> str:
        """In words, why it rejects."""
        finding = self.first
        if finding is None:
            return ""
        at = f"{finding.file}: " if finding.file else ""
        return f"{finding.check}: {at}{finding.detail}"


def suffix(path: str) -> str:
    """The ending of a file's name."""
    return PurePosixPath(path).suffix.lower()


def _text_in(content: bytes) -> str | None:
    """The content as text; None where it is none."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


# -- Gates on files -------------------------------------------------------------------------------


_ASKS_FOR_A_FILE = re.compile(
    r"\b(report|pdf|document|spreadsheet|csv|script|image|chart|slides?|file|essay|article)\b"
    r"|\b[\w-]+\.(md|txt|pdf|csv|json|py|html|docx|xlsx|png|svg|ya?ml)\b",
    re.IGNORECASE,
)
_PNG = b"\x89PNG\r\n\x1a\n"
_ZIPPED = (".docx", ".xlsx", ".pptx", ".zip")


def deliverable_presence(completion: Completion) -> Iterator[GateFinding]:
    """Every declared deliverable is there and not empty."""
    check = "deliverable_presence"
    for path in completion.declared:
        if path not in completion.files:
            yield GateFinding(file=path, detail="the file is not there", check=check)
        elif not completion.files[path].strip():
            yield GateFinding(file=path, detail="the file is empty", check=check)
    if not completion.declared and _ASKS_FOR_A_FILE.search(completion.task):
        detail = "the task asks for a file, and no plan names one under required_outputs"
        yield GateFinding(file="", detail=detail, check=check)


def file(completion: Completion) -> Iterator[GateFinding]:
    """Files that are broken: they have a name, and nothing that it promises."""
    for path, content in completion.files.items():
        if detail := _broken(path, content):
            declared = path in completion.delivered
            severity = "error" if declared else "warning"
            yield GateFinding(file=path, detail=detail, check="file", severity=severity)


def deliverable(completion: Completion) -> Iterator[GateFinding]:
    """Where a task asks for a document, one that is more than a line is there."""
    if not _ASKS_FOR_A_FILE.search(completion.task) or not completion.delivered:
        return
    least = completion.settings.min_prose_bytes
    sizes = {path: len(content) for path, content in completion.delivered.items()}
    prose = all(suffix(path) in _PROSE for path in sizes)
    if prose and max(sizes.values()) < least:
        path = max(sizes, key=lambda each: sizes[each])
        detail = f"no deliverable has {least} bytes; the largest has {sizes[path]}"
        yield GateFinding(file=path, detail=detail, check="deliverable")


def syntax_compile(completion: Completion) -> Iterator[GateFinding]:
    """Deliverables parse as what their names say they are."""
    for path, text in completion.delivered_texts.items():
        parse = _PARSERS.get(suffix(path))
        try:
            problem = parse(text) if parse else ""
        except (ValueError, SyntaxError, YAMLError, RecursionError, csv.Error) as error:
            problem = cut(str(error) or type(error).__name__, 200)
        if problem:
            yield GateFinding(file=path, detail=problem, check="syntax_compile")


def schema(completion: Completion) -> Iterator[GateFinding]:
    """JSON and YAML deliverables keep the schema that the workflow gives them."""
    for path, expected in completion.schemas.items():
        text = completion.delivered_texts.get(path)
        if text is None:
            continue
        if problem := _breaks(text, expected):
            yield GateFinding(file=path, detail=problem, check="schema")


def _broken(path: str, content: bytes) -> str:
    end = suffix(path)
    if not content:
        return "it has 0 bytes"
    if end == ".png":
        if not content.startswith(_PNG):
            return "it is no PNG image"
        size = (int.from_bytes(content[16:20]), int.from_bytes(content[20:24]))
        return "it is an image of one pixel" if size == (1, 1) else ""
    if end == ".pdf" and not content.startswith(b"%PDF"):
        return "it is no PDF document"
    if end in _ZIPPED and not zipfile.is_zipfile(io.BytesIO(content)):
        return f"it is no {end} file"
    if end == ".csv" and len(content.strip().splitlines()) < 2:
        return "it has a header and no rows"
    return ""


def _python(text: str) -> str:
    ast.parse(text)
    return ""


def _json(text: str) -> str:
    json.loads(text)
    return ""


def _yaml(text: str) -> str:
    _loaded(text)
    return ""


def _loaded(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)  # pyright: ignore[reportUnknownMemberType]


def _toml(text: str) -> str:
    tomllib.loads(text)
    return ""


def _markdown(text: str) -> str:
    fences = len(re.findall(r"^\s*(```|~~~)", text, re.MULTILINE))
    return "a code block is opened and not closed" if fences % 2 else ""


def _csv(text: str) -> str:
    widths = {len(row) for row in csv.reader(io.StringIO(text), strict=True) if row}
    return f"rows have {' or '.join(map(str, sorted(widths)))} fields" if len(widths) > 1 else ""


_PARSERS: dict[str, Callable[[str], str]] = {
    ".py": _python,
    ".json": _json,
    ".yaml": _yaml,
    ".yml": _yaml,
    ".toml": _toml,
    ".csv": _csv,
    **dict.fromkeys(_MARKDOWN, _markdown),
}


def _breaks(text: str, expected: Json) -> str:
    try:
        value = _loaded(text)
        jsonschema.validate(value, expected)  # pyright: ignore[reportUnknownMemberType, reportArgumentType]
    except (ValidationError, SchemaError) as error:
        return cut(str(error.message), 200)
    except (ValueError, YAMLError) as error:
        return cut(f"it cannot be read: {error}", 200)
    return ""


# -- Gates on texts -------------------------------------------------------------------------------


_WORDS = re.compile(
    r"\b(TODO|TBD|FIXME)\b|\?\?\?|\bXX+%|<placeholder>|\{\{\s*\w+\s*\}\}|(?i:lorem ipsum)"
)
_MORE_WORDS = re.compile(rf"{_WORDS.pattern}|(?i:\[?\bplaceholder\b\]?)|^\s*N/A\s*$", re.MULTILINE)
_COMMENT = re.compile(r"(#|//|/\*|--).*$", re.MULTILINE)
_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$", re.MULTILINE)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LOOPED = 8
"""Equal lines in a row that nobody writes on purpose."""
_SHRUNK = 0.5
_LARGE = 400
"""Bytes below which losing half is no sign of anything."""


def l0(completion: Completion) -> Iterator[GateFinding]:
    """Deliverables: stand-ins, text in circles, files that shrank, headings twice, broken JSON."""
    for path, text in completion.delivered_texts.items():
        yield from _stand_ins(path, text, "no_placeholder", _WORDS)
        yield from _loops(path, text)
        yield from _shrunk(path, text, completion)
        if suffix(path) in _MARKDOWN:
            yield from _headings(path, text)
        if suffix(path) in _CODE:
            yield from _unbalanced(path, text)
        if suffix(path) == ".json":
            yield from _json_texts(path, text)


def placeholder(completion: Completion) -> Iterator[GateFinding]:
    """Stand-ins anywhere: in what is reported, and in every text that was made."""
    yield from _stand_ins("", completion.result, "final_result", _MORE_WORDS)
    for path, text in completion.texts.items():
        yield from _stand_ins(path, text, "placeholder", _MORE_WORDS)


def _stand_ins(path: str, text: str, check: str, words: re.Pattern[str]) -> Iterator[GateFinding]:
    code = suffix(path) in _CODE
    # What a comment leaves for later is the programmer's; templates have braces of their own.
    looked_at = _COMMENT.sub("", text) if code else text
    match = (_WORDS if code else words).search(looked_at)
    if match and not (code and match[0].startswith(("{{", "<"))):
        detail = f"found placeholder token '{cut(match[0].strip(), 40)}'"
        yield GateFinding(file=path, detail=detail, check=check)


def _loops(path: str, text: str) -> Iterator[GateFinding]:
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 3]
    longest = max((len(list(same)) for _, same in groupby(lines)), default=0)
    if longest >= _LOOPED and suffix(path) not in (".csv", ".tsv", ".json"):
        detail = f"the same line stands {longest} times in a row"
        yield GateFinding(file=path, detail=detail, check="no_text_loop")


def _shrunk(path: str, text: str, completion: Completion) -> Iterator[GateFinding]:
    before, now = completion.earlier_sizes.get(path, 0), len(text.encode())
    if before >= _LARGE and now < before * _SHRUNK:
        detail = f"it has {now} bytes, and had {before} before"
        yield GateFinding(file=path, detail=detail, check="file_size_delta")


def _headings(path: str, text: str) -> Iterator[GateFinding]:
    titles = [(len(level), title.lower()) for level, title in headings(text) if len(level) <= 2]
    twice = next((title for level, title in titles if titles.count((level, title)) > 1), "")
    if twice:
        detail = f"the heading '{cut(twice, 60)}' stands there twice"
        yield GateFinding(file=path, detail=detail, check="no_duplicate_headings")


def _unbalanced(path: str, text: str) -> Iterator[GateFinding]:
    """Brackets outside of quotes and comments; Python is left to its own parser."""
    if suffix(path) in (".py", ".sh", ".sql"):
        return
    bare = re.sub(r"'(\\.|[^'\\\n])*'|\"(\\.|[^\"\\\n])*\"|`[^`]*`", "", _COMMENT.sub("", text))
    for opening, closing in ("()", "[]", "{}"):
        if (more := bare.count(opening) - bare.count(closing)) != 0:
            side = f"{abs(more)} '{opening if more > 0 else closing}' too many"
            yield GateFinding(file=path, detail=side, check="balanced_delimiters")
            return


def _json_texts(path: str, text: str) -> Iterator[GateFinding]:
    try:
        json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        yield GateFinding(
            file=path, detail=f"not valid JSON: {error}", check="json_valid_if_claimed"
        )


def _refused(name: str) -> None:
    raise ValueError(f"{name} has no JSON form")


def headings(text: str) -> list[tuple[str, str]]:
    """The headings of a Markdown text, each with its level as it is written."""
    matches = _HEADING.findall(_FENCED.sub("", text))
    return [(str(level), str(title)) for level, title in matches]


# -- Gates on how a document hangs together, on the plan ------------------------------------------


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


def critique(completion: Completion) -> Iterator[GateFinding]:
    """The critic's mean score reaches the bar; without a score nobody can say that it does."""
    if not completion.criticised:
        return
    least = completion.settings.min_score_to_complete
    if completion.critique is None:
        detail = "no critique could be had of the last results"
        yield GateFinding(file="", detail=detail, check="critique")
    elif completion.critique < least:
        detail = f"the critic's mean score is {completion.critique:.2f}, below {least:g}"
        yield GateFinding(file="", detail=detail, check="critique")


def cross_reference(completion: Completion) -> Iterator[GateFinding]:
    """Citations are defined under the references, and no figure is spoken of that is not there."""
    for path, text in _markdown_structure(completion):
        if problem := _undefined(text):
            yield GateFinding(file=path, detail=problem, check="cross_reference")
        figures = [int(number) for number in _FIGURE.findall(text)]
        images = len(_IMAGE.findall(text))
        if figures and max(figures) > images:
            detail = f"it speaks of figure {max(figures)} and shows {images}"
            yield GateFinding(file=path, detail=detail, check="cross_reference")


def success_criteria(completion: Completion) -> Iterator[GateFinding]:
    """Subtasks with criteria that nobody worked on, or whose last result is critically flawed."""
    severity = "error" if completion.settings.strict_criteria else "warning"
    for subtask in completion.open_subtasks:
        detail = f"subtask '{subtask}' is open"
        yield GateFinding(file="", detail=detail, check="success_criteria", severity=severity)


def structural_integrity(completion: Completion) -> Iterator[GateFinding]:
    """Links inside a document lead somewhere, references have one style, little is said twice."""
    for path, text in _markdown_structure(completion):
        anchors = {_slug(title) for _, title in headings(text)}
        anchors.update(re.findall(r"(?:id|name)=[\"']([^\"']+)[\"']", text))
        lost = next((each for each in _ANCHOR.findall(text) if each not in anchors), "")
        if lost:
            detail = f"the link #{cut(lost, 60)} leads to no heading"
            yield GateFinding(file=path, detail=detail, check="structural_integrity")
        if _CITED.search(text) and _AUTHOR.search(text):
            detail = "references are given by number and by author: keep one style"
            yield GateFinding(file=path, detail=detail, check="structural_integrity")
        if problem := _repetition(text):
            yield GateFinding(file=path, detail=problem, check="structural_integrity")


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
    return f"[{missing[0]}] is cited and not among the references" if missing else ""


def _repetition(text: str) -> str:
    paragraphs = [each.strip() for each in re.split(r"\n\s*\n", text)]
    long = [each for each in paragraphs if len(each) >= 80]
    repeated = len(long) - len(set(long))
    if len(long) >= 4 and repeated / len(long) >= _TWICE:
        return f"{repeated} of {len(long)} paragraphs are there twice"
    return ""


def _slug(title: str) -> str:
    plain = re.sub(r"[^\w\- ]", "", title.strip().lower())
    return plain.replace(" ", "-")
