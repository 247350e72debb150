"""Test cases of agents in YAML, and what files of cases share: shapes, names and complaints."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationError,
    model_validator,
)

from burnish.core.cases import Attachment, Case, ExpectedTool, Rubric, Turn
from burnish.core.content import DEEPEST, TOO_DEEP, Json, canonical, is_deeper
from burnish.core.errors import (
    MOST_PROBLEMS,
    ConfigError,
    MoreProblems,
    NotJournalable,
    Problem,
)
from burnish.core.formatting import shorten
from burnish.system.config import Fault, dotted, faults_in, nearest, problems_of, shown
from burnish.system.user_code import BadPattern, require_pattern
from burnish.system.yaml import FLATTER, TreePath, YamlTree, read_tree

# -- What YAML files and rows of cases have in common ----------------------------------------------


_WIDTH, _SAMPLE = 76, 24


@dataclass(frozen=True, kw_only=True)
class CaseColumns:
    """The columns that hold the parts of a case; the others are settings for graders."""

    input: str
    expected: str = ""
    name: str = ""
    usual: bool = True
    """Whether all of them are called as burnish calls them."""

    @property
    def parts(self) -> dict[str, str]:
        """The part that each column holds."""
        held = {self.input: "input", self.expected: "expected", self.name: "name"}
        return {column: part for column, part in held.items() if column}

    @property
    def by_part(self) -> dict[str, Json]:
        """The column that each part was taken from, as JSON."""
        return {part: column for column, part in self.parts.items()}

    def __str__(self) -> str:
        return ", ".join(f"{part} = {column}" for column, part in self.parts.items())

    def samples(self, cases: Sequence[Case]) -> dict[str, str]:
        """A value of each column that was taken, by its part."""
        return {
            part: next((text for case in cases if (text := getattr(case, part))), "")
            for part in self.parts.values()
        }

    def sampled(self, cases: Sequence[Case]) -> str:
        """The columns with a value of each, in lines of 76 characters at most."""
        samples, parts = self.samples(cases), list[str]()
        for column, part in self.parts.items():
            sample = f' ("{shorten(samples[part], _SAMPLE)}")' if samples[part] else ""
            parts.append(f'{part} = "{shorten(column, _SAMPLE)}"{sample}')
        if not self.expected:
            parts.append("no expected answers")
        lines = [parts[0]]
        for part in parts[1:]:
            if len(lines[-1]) + len(part) + 2 > _WIDTH:
                lines[-1] += ","
                lines.append(part)
            else:
                lines[-1] += f", {part}"
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class CaseFile:
    """The cases of a file, and what else is known of it."""

    cases: tuple[Case, ...]
    eval_set_id: str = ""
    columns: CaseColumns | None = field(default=None, compare=False)
    """What was taken for the question, the answer and the name, where the file is a table."""


FILE_OPTIONS = ("pages", "sheet", "range", "cache")


def _text(value: object) -> object:
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


_Text = Annotated[str, BeforeValidator(_text)]
_Argument = Annotated[Json, AfterValidator(_argument)]


class CaseFileShape(BaseModel):
    """A mapping in a file; unknown keys are rejected."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ToolShape(CaseFileShape):
    """An expected tool with its arguments."""

    name: _Text
    args: dict[str, _Argument] = {}
    count: StrictInt = Field(default=1, ge=1)


class FileShape(CaseFileShape):
    """An attached file."""

    type: Literal["image", "pdf", "text", "excel", "word", "powerpoint", "csv"]
    path: _Text | None = None
    url: _Text | None = None
    data: _Text | None = None
    """The content in base64."""
    name: _Text | None = None
    """The file name, with `data` only."""
    description: _Text | None = None
    pages: list[StrictInt] | None = None
    sheet: _Text | None = None
    range: _Text | None = None
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

    id: _Text
    text: _Text
    description: _Text = ""
    kind: _Text = ""
    metric: _Text = ""


Tools = list[str | ToolShape]
_Files = Annotated[list[FileShape], Field(max_length=10)]
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


def _attachments(shapes: list[FileShape] | None) -> tuple[Attachment, ...]:
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


def rubrics_written(rubrics: Sequence[Rubric]) -> list[Json]:
    """Rubrics for a file, without empty fields."""
    return [
        {key: text for key, text in asdict(rubric).items() if text or key in ("id", "text")}
        for rubric in rubrics
    ]


# -- Test cases of agents --------------------------------------------------------------------------


M = TypeVar("M", bound=BaseModel)


