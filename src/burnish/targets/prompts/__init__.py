"""Called agents whose prompts can be edited, in files or behind callbacks.

In `source` mode a candidate's texts are written where the agent reads them, one candidate at a
time, and restored at the end; in `isolated` mode none of the user's files is written.
"""

from burnish.core.errors import RollbackError
from burnish.targets.prompts.target import PromptsTarget
from burnish.targets.prompts.target_prompt import TargetPrompt, write_back

__all__ = ["PromptsTarget", "RollbackError", "TargetPrompt", "write_back"]
