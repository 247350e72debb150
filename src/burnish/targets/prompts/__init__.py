"""Agents that are called, with texts of theirs to edit: prompts in files or behind callbacks.

Two ways: in `source` mode a candidate's texts are written where the agent reads them, one candidate
at a time, and put back however it ends; in `isolated` mode nothing of the user's is written.
"""

from burnish.core.errors import RollbackError
from burnish.targets.prompts.target import PromptsTarget
from burnish.targets.prompts.target_prompt import TargetPrompt, write_back

__all__ = ["PromptsTarget", "RollbackError", "TargetPrompt", "write_back"]