@dataclass(kw_only=True)
class Complaints:
    """The problems of one file, each with its place."""

    source: str
    tree: YamlTree | None = None
    problems: list[Problem] = field(default_factory=list[Problem])
    names: dict[str, tuple[TreePath, int | None]] = field(
        default_factory=dict[str, tuple[TreePath, int | None]]
    )
    """Where each case name was first seen."""

    @classmethod
    def about(cls, tree: YamlTree) -> "Complaints":
        """For a YAML or JSON file, with line numbers unless it is too deep."""
        flat = not is_deeper(tree.data, DEEPEST)
        return cls(source=tree.path.name, tree=tree if flat else None)

    def shaped(
        self,
        value: Json,
        model: type[M],
        *,
        at: TreePath = (),
        line: int | None = None,
        respell: Callable[[Fault], Fault] = lambda fault: fault,
    ) -> M | None:
        """Validate a value as a `model`; None if it has problems, which are noted.

        `respell` maps places in the model to places in the file.
        """
        try:
            return model.model_validate(value)
        except ValidationError as error:
            faults = [respell(_plainly(fault)) for fault in faults_in(error, value, model)]
        if len(self.problems) >= MOST_PROBLEMS:
            self.problems.append(MoreProblems.of(len(faults)))
            return None
        placed = [replace(fault, path=(*at, *fault.path)) for fault in faults]
        source = f"{self.source}:{line}" if line else self.source
        self.problems += problems_of(placed, source=source, tree=self.tree)
        return None

    def add(
        self, message: str, *, at: TreePath = (), line: int | None = None, remedy: str = ""
    ) -> None:
        """Note one problem at a place."""
        where = self._where(at, line)
        self.problems.append(Problem(message=message, where=where, remedy=remedy))

    def is_json(self, value: Json, *, at: TreePath = (), line: int | None = None) -> bool:
        """Whether a value can be stored as JSON; NaN and lone surrogates cannot."""
        if is_deeper(value, DEEPEST):
            self.add(TOO_DEEP, at=at, line=line, remedy=FLATTER)
            return False
        try:
            canonical(value)
        except NotJournalable as error:
            self.add(error.message, at=at, line=line, remedy=error.remedy)
            return False
        return True

    def named(self, name: str, *, at: TreePath = (), line: int | None = None) -> None:
        """Note the name of a case; a repeated name is a problem."""
        if name in self.names:
            first = self._where(*self.names[name])
            message = f"two cases have the name {name!r}; the first is at {first}"
            self.add(message, at=at, line=line, remedy="give each case its own name")
        elif name:
            self.names[name] = (at, line)

    def settle(self) -> None:
        """Raise all problems, if there are any."""
        if self.problems:
            raise ConfigError(self.problems)

    def _where(self, at: TreePath, line: int | None) -> str:
        outer = (at[:length] for length in range(len(at), 0, -1))
        lines = (self.tree.line_of(path) for path in outer) if self.tree else ()
        number = line or next(filter(None, lines), None)
        place = f"{self.source}:{number}" if number else self.source
        return f"{place} {dotted(at)}".strip()


def _plainly(fault: Fault) -> Fault:
    """A fault in a dataclass in the form that models have."""
    error, missing = fault.errors[0].copy(), fault.errors[0]["loc"][-1:]
    if error["type"] == "missing" and fault.path[-1:] != missing:
        return replace(fault, path=(*fault.path, *missing))
    if error["type"] == "unexpected_keyword_argument":
        error["type"] = "extra_forbidden"
        return replace(fault, errors=(error,), known_keys=())
    return fault


def listed(value: Json) -> list[Json]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def mapped(value: Json) -> Mapping[str, Json]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


class TurnShape(CaseFileShape):
    """One turn of a conversation."""

    input: _Text
    ground_truth: _Text | None = None
    expected_tools: Tools | None = None
    files: _Files | None = None
    retrieval_context: list[_Text] | None = None
    evaluations: list[dict[str, Json]] | None = None
    turn_config: dict[str, Json] | None = None


class CaseShape(CaseFileShape):
    """A test case of one turn, or of several under `turns`."""

    name: _Text | None = None
    input: _Text | None = None
    ground_truth: _Text | None = None
    expected_tools: Tools | None = None
    files: _Files | None = None
    retrieval_context: list[_Text] | None = None
    evaluations: list[dict[str, Json]] | None = None
    turns: list[TurnShape] | None = Field(default=None, min_length=1)
    labels: list[_Text] | None = None
    rubrics: Rubrics | None = None


