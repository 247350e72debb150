"""What an algorithm of AgentOptimizer is: everything it is given, and what it must give back."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from burnish.compat.callbacks import Callbacks
from burnish.projects.prompts.optimizer_config import AnyOptimizerConfig
from burnish.strategies.reflective.result import OptimizeResult
from burnish.targets.prompts import TargetPrompt

if TYPE_CHECKING:
    from burnish.compat.optimizer_showing import Reporter

CallAgent: TypeAlias = Callable[..., Awaitable[str]]


@dataclass(kw_only=True)
class BaseOptimizer(ABC):
    """An algorithm: made for one optimisation, run once.

    What it writes into the prompt fields is put back after it, and what it gives back is written
    to `output_dir`, however it ends.
    """

    config: AnyOptimizerConfig
    """Both sections of the optimizer.json; `config.optimize.algorithm` is the algorithm's own."""
    config_path: str
    call_agent: CallAgent
    target_prompt: TargetPrompt
    train_dataset_path: str
    validation_dataset_path: str
    output_dir: str
    callbacks: Callbacks | None = None
    extra_stop_callbacks: Sequence[Callable[..., bool]] = ()
    extra_gepa_callbacks: Sequence[Any] = ()
    baseline: Mapping[str, str] = field(default_factory=dict[str, str], init=False)
    """What the fields said at the start; known while it runs."""

    @abstractmethod
    async def run(self, *, reporter: "Reporter | None" = None) -> OptimizeResult:
        """Optimise. The reporter, where there is one, has a line to say now and then."""

    @property
    def folder(self) -> Path:
        """`output_dir`."""
        return Path(self.output_dir)

    def best_texts(self, result: OptimizeResult) -> Mapping[str, str]:
        """The best prompts as they may be written into the fields."""
        return result.best_prompts
