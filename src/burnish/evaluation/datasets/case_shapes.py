"""The shape of agent test cases, which YAML files and rows share, and the cases they become."""

import re
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

from burnish.core.cases import Attachment, ExpectedTool, Rubric
from burnish.core.content import Json
from burnish.system.config_errors import shown

MOST_FILES = 10
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
Argument = Annotated[Json, AfterValidator(_argument)]


class Shape(BaseModel):
    """A mapping in a file: a key it does not know is a mistake."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


class ToolShape(Shape):
    """An expected tool with its arguments."""

    name: Text
    args: dict[str, Argument] = {}
    count: StrictInt = Field(default=1, ge=1)


class FileShape(Shape):
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


class RubricShape(Shape):
    """One thing an answer must fulfil."""

    id: Text
    text: Text
    description: Text = ""
    kind: Text = ""
    metric: Text = ""


Tools = list[str | ToolShape]
Files = Annotated[list[FileShape], Field(max_length=MOST_FILES)]
Rubrics = list[str | RubricShape]


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
