"""What a command may say that is stronger than a workflow file."""

from burnish.core.content import Json
from burnish.models.model_block import ModelBlock
from burnish.system.settings import AboveZero, AtLeastOne, Settings


class WorkflowOverrides(Settings):
    """What a command may say that is stronger than the file."""

    manager: str | ModelBlock | None = None
    """Models: `provider:name` at the address of the one whose place it takes, or a block."""
    worker: str | ModelBlock | None = None
    critic: str | ModelBlock | None = None
    judge: str | ModelBlock | None = None
    max_loops: AtLeastOne | None = None
    max_total_workers: AtLeastOne | None = None
    max_total_tokens: AtLeastOne | None = None
    max_wall_time: AboveZero | None = None
    max_tool_calls: AtLeastOne | None = None
    max_depth: AtLeastOne | None = None

    def to_json(self) -> dict[str, Json]:
        """What was said."""
        return self.model_dump(mode="json", exclude_none=True)
