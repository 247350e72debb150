"""Proposed cases: checked against every split, and apart from the data until they are accepted.

A proposals file is JSONL like any file of cases. The extra `source` says what a case comes from,
the file that it is for, which follows from that, and the files that it was checked against.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from burnish.core.cases import Case, Dataset
from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import listed
from burnish.core.leaks import LeakWatch
from burnish.datasets.agent_cases import listed as items
from burnish.datasets.agent_cases import mapped
from burnish.datasets.formats import append_cases, read_cases, write_cases
from burnish.datasets.splits import NEAR, groups
from burnish.datasets.traces import SOURCE
from burnish.system.config import near
from burnish.system.files import append_line

_HOME, _CHECKED = "for", "checked_against"
_INTERNAL = (_HOME, _CHECKED)
"""What is said about a proposal only until it is accepted."""


@dataclass(frozen=True, kw_only=True)
class Screened:
    """What is left of proposed cases, and why the others are not."""

    fit: tuple[Case, ...] = ()
    repeated: tuple[str, ...] = ()
    """Each asks what another case for the same file asks, or nearly so."""
    leaking: tuple[str, ...] = ()
    """Each is nearly a case of another split, or has text of one."""


def screened(
    proposed: Sequence[tuple[Case, int]], splits: Sequence[Sequence[Case]], *, near: float = NEAR
) -> Screened:
    """Check proposed cases, each for the split at a place, against all splits and each other."""
    existing = [(case, place) for place, cases in enumerate(splits) for case in cases]
    placed = [*existing, *proposed]
    watches = [_watch(splits, place) for place in range(len(splits))]
    fit: set[int] = set()
    repeated, leaking = list[str](), list[str]()
    for group in groups([case for case, _ in placed], near=near):
        homes = {placed[member][1] for member in group if member < len(existing)}
        for member in (each for each in group if each >= len(existing)):
            case, home = placed[member]
            if homes - {home} or watches[home].leaked(codec(Case).encode(_bare(case))) is not None:
                leaking.append(case.id)
            elif homes:
                repeated.append(case.id)
            else:
                homes = {home}
                fit.add(member)
    return Screened(
        fit=tuple(placed[member][0] for member in sorted(fit)),
        repeated=tuple(repeated),
        leaking=tuple(leaking),
    )


def _watch(splits: Sequence[Sequence[Case]], place: int) -> LeakWatch:
    """Knows the text of all splits but one."""
    others = (case for number, cases in enumerate(splits) if number != place for case in cases)
    return LeakWatch(Dataset(train=tuple(splits[place]), holdout=tuple(others)))


def _bare(case: Case) -> Case:
    return replace(case, name="", extras={}, labels=())


def proposed_for(case: Case, home: Path, files: Sequence[Path], proposals: Path) -> Case:
    """The case with the file that it is for, as a proposals file names it."""

    def named(path: Path) -> str:
        return os.path.relpath(path.resolve(), proposals.resolve().parent)

    more: dict[str, Json] = {_HOME: named(home), _CHECKED: [named(each) for each in files]}
    return replace(case, extras={**case.extras, SOURCE: {**source_of(case), **more}})


def source_of(case: Case) -> Mapping[str, Json]:
    """What a case comes from, as far as it says."""
    return mapped(case.extras.get(SOURCE))


def write_proposals(path: Path, cases: Sequence[Case]) -> int:
    """Add cases to a proposals file, unless they are there; how many are new."""
    held = read_cases(path, format="jsonl").cases if path.exists() and path.stat().st_size else ()
    there = {case.question_id for case in held}
    new = [case for case in cases if case.question_id not in there]
    names = {case.id for case in held}
    if new:
        write_cases(path, [*held, *(named_apart(case, names) for case in new)], format="jsonl")
    return len(new)


def named_apart(case: Case, names: set[str]) -> Case:
    """The case under a name that no other has."""
    number, name = 2, case.id
    while name in names:
        name, number = f"{case.id}-{number}", number + 1
    names.add(name)
    return case if name == case.id else replace(case, name=name)


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """The proposals for one file that somebody wants, and what becomes of them."""

    home: Path
    files: tuple[Path, ...]
    """All files that they were checked against."""
    screened: Screened

    def write(self, *, person: str) -> None:
        """Append the cases; where they come from goes with them, or into a file beside."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        cases = [_accepted(case, person, at) for case in self.screened.fit]
        unsaid = append_cases(self.home, cases) if cases else {}
        for name, case in unsaid.items():
            row = json.dumps({"case": name, **source_of(case)}, ensure_ascii=False)
            append_line(sources_beside(self.home), row)


