"""burnish makes AI agents measurably better, and proves it.

Names load when they are first used, so that importing burnish costs nothing.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burnish.compat.agent_evaluator import AgentEvaluator
    from burnish.compat.agent_optimizer import AgentOptimizer
    from burnish.compat.promptiter import PromptIterEngine
    from burnish.core.candidates import Candidate, Origin
    from burnish.core.cases import Case, Dataset, Split, Turn
    from burnish.core.comparisons import Pair
    from burnish.core.effects import Call, Effects, Receipt, Scope
    from burnish.core.errors import BurnishError, Problem, RoleFailed, RollbackError
    from burnish.core.evaluations import Evaluation
    from burnish.core.gates import improves_on_minibatch, min_gain, sigma, strict
    from burnish.core.money import Spend
    from burnish.core.objectives import Constraint, Objective, Penalties, TieBreaker
    from burnish.core.outcomes import Outcome
    from burnish.core.protocols import Description, Metric, Role, Target
    from burnish.core.scores import Score
    from burnish.core.surfaces import (
        ChoiceSurface,
        DemosSurface,
        FileSurface,
        NumberSurface,
        TextSurface,
    )
    from burnish.core.trials import SplitResult, Trial
    from burnish.effects.budget import Budget
    from burnish.projects.evaluate_api import evaluate
    from burnish.projects.launching import optimize
    from burnish.runs.driving import Ending
    from burnish.runs.evaluating import CasePolicy
    from burnish.runs.run import Run
    from burnish.runs.setup import Setup
    from burnish.runs.strategy import Strategy
    from burnish.targets.given import prompt, prompts_folder
    from burnish.targets.graph import Graph, graph
    from burnish.targets.prompts import TargetPrompt
    from burnish.targets.tracing import OpenStep, carry, step, traced

# Or pydantic-ai writes ten lines of its own over the first live view. Set here, before anything
# can import it: every door comes through this file, and child processes inherit it.
os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")

_HOMES = {
    "compat.agent_evaluator": ("AgentEvaluator",),
    "compat.agent_optimizer": ("AgentOptimizer",),
    "compat.promptiter": ("PromptIterEngine",),
    "core.candidates": ("Candidate", "Origin"),
    "core.cases": ("Case", "Dataset", "Split", "Turn"),
    "core.comparisons": ("Pair",),
    "core.effects": ("Call", "Effects", "Receipt", "Scope"),
    "core.errors": ("BurnishError", "Problem", "RoleFailed", "RollbackError"),
    "core.evaluations": ("Evaluation",),
    "core.gates": ("improves_on_minibatch", "min_gain", "sigma", "strict"),
    "core.money": ("Spend",),
    "core.objectives": ("Constraint", "Objective", "Penalties", "TieBreaker"),
    "core.outcomes": ("Outcome",),
    "core.protocols": ("Description", "Metric", "Role", "Target"),
    "core.scores": ("Score",),
    "core.surfaces": (
        "ChoiceSurface",
        "DemosSurface",
        "FileSurface",
        "NumberSurface",
        "TextSurface",
    ),
    "core.trials": ("SplitResult", "Trial"),
    "effects.budget": ("Budget",),
    "projects.evaluate_api": ("evaluate",),
    "projects.launching": ("optimize",),
    "runs.driving": ("Ending",),
    "runs.evaluating": ("CasePolicy",),
    "runs.run": ("Run",),
    "runs.setup": ("Setup",),
    "runs.strategy": ("Strategy",),
    "targets.given": ("prompt", "prompts_folder"),
    "targets.graph": ("Graph", "graph"),
    "targets.prompts": ("TargetPrompt",),
    "targets.tracing": ("OpenStep", "carry", "step", "traced"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AgentEvaluator",
    "AgentOptimizer",
    "Budget",
    "BurnishError",
    "Call",
    "Candidate",
    "Case",
    "CasePolicy",
    "ChoiceSurface",
    "Constraint",
    "Dataset",
    "DemosSurface",
    "Description",
    "Effects",
    "Ending",
    "Evaluation",
    "FileSurface",
    "Graph",
    "Metric",
    "NumberSurface",
    "Objective",
    "OpenStep",
    "Origin",
    "Outcome",
    "Pair",
    "Penalties",
    "Problem",
    "PromptIterEngine",
    "Receipt",
    "Role",
    "RoleFailed",
    "RollbackError",
    "Run",
    "Scope",
    "Score",
    "Setup",
    "Spend",
    "Split",
    "SplitResult",
    "Strategy",
    "Target",
    "TargetPrompt",
    "TextSurface",
    "TieBreaker",
    "Trial",
    "Turn",
    "carry",
    "evaluate",
    "graph",
    "improves_on_minibatch",
    "min_gain",
    "optimize",
    "prompt",
    "prompts_folder",
    "sigma",
    "step",
    "strict",
    "traced",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'burnish' has no attribute '{name}'")
    return getattr(import_module(f"burnish.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
