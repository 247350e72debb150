"""The shape of cases that YAML files and rows share, and the files they come from."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    model_validator,
)

from burnish.core.cases import Attachment, Case, ExpectedTool, Rubric
from burnish.core.content import Json
from burnish.system.config_errors import shown

# The extras that a file may have.
COLUMNS = "columns"
"""The extra that keeps the columns of a file, in order."""
NAMES = "names"
"""The extra that keeps what the rows of a file call their parts, where they all agree."""
SPELLING = "spelling"
"""The extra that says whether a set is in snake_case or camelCase."""
WRAPPED = "wrapped"
"""The extra of a file whose list stands under `test_cases`."""


@dataclass(frozen=True, kw_only=True)
class CaseFile:
    """What a file of cases holds: enough to write it again."""

    cases: tuple[Case, ...]
    format: str
    """test_cases, evalset, promptiter, json, jsonl or csv."""
    eval_set_id: str = ""
    app_name: str | None = None
    name: str | None = None
    description: str | None = None
    creation_timestamp: int | float | None = None
    extras: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """How the file is built: its columns, its spelling, whether a mapping is around the list."""


# -- The shape of agent test cases ----------------------------------------------------------------


_MOST_FILES = 10
FILE_OPTIONS = ("pages", "sheet", "range", "cache")


def _quoted(value: object) -> object:
    if isinstance(value, bool | int | float):
        raise ValueError(f"expected text, found {shown(value)}: put it in quotes")  # noqa: TRY004
    return value


def _argument(value: Json) -> Json:
    """A value, or one of the two patterns, which must then be a pattern."""
    if not isinstance(value, dict) or not value.keys() & {"fuzzy", "regex"}:
        return value
    if len(value) > 1:
        raise ValueError("expected one of 'fuzzy' or 'regex' alone")
    (kind, pattern), *_ = value.items()
    if not isinstance(pattern, str):
        raise ValueError(f"{kind}: expected text, found {shown(pattern)}: put it in quotes")  # noqa: TRY004
    if kind == "regex":
        _refuse_bad_pattern(pattern)
    return value


def _refuse_bad_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"regex: {pattern!r} is no regular expression: {error}") from None


Text = Annotated[str, BeforeValidator(_quoted)]
_Argument = Annotated[Json, AfterValidator(_argument)]


class CaseFileShape(BaseModel):
    """A mapping in a file: a key it does not know is a mistake."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


class ToolShape(CaseFileShape):
    """An expected tool with its arguments."""

    name: Text
    args: dict[str, _Argument] = {}
    count: StrictInt = Field(default=1, ge=1)


class FileShape(CaseFileShape):
    """A file that goes with what is said."""

    type: Literal["image", "pdf", "text", "excel", "word", "powerpoint", "csv"]
    path: Text | None = None
    url: Text | None = None
    data: Text | None = None
    """The file itself, in base64."""
    name: Text | None = None
    """What it is called, where it comes as data."""
    description: Text | None = None
    pages: list[StrictInt] | None = None
    sheet: Text | None = None
    range: Text | None = None
    cache: StrictBool | None = None

    @model_validator(mode="after")
    def _one_place(self) -> "FileShape":
        if sum(map(bool, (self.path, self.url, self.data))) != 1:
            raise ValueError("give one of 'path', 'url' and 'data'")
        if self.name and not self.data:
            raise ValueError("'name' goes with 'data': a path and a url have names already")
        return self


class CaseRubricShape(CaseFileShape):
    """One thing an answer must fulfil."""

    id: Text
    text: Text
    description: Text = ""
    kind: Text = ""
    metric: Text = ""


Tools = list[str | ToolShape]
Files = Annotated[list[FileShape], Field(max_length=_MOST_FILES)]
Rubrics = list[str | CaseRubricShape]


def expected_tools(shapes: Tools | None) -> tuple[ExpectedTool, ...] | None:
    """The tools as a case holds them; a name alone is a tool with any arguments."""
    if shapes is None:
        return None
    return tuple(
        ExpectedTool(name=tool)
        if isinstance(tool, str)
        else ExpectedTool(name=tool.name, arguments=tool.args, count=tool.count)
        for tool in shapes
    )


def attachments(shapes: list[FileShape] | None) -> tuple[Attachment, ...]:
    """The files as a case holds them."""
    return tuple(
        Attachment(
            kind=shape.type,
            path=shape.path or "",
            url=shape.url or "",
            data=shape.data or "",
            name=shape.name or "",
            description=shape.description or "",
            options=shape.model_dump(include=set(FILE_OPTIONS), exclude_none=True),
        )
        for shape in shapes or ()
    )


def rubrics(shapes: Rubrics | None) -> tuple[Rubric, ...]:
    """The rubrics as a case holds them; a text alone is known by its position."""
    return tuple(
        Rubric(id=str(position), text=shape)
        if isinstance(shape, str)
        else Rubric(
            id=shape.id,
            text=shape.text,
            description=shape.description,
            kind=shape.kind,
            metric=shape.metric,
        )
        for position, shape in enumerate(shapes or (), start=1)
    )


# -- Case writing ---------------------------------------------------------------------------------


def present(**values: Json) -> dict[str, Json]:
    """The values that say something: neither nothing nor an empty list or mapping."""
    return {key: value for key, value in values.items() if not _is_empty(value)}


def present_lists(**lists: list[Json] | None) -> dict[str, Json]:
    """The lists that are there; an empty one says that there should be none."""
    return {key: value for key, value in lists.items() if value is not None}


def tools_written(tools: Sequence[ExpectedTool] | None) -> list[Json] | None:
    """Expected tools: the name alone where that is all."""
    if tools is None:
        return None
    return [
        tool.name
        if not tool.arguments and tool.count == 1
        else {
            "name": tool.name,
            **present(args=dict(tool.arguments)),
            **({} if tool.count == 1 else {"count": tool.count}),
        }
        for tool in tools
    ]


def files_written(files: Sequence[Attachment]) -> list[Json]:
    """Attachments as entries of `files`."""
    return [
        {
            "type": file.kind,
            **present(path=file.path or None, url=file.url or None),
            **present(data=file.data or None, name=file.name or None),
            **present(description=file.description or None),
            **file.options,
        }
        for file in files
    ]


def rubrics_written(rubrics: Sequence[Rubric]) -> list[Json]:
    """Rubrics, without what they do not say."""
    return [
        {key: text for key, text in asdict(rubric).items() if text or key in ("id", "text")}
        for rubric in rubrics
    ]


def _is_empty(value: Json) -> bool:
    return value is None or value in ([], {})