def sources_beside(cases: Path) -> Path:
    """The file that says where cases come from, for formats that have no room for that."""
    return cases.with_name(f"{cases.name}.sources.jsonl")


def _accepted(case: Case, person: str, at: str) -> Case:
    about = {key: value for key, value in source_of(case).items() if key not in _INTERNAL}
    source: dict[str, Json] = {**about, "accepted_by": person, "accepted_at": at}
    return replace(case, extras={**case.extras, SOURCE: source})


def acceptances(
    proposals: Path,
    names: Sequence[str],
    *,
    to: Path | None = None,
    against: Sequence[Path] = (),
) -> tuple[Acceptance, ...]:
    """Check chosen proposals again, as their files are now; no names mean all of them.

    A proposal that says which file it is for goes nowhere else: that keeps splits apart. Files of
    other splits that it does not name are given as `against`.
    """
    cases = _chosen(read_cases(proposals, format="jsonl").cases, names, proposals)
    problems = [problem for case in cases if (problem := _misplaced(case, to, proposals))]
    if problems:
        raise ConfigError(problems)
    others = [path.resolve() for path in against]
    placed = [(case, *_files(case, to, others, proposals)) for case in cases]
    return tuple(each for group in _together(placed) for each in _acceptances(*group))


def _together(
    cases: Sequence[tuple[Case, Path, tuple[Path, ...]]],
) -> list[tuple[list[Path], list[tuple[Case, Path]]]]:
    """Cases with the files that they are for, grouped by all files of the same splits.

    Cases that share a file are checked against each other, too: whoever accepts two that ask the
    same, for two splits, would make a leak.
    """
    together: list[tuple[list[Path], list[tuple[Case, Path]]]] = []
    for case, home, files in cases:
        same = [group for group in together if {*group[0]} & {*files}]
        together = [group for group in together if group not in same]
        joined = dict.fromkeys([*(path for group in same for path in group[0]), *files])
        placed = [*(each for group in same for each in group[1]), (case, home)]
        together.append(([*joined], placed))
    return together


def _acceptances(files: Sequence[Path], placed: Sequence[tuple[Case, Path]]) -> list[Acceptance]:
    """What becomes of cases for the files of one dataset, for each file that gets some."""
    splits = [read_cases(path).cases for path in files]
    names = {case.id for split in splits for case in split}
    named = [(named_apart(case, names), home) for case, home in placed]
    result = screened([(case, files.index(home)) for case, home in named], splits)
    homes = {case.id: home for case, home in named}

    def here(home: Path) -> Screened:
        return Screened(
            fit=tuple(case for case in result.fit if homes[case.id] == home),
            repeated=tuple(name for name in result.repeated if homes[name] == home),
            leaking=tuple(name for name in result.leaking if homes[name] == home),
        )

    return [
        Acceptance(home=home, files=tuple(files), screened=here(home))
        for home in dict.fromkeys(homes.values())
    ]


def _files(
    case: Case, to: Path | None, against: Sequence[Path], proposals: Path
) -> tuple[Path, tuple[Path, ...]]:
    """The file that a proposal is for, and all that it is checked against."""
    source = source_of(case)
    if _HOME not in source:
        assert to is not None
        home, named = to.resolve(), list[Path]()
    else:
        folder = proposals.resolve().parent
        home = (folder / str(source[_HOME])).resolve()
        named = [(folder / str(each)).resolve() for each in items(source.get(_CHECKED))]
    return home, tuple(dict.fromkeys([*named, home, *against]))


def _misplaced(case: Case, to: Path | None, proposals: Path) -> Problem | None:
    source = source_of(case)
    if _HOME not in source:
        remedy = "name the file with --to FILE"
        message = "it does not say which file it is for"
        return None if to is not None else Problem(where=case.id, message=message, remedy=remedy)
    home = (proposals.resolve().parent / str(source[_HOME])).resolve()
    if to is None or to.resolve() == home:
        return None
    message = f"it is for {source[_HOME]}, where its source is: elsewhere it would leak"
    return Problem(where=case.id, message=message, remedy="leave out --to")


def _chosen(cases: Sequence[Case], names: Sequence[str], proposals: Path) -> Sequence[Case]:
    known = [case.id for case in cases]
    unknown = [
        Problem(where=str(proposals), message=f"there is no proposal '{name}'", remedy=hint)
        for name in names
        if name not in known
        for hint in [near(name, known) or f"there are: {listed(known)}"]
    ]
    if unknown:
        raise ConfigError(unknown)
    return [case for case in cases if not names or case.id in names]
