"""The blackboard: notes that workers leave for each other and for the manager."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from burnish.core.content import Json
from burnish.delegation.answers import bullets
from burnish.delegation.tools import ToolRefused, WorkerTool, text_schema
from burnish.models.chat import ToolSpec

POST, READ = "board_post", "board_read"
_MOST_NOTED = 4000
"""Characters of one note."""


@dataclass(frozen=True, kw_only=True)
class BoardNote:
    """What one worker noted."""

    worker_id: str
    iteration: int
    text: str

    @property
    def line(self) -> str:
        return f"{self.worker_id} (iteration {self.iteration}): {self.text}"


@dataclass(kw_only=True)
class Blackboard:
    """The notes of a run, in order.

    Workers that run at once each have a branch of it, and see the notes of the others when all have
    ended: what one of them reads must not depend on which is faster.
    """

    notes: list[BoardNote] = field(default_factory=list[BoardNote])

    def branch(self) -> "Blackboard":
        return Blackboard(notes=list(self.notes))

    def text(self) -> str:
        return bullets([note.line for note in self.notes], empty="")

    def tools(self) -> dict[str, WorkerTool]:
        """The tools by name."""
        post = ToolSpec(
            name=POST,
            description="Leave a note for the other workers and the manager.",
            parameters=text_schema(["text"], text="the note, short"),
        )
        read = ToolSpec(
            name=READ,
            description="Read the notes that workers have left.",
            parameters=text_schema([]),
        )
        return {POST: _BoardTool(spec=post, board=self), READ: _BoardTool(spec=read, board=self)}


@dataclass(frozen=True, kw_only=True)
class _BoardTool:
    """Checks a note, or shows all; a note is added when its step has ended, also on a replay."""

    spec: ToolSpec
    board: Blackboard
    only_looks: bool = True

    async def use(self, arguments: Mapping[str, Json]) -> str:
        if self.spec.name == READ:
            return self.board.text() or "(no notes)"
        text = arguments.get("text")
        if not isinstance(text, str) or not text.strip():
            raise ToolRefused("'text' must be a text that is not empty")
        if len(text) > _MOST_NOTED:
            raise ToolRefused(f"a note has at most {_MOST_NOTED:,} characters: write a file")
        return "noted"
