"""What the editor is told and answers, and how its answer becomes files."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.errors import Problem
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt

ROLE = "editor"


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True)


class EditRequest(_Words):
    """What the editor sees."""

    task: str
    files: str
    """The files that may be edited, whole, each under its path."""
    feedback: str
    """The numbers of the present files, and what runner and scorer said."""
    bounds: str
    """Constraints, and what an edit may touch."""
    turned_down: str
    """What was tried and not kept, and why."""
    texts: dict[str, str] = Field(default_factory=dict[str, str])
    """The same files by path, for an editor that is a program."""


class Replacement(_Words):
    """One place in a file."""

    path: str
    search: str
    """Text that stands there now, exactly and once."""
    replace: str


class WholeFile(_Words):
    """The whole new text of a small file."""

    path: str
    content: str


class Edit(_Words):
    """An edit of one or a few files."""

    rationale: str
    replacements: list[Replacement] = Field(default_factory=list[Replacement])
    files: list[WholeFile] = Field(default_factory=list[WholeFile])
    refused: list[str] = Field(default_factory=list[str])
    """What was wrong with what an editing program did, where one edits."""


@dataclass(frozen=True, kw_only=True)
class Edited:
    """The files after an edit, or why there are none."""

    texts: Mapping[str, str]
    problems: tuple[Problem, ...] = ()


def editor(client: ModelClient, prompt: RolePrompt) -> ModelRole[EditRequest, Edit]:
    """The role that edits, played by a model."""
    return ModelRole(
        name=ROLE, request_type=EditRequest, answer_type=Edit, prompt=prompt, client=client
    )


def carried_out(edit: Edit, texts: Mapping[str, str]) -> Edited:
    """The files with the edit carried out, whole files first."""
    new = dict(texts)
    problems = [Problem(message=told) for told in edit.refused]
    for whole in edit.files:
        if whole.path in new:
            new[whole.path] = whole.content
        else:
            problems.append(_unknown(whole.path))
    for place in edit.replacements:
        if place.path not in new:
            problems.append(_unknown(place.path))
            continue
        count = new[place.path].count(place.search) if place.search else 0
        if count == 1:
            new[place.path] = new[place.path].replace(place.search, place.replace)
        else:
            problems.append(_not_there(place, count))
    return Edited(texts=new, problems=tuple(problems))


def _unknown(path: str) -> Problem:
    return Problem(where=path, message="this is not one of the files that may be edited")


def _not_there(place: Replacement, count: int) -> Problem:
    told = "is not there" if count == 0 else f"is there {count} times"
    remedy = "quote a piece of the present text that is there once, exactly as it stands"
    start = place.search.strip().split("\n")[0][:60]
    return Problem(
        where=place.path, message=f"the text to replace {told}: '{start}'", remedy=remedy
    )
