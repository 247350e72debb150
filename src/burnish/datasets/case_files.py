"""What YAML files and rows of cases have in common."""

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
from burnish.system.config import shown
from burnish.system.patterns import BadPattern, require_pattern

COLUMNS = "columns"
"""The extra with the columns of a file, in order."""
NAMES = "names"
"""The extra with the column names that all rows use for their parts."""
SPELLING = "spelling"
"""The extra that says whether a set is in snake_case or camelCase."""
WRAPPED = "wrapped"
"""The extra of a file whose list is under `test_cases`."""


@dataclass(frozen=True, kw_only=True)
class CaseFile:
    """The contents of a file of cases: enough to write it again."""

    cases: tuple[Case, ...]
    format: str
    """test_cases, evalset, promptiter, json, jsonl or csv."""
    eval_set_id: str = ""
    app_name: str | None = None
    name: str | None = None
    description: str | None = None
    creation_timestamp: int | float | None = None
    extras: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The structure of the file, such as columns, spelling and wrapping."""


FILE_OPTIONS = ("pages", "sheet", "range", "cache")


def _quoted(value: object) -> object:
    if isinstance(value, bool | int | float):
        raise ValueError(f"expected text, found {shown(value)}: put it in quotes")  # noqa: TRY004
    return value


def _argument(value: Json) -> Json:
    """A value, or a single `fuzzy` or `regex` pattern, which must be valid."""
    if not isinstance(value, dict) or not value.keys() & {"fuzzy", "regex"}:
        return value
    if len(value) > 1:
        raise ValueError("expected a single key, 'fuzzy' or 'regex'")
    (kind, pattern), *_ = value.items()
    if not isinstance(pattern, str):
        raise ValueError(f"{kind}: expected text, found {shown(pattern)}: put it in quotes")  # noqa: TRY004
    if kind == "regex":
        try:
            require_pattern(pattern)
        except BadPattern as error:
            raise ValueError(f"regex: {pattern!r} is not a regular expression: {error}") from None
    return value


Text = Annotated[str, BeforeValidator(_quoted)]
_Argument = Annotated[Json, AfterValidator(_argument)]


class CaseFileShape(BaseModel):
    """A mapping in a file; unknown keys are rejected."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


class ToolShape(CaseFileShape):
    """An expected tool with its arguments."""

    name: Text
    args: dict[str, _Argument] = {}
    count: StrictInt = Field(default=1, ge=1)


class FileShape(CaseFileShape):
    """An attached file."""

    type: Literal["image", "pdf", "text", "excel", "word", "powerpoint", "csv"]
    path: Text | None = None
    url: Text | None = None
    data: Text | None = None
    """The content in base64."""
    name: Text | None = None
    """The file name, with `data` only."""
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
            raise ValueError("'name' is only for 'data': a path or URL already has a name")
        return self


class CaseRubricShape(CaseFileShape):
    """One requirement for an answer."""

    id: Text
    text: Text
    description: Text = ""
    kind: Text = ""
    metric: Text = ""


Tools = list[str | ToolShape]
Files = Annotated[list[FileShape], Field(max_length=10)]
Rubrics = list[str | CaseRubricShape]


def expected_tools(shapes: Tools | None) -> tuple[ExpectedTool, ...] | None:
    """The tools of a case; a name alone allows any arguments."""
    if shapes is None:
        return None
    return tuple(
        ExpectedTool(name=tool)
        if isinstance(tool, str)
        else ExpectedTool(name=tool.name, arguments=tool.args, count=tool.count)
        for tool in shapes
    )


def attachments(shapes: list[FileShape] | None) -> tuple[Attachment, ...]:
    """The attachments of a case."""
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
    """The rubrics of a case; a text alone is identified by its position."""
    return tuple(
        Rubric(id=str(position), text=shape)
        if isinstance(shape, str)
        else Rubric(**shape.model_dump())
        for position, shape in enumerate(shapes or (), start=1)
    )


def present(**values: Json) -> dict[str, Json]:
    """The values that are neither None nor an empty list or mapping."""
    return {key: value for key, value in values.items() if value not in (None, [], {})}


def present_lists(**lists: list[Json] | None) -> dict[str, Json]:
    """The lists that are not None; an empty list means that none are allowed."""
    return {key: value for key, value in lists.items() if value is not None}


def tools_written(tools: Sequence[ExpectedTool] | None) -> list[Json] | None:
    """Expected tools for a file, as a name alone if possible."""
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
    """Attachments for a file."""
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
    """Rubrics for a file, without empty fields."""
    return [
        {key: text for key, text in asdict(rubric).items() if text or key in ("id", "text")}
        for rubric in rubrics
    ]
