"""What a command may say that is stronger than a workflow file."""

from burnish.core.content import Json
from burnish.system.settings import AboveZero, AtLeastOne, Settings


class WorkflowOverrides(Settings):
    """What a command may say that is stronger than the file."""

    manager: str | None = None
    """Models, as `provider:name`."""
    worker: str | None = None
    critic: str | None = None
    judge: str | None = None
    max_loops: AtLeastOne | None = None
    max_total_workers: AtLeastOne | None = None
    max_total_tokens: AtLeastOne | None = None
    max_wall_time: AboveZero | None = None
    max_tool_calls: AtLeastOne | None = None
    max_depth: AtLeastOne | None = None

    def to_json(self) -> dict[str, Json]:
        """What was said."""
        return self.model_dump(mode="json", exclude_none=True)
