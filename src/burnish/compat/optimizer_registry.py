"""The algorithms that an optimizer.json can name."""

from collections.abc import Mapping

from burnish.compat.optimizer_base import BaseOptimizer
from burnish.compat.optimizer_errors import WrongInput
from burnish.compat.optimizer_reflective import ReflectiveOptimizer
from burnish.core.errors import Problem
from burnish.projects.prompts.optimizer_config import BUILT_IN


class OptimizerRegistry:
    """Algorithms by name: those of burnish, and those that programs add."""

    def __init__(self, built_in: Mapping[str, type[BaseOptimizer]]) -> None:
        self._built_in = dict(built_in)
        self._added: dict[str, type[BaseOptimizer]] = {}

    def register(self, name: str, algorithm: type[BaseOptimizer]) -> None:
        """Let `optimize.algorithm.name` be `name`; the same name again replaces what it was."""
        if not (isinstance(algorithm, type) and issubclass(algorithm, BaseOptimizer)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the algorithm '{name}' must be a subclass of BaseOptimizer")
        if not name or name in self._built_in:
            remedy = "choose another name"
            taken = f"'{name}' is an algorithm of burnish" if name else "an algorithm needs a name"
            raise WrongInput([Problem(where="name", message=taken, remedy=remedy)])
        self._added[name] = algorithm

    def get(self, name: str) -> type[BaseOptimizer]:
        """The algorithm of a name."""
        found = self._built_in.get(name) or self._added.get(name)
        if found is None:
            known = f"there are: {', '.join(self.names())}"
            told = f"no algorithm '{name}'"
            raise WrongInput([Problem(where="optimize.algorithm.name", message=told, remedy=known)])
        return found

    def names(self) -> list[str]:
        """All names."""
        return sorted({*self._built_in, *self._added})


OPTIMIZER_REGISTRY = OptimizerRegistry(dict.fromkeys(BUILT_IN, ReflectiveOptimizer))
"""Where programs add algorithms of their own."""
