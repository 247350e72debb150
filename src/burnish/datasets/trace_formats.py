"""Exports of tracing services and plain logs: recognising, reading, counting what is broken."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.content import Json, canonical
from burnish.core.errors import ConfigError, NotJournalable, Problem
from burnish.datasets.agent_cases import Complaints, mapped
from burnish.datasets.csv_files import raw_rows
from burnish.datasets.messages import unpacked
from burnish.datasets.otel_traces import holds_spans, otel_traces
from burnish.datasets.rows import raw_objects
from burnish.datasets.trace_exports import (
    FIELDS,
    Record,
    Records,
    langfuse_traces,
    langsmith_traces,
    plain_traces,
)
from burnish.datasets.traces import LoggedTrace
from burnish.system.config import near
from burnish.system.files import read_text, translated
from burnish.system.yaml import parse_json

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv")


@dataclass(frozen=True, kw_only=True)
class TraceLog:
    """The traces of a file or a folder, and what could not be read."""

    traces: tuple[LoggedTrace, ...]
    broken: tuple[Problem, ...] = ()
    """Lines and records that are no JSON, or that have no question."""
    files: int = 1

    @property
    def formats(self) -> tuple[str, ...]:
        return tuple(sorted({trace.format for trace in self.traces}))


def read_traces(
    path: Path,
    *,
    format: str | None = None,  # noqa: A002
    fields: Sequence[str] = (),
) -> TraceLog:
    """The traces of a file, or of all files of a folder; what is broken is counted.

    `fields` are like `input=request.text`: where a line of a plain log has a part. Raises
    ConfigError if nothing at all can be read.
    """
    if format is not None and format not in _READERS:
        known = near(format, list(_READERS)) or f"known: {', '.join(_READERS)}"
        message = f"unknown format {format!r} of traces"
        raise ConfigError([Problem(where="--from", message=message, remedy=known)])
    places = _field_paths(fields)
    complaints: list[Problem] = []
    by_format: dict[str, list[tuple[str, Record]]] = {}
    paths = _files(path)
    for file in paths:
        records = list(_records(file, complaints))
        kind = format or ("jsonl" if fields else _recognised(record for _, record in records))
        by_format.setdefault(kind, []).extend((_shown(file, path), r) for _, r in records)
    read = [
        trace for kind, records in by_format.items() for trace in _READERS[kind](records, places)
    ]
    traces = {trace.id: trace for trace in read if _is_usable(trace)}
    complaints += [
        Problem(where=f"{t.file or path.name}: {t.id}", message="this trace has no question")
        for t in read
        if not _is_usable(t)
    ]
    if not traces:
        raise _nothing(path, complaints, paths)
    return TraceLog(traces=tuple(traces.values()), broken=tuple(complaints), files=len(paths))


def _is_usable(trace: LoggedTrace) -> bool:
    return bool(trace.input.strip())


def _nothing(path: Path, broken: Sequence[Problem], files: Sequence[Path]) -> ConfigError:
    message = f"no trace could be read from {len(files)} file(s)"
    remedy = (
        "name the format with --from otel|langfuse|langsmith|jsonl; for other names of fields: "
        "--from jsonl --field input=NAME --field output=NAME"
    )
    return ConfigError([Problem(where=str(path), message=message), *broken[:3]], remedy=remedy)


def _field_paths(fields: Sequence[str]) -> dict[str, tuple[str, ...]]:
    places = dict(FIELDS)
    for each in fields:
        part, equals, name = each.partition("=")
        if part not in FIELDS or not equals or not name:
            remedy = f"write PART=NAME; the parts are {', '.join(FIELDS)}"
            raise ConfigError(
                [Problem(where="--field", message=f"not usable: {each!r}", remedy=remedy)]
            )
        places[part] = (name,)
    return places


def _files(path: Path) -> list[Path]:
    with translated("read", path):
        if not path.is_dir():
            if not path.exists():
                message, remedy = "no such file or folder", "name an export of traces"
                raise ConfigError([Problem(where=str(path), message=message, remedy=remedy)])
            return [path]
        found = sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES and p.is_file())
    visible = [p for p in found if not any(n.startswith(".") for n in p.relative_to(path).parts)]
    if not visible:
        message = f"the folder has no {', '.join(_SUFFIXES)} files"
        raise ConfigError([Problem(where=str(path), message=message)])
    return visible


def _shown(file: Path, path: Path) -> str:
    return file.name if file == path else file.relative_to(path).as_posix()


def _records(path: Path, broken: list[Problem]) -> Iterator[tuple[str, Record]]:
    """The records of a file with their places."""
    if path.suffix == ".csv":
        try:
            for number, row in enumerate(raw_rows(path), start=2):
                yield str(number), {name: unpacked(cell) for name, cell in row.items()}
        except (ConfigError, csv.Error) as error:
            broken.append(Problem(where=path.name, message=str(error)))
        return
    document = _document(path) if path.suffix == ".json" else None
    if document is not None:
        for number, row in enumerate(_unwrapped(document), start=1):
            if _is_record(row, path, number, broken):
                yield str(number), mapped(row)
        return
    complaints, read = Complaints(source=path.name), 0
    for line, record in raw_objects(path, complaints):
        read += 1
        yield from ((str(line), mapped(row)) for row in _unwrapped(record))
    # A file that is one broken value is one problem, however many lines it has.
    broken += complaints.problems if read else complaints.problems[:1]


def _is_record(row: Json, path: Path, number: int, broken: list[Problem]) -> bool:
    try:
        if isinstance(row, dict):
            canonical(row)
            return True
        message = "expected a JSON object"
    except NotJournalable as error:
        message = error.message
    broken.append(Problem(where=f"{path.name} record {number}", message=message))
    return False


def _document(path: Path) -> Json:
    """The value of a JSON file; None if it holds one value per line, or is broken."""
    try:
        return parse_json(read_text(path).removeprefix("\ufeff"), source=path.name)
    except ConfigError:
        return None


def _unwrapped(document: Json) -> list[Json]:
    """The records of a document: a list, a page of an API, a session with its traces."""
    whole: list[Json] = [document]
    if isinstance(document, list):
        return document
    held = mapped(document)
    for key in ("data", "traces", "runs", "observations"):
        rows = held.get(key)
        if isinstance(rows, list) and not {"input", "inputs", "run_type"} & held.keys():
            return rows
    return whole


def _recognised(records: Iterable[Record]) -> str:
    """The format of a file, by the first of its records that shows it."""
    for record in records:
        if holds_spans(record):
            return "otel"
        if {"run_type", "dotted_order"} & record.keys():
            return "langsmith"
        if _LANGFUSE & record.keys() and {"input", "output"} & record.keys():
            return "langfuse"
    return "jsonl"


_LANGFUSE = frozenset(
    ("observations", "traceId", "sessionId", "userId", "bookmarked", "htmlPath", "statusMessage")
)


_Reading = Callable[[Records, Mapping[str, tuple[str, ...]]], Iterator[LoggedTrace]]


def _otel(records: Records, places: object) -> Iterator[LoggedTrace]:
    del places
    names = {file for file, _ in records}
    file = names.pop() if len(names) == 1 else ""
    yield from (replace(t, file=file) for t in otel_traces(record for _, record in records))


_READERS: Mapping[str, _Reading] = {
    "otel": _otel,
    "langfuse": langfuse_traces,
    "langsmith": langsmith_traces,
    "jsonl": plain_traces,
}