def _case_of(raw: Json, complaints: Complaints, at: TreePath = ()) -> Case | None:
    """One test case; None if it has problems, which are noted."""
    _about_turns(raw, complaints, at)
    shape = complaints.shaped(raw, CaseShape, at=at)
    if shape is None:
        return None
    complaints.named(shape.name or "", at=at)
    whole = _turn(shape)
    turns = tuple(map(_turn, shape.turns)) if shape.turns else (replace(whole, extras={}),)
    return Case(
        name=shape.name or "",
        turns=turns,
        labels=tuple(shape.labels or ()),
        rubrics=rubrics(shape.rubrics),
        extras=whole.extras,
    )


def _about_turns(raw: Json, complaints: Complaints, at: TreePath) -> None:
    """Having both an `input` and `turns`, or neither, is a problem."""
    case = mapped(raw)
    if "turns" not in case:
        if case.get("input") is None and isinstance(raw, dict):
            complaints.add("there is neither 'input' nor 'turns'", at=at, remedy="add one")
        return
    for key in ("input", "ground_truth", "expected_tools", "files", "retrieval_context"):
        if key in case:
            message = f"{key!r} cannot be used with 'turns'"
            complaints.add(message, at=(*at, key), remedy="move it into a turn")
    if case["turns"] is None:
        complaints.add("expected a list, found nothing", at=(*at, "turns"))


def _turn(shape: TurnShape | CaseShape) -> Turn:
    return Turn(
        input=shape.input or "",
        expected=shape.ground_truth,
        context=tuple(shape.retrieval_context or ()),
        expected_tools=expected_tools(shape.expected_tools),
        attachments=_attachments(shape.files),
        settings=(shape.turn_config or {}) if isinstance(shape, TurnShape) else {},
        extras={} if shape.evaluations is None else {"evaluations": [*shape.evaluations]},
    )


CASES, CASES_FILE = "test_cases", "test_cases_file"


def read_test_cases(path: Path, read_named: Callable[[Path], CaseFile]) -> CaseFile:
    """Read a list of test cases, `{test_cases: […]}`, or the cases file of an agent.

    `read_named` reads a cases file in another format.
    """
    return cases_in(read_tree(path), read_named)


def cases_in(tree: YamlTree, read_named: Callable[[Path], CaseFile]) -> CaseFile:
    """The cases of a parsed file."""
    if isinstance(tree.data, dict) and CASES_FILE in tree.data:
        named = _path_named_in(tree)
        if named.suffix.lower() not in (".yaml", ".yml", ".json"):
            return read_named(named)
        held = read_tree(named)
        keys = mapped(held.data).keys()
        # JSON may hold an EvalSet as well.
        maybe_set = named.suffix.lower() == ".json" and isinstance(held.data, dict)
        if maybe_set and keys.isdisjoint((CASES, CASES_FILE)):
            return read_named(named)
        if CASES_FILE in keys:
            message = f"{held.path.name} names another file of cases"
            where = f"{tree.path.name} {CASES_FILE}"
            remedy = "name the file with the cases"
            raise ConfigError([Problem(message=message, where=where, remedy=remedy)])
        tree = held
    complaints = Complaints.about(tree)
    entries, at = _list_in(tree.data, complaints)
    cases = [_case_of(raw, complaints, (*at, index)) for index, raw in enumerate(entries)]
    if len(entries) > 1000:
        message = f"expected at most 1000 cases, found {len(entries)}"
        complaints.add(message, at=at, remedy="split the file, or use JSONL")
    complaints.settle()
    return CaseFile(cases=tuple(case for case in cases if case))


def _list_in(data: Json, complaints: Complaints) -> tuple[list[Json], TreePath]:
    at: TreePath = (CASES,) if isinstance(data, dict) and CASES in data else ()
    held = data[CASES] if isinstance(data, dict) and CASES in data else data
    if isinstance(held, list):
        return held, at
    if isinstance(held, dict) and not at:
        likely = next((key for key in held if nearest(key, [CASES])), None)
        remedy = f"did you misspell it as {likely!r}?" if likely else "add it"
        complaints.add(f"there is no {CASES!r}", remedy=remedy)
    elif held is None:
        complaints.add("the file is empty" if not at else "there are no cases", at=at)
    else:
        complaints.add(f"expected a list of cases, found {shown(held)}", at=at)
    return [], at


def _path_named_in(tree: YamlTree) -> Path:
    data = mapped(tree.data)
    complaints = Complaints.about(tree)
    named = data[CASES_FILE]
    if CASES in data:
        message = f"{CASES!r} and {CASES_FILE!r} are both given"
        complaints.add(message, at=(CASES_FILE,), remedy="keep one of them")
    if not isinstance(named, str):
        complaints.add(f"expected a path, found {shown(named)}", at=(CASES_FILE,))
    complaints.settle()
    return tree.path.parent / str(named)
