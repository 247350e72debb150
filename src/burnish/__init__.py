"""burnish makes AI agents measurably better, and proves it.

Names load when they are first used, so that importing burnish costs nothing.
"""

import os
from typing import TYPE_CHECKING

from burnish.lazy_names import lazy_names
from burnish.version import VERSION

if TYPE_CHECKING:
    from burnish.compat.eval_sets import AgentEvaluator
    from burnish.compat.optimizer.entry import AgentOptimizer
    from burnish.compat.promptiter import PromptIterEngine
    from burnish.core.cases import Case, Dataset, Outcome, Split, Turn
    from burnish.core.comparisons import Pair
    from burnish.core.errors import BurnishError, NotImproved, Problem, RoleFailed, RollbackError
    from burnish.core.evaluations import (
        Constraint,
        Evaluation,
        Objective,
        Penalties,
        Score,
        TieBreaker,
    )
    from burnish.core.gates import improves_on_minibatch, min_gain, sigma, strict
    from burnish.core.money import Spend
    from burnish.core.protocols import (
        Call,
        Description,
        Effects,
        Metric,
        Receipt,
        Role,
        Scope,
        Target,
    )
    from burnish.core.surfaces import (
        Candidate,
        ChoiceSurface,
        DemosSurface,
        FileSurface,
        NumberSurface,
        Origin,
        TextSurface,
    )
    from burnish.core.trials import SplitResult, Trial
    from burnish.journal.limits import Budget
    from burnish.projects.evaluate_call import aevaluate, evaluate
    from burnish.projects.measurements import Evaluated
    from burnish.projects.optimize_call import aoptimize, aoptimize_text, optimize, optimize_text
    from burnish.projects.result import Result
    from burnish.runs.case_work import CasePolicy
    from burnish.runs.driver import Ending
    from burnish.runs.run import Run
    from burnish.runs.setup import Setup, Strategy
    from burnish.targets.graph import Graph, graph
    from burnish.targets.prompts import TargetPrompt
    from burnish.targets.user_code import prompt, prompts_folder
    from burnish.tracing import OpenStep, carry, step, traced

# Or pydantic-ai writes ten lines of its own over the first live view. Set here, before anything
# can import it: every door comes through this file, and child processes inherit it.
os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")

__version__ = VERSION

_HOMES = {
    "compat.eval_sets": ("AgentEvaluator",),
    "compat.optimizer.entry": ("AgentOptimizer",),
    "compat.promptiter": ("PromptIterEngine",),
    "core.cases": ("Case", "Dataset", "Outcome", "Split", "Turn"),
    "core.comparisons": ("Pair",),
    "core.errors": ("BurnishError", "NotImproved", "Problem", "RoleFailed", "RollbackError"),
    "core.evaluations": (
        "Constraint",
        "Evaluation",
        "Objective",
        "Penalties",
        "Score",
        "TieBreaker",
    ),
    "core.gates": ("improves_on_minibatch", "min_gain", "sigma", "strict"),
    "core.money": ("Spend",),
    "core.protocols": (
        "Call",
        "Description",
        "Effects",
        "Metric",
        "Receipt",
        "Role",
        "Scope",
        "Target",
    ),
    "core.surfaces": (
        "Candidate",
        "ChoiceSurface",
        "DemosSurface",
        "FileSurface",
        "NumberSurface",
        "Origin",
        "TextSurface",
    ),
    "core.trials": ("SplitResult", "Trial"),
    "journal.limits": ("Budget",),
    "projects.evaluate_call": ("aevaluate", "evaluate"),
    "projects.measurements": ("Evaluated",),
    "projects.optimize_call": ("aoptimize", "aoptimize_text", "optimize", "optimize_text"),
    "projects.result": ("Result",),
    "runs.case_work": ("CasePolicy",),
    "runs.driver": ("Ending",),
    "runs.run": ("Run",),
    "runs.setup": ("Setup", "Strategy"),
    "targets.user_code": ("prompt", "prompts_folder"),
    "targets.graph": ("Graph", "graph"),
    "targets.prompts": ("TargetPrompt",),
    "tracing": ("OpenStep", "carry", "step", "traced"),
}

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
    "Evaluated",
    "Evaluation",
    "FileSurface",
    "Graph",
    "Metric",
    "NotImproved",
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
    "Result",
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
    "aevaluate",
    "aoptimize",
    "aoptimize_text",
    "carry",
    "evaluate",
    "graph",
    "improves_on_minibatch",
    "min_gain",
    "optimize",
    "optimize_text",
    "prompt",
    "prompts_folder",
    "sigma",
    "step",
    "strict",
    "traced",
]

__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
