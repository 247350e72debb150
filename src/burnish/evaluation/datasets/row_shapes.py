"""The shape of a row: one case as a JSON object, with the names that people give its parts.

A row holds any case. What it may say, with other names that are understood:

    name            id
    input           question, prompt, query
    expected        ground_truth, answer, reference, output, expected_output
    context         retrieval_context: a list of passages, or one
    labels          label: a list, or one
    expected_tools  names, or {name, args, count}
    files           {type, path or url or data with name, description, pages, sheet, range,
                    cache, options}; data is the file itself in base64
    expected_calls  {name, arguments, result, error, id, passages}
    metrics         the metrics that look at it
    settings        turn_config: what graders are told
    turns           for several turns: a list of mappings with all of the above, name and
                    labels aside, and `extras`
    history         {role, content, images, uses, answers, tool}: what was said before
    rubrics         texts, or {id, text, description, kind, metric}
    scenario        {plan, stop_signal, max_turns}: a model plays the user from here on
    recorded        an outcome, where the case is scored as it stands
    evaluations     metrics of this case alone, kept as they are
    extras          what a file says beyond all this

Any other column is a setting, since graders are who may want it.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictInt

from burnish.core.cases import Attachment, Scenario
from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.messages import Message
from burnish.core.outcomes import Outcome, ToolCall
from burnish.evaluation.datasets.case_shapes import FILE_OPTIONS, Rubrics, Shape, Tools


def _number_as_text(value: object) -> object:
    """Numbers are common as ids and answers in rows that programs write."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _one_as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


RowText = Annotated[str, BeforeValidator(_number_as_text)]
Texts = Annotated[list[str], BeforeValidator(_one_as_list)]


class RowFileShape(Shape):
    """A file that goes with what is said, of any kind."""

    type: str
    path: str = ""
    url: str = ""
    data: str = ""
    name: str = ""
    description: str = ""
    pages: Json = None
    sheet: Json = None
    range: Json = None
    cache: Json = None
    options: dict[str, Json] | None = None

    def attachment(self) -> Attachment:
        """The file as a case holds it."""
        named = self.model_dump(include=set(FILE_OPTIONS), exclude_none=True)
        return Attachment(
            kind=self.type,
            path=self.path,
            url=self.url,
            data=self.data,
            name=self.name,
            description=self.description,
            options={**(self.options or {}), **named},
        )


class CallShape(Shape):
    """One use of a tool."""

    name: str
    arguments: dict[str, Json] | None = None
    result: Json = None
    error: str = ""
    id: str = ""
    passages: list[str] | None = None

    def call(self) -> ToolCall:
        """The call as a case holds it."""
        return ToolCall(
            name=self.name,
            arguments=self.arguments or {},
            result=self.result,
            error=self.error,
            id=self.id,
            passages=tuple(self.passages or ()),
        )


class PictureShape(Shape):
    """A picture that goes with what was said."""

    media_type: str
    base64: str


class UseShape(Shape):
    """A model's wish to use a tool."""

    id: str
    name: str
    arguments: dict[str, Json] = Field(default_factory=dict[str, Json])


class SaidShape(Shape):
    """One thing said before the first turn."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    images: list[PictureShape] = Field(default_factory=list[PictureShape])
    uses: list[UseShape] = Field(default_factory=list[UseShape])
    answers: str = ""
    tool: str = ""
    verbatim: Json = None

    def message(self) -> Message:
        """It as a case holds it."""
        return codec(Message).decode(self.model_dump())


class PlayedShape(Shape):
    """A conversation whose user is played."""

    plan: str
    stop_signal: str = ""
    max_turns: StrictInt | None = None

    def scenario(self) -> Scenario:
        """It as a case holds it."""
        return Scenario(plan=self.plan, stop_signal=self.stop_signal, max_turns=self.max_turns)


class RowTurnShape(Shape):
    """One turn, in a row or in its `turns`."""

    input: RowText
    expected: RowText | None = None
    context: Texts | None = None
    expected_tools: Tools | None = None
    files: list[RowFileShape] | None = None
    expected_calls: list[CallShape] | None = None
    metrics: Texts | None = None
    settings: dict[str, Json] | None = None
    extras: dict[str, Json] | None = None


class RowShape(Shape):
    """What a row says of its case, beside the one turn that it may hold itself."""

    name: RowText = ""
    labels: Texts | None = None
    turns: list[RowTurnShape] = Field(min_length=1)
    history: list[SaidShape] | None = None
    rubrics: Rubrics | None = None
    scenario: PlayedShape | None = None
    recorded: Outcome | None = None
    evaluations: list[Json] | None = None
    extras: dict[str, Json] | None = None
