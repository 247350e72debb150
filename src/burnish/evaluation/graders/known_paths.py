"""The module paths under which graders written for HoloDeck find their types.

Such graders start with `from holodeck.lib.test_runner.code_grader import …`. Where that
package is installed it is used; where it is not, this stands in for those few modules.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from burnish.evaluation.graders.context import GraderContext, GraderResult, ToolInvocation

_MODULES: dict[str, tuple[type, ...]] = {
    "holodeck": (),
    "holodeck.lib": (),
    "holodeck.lib.test_runner": (),
    "holodeck.lib.test_runner.code_grader": (GraderContext, GraderResult, ToolInvocation),
    "holodeck.models": (),
    "holodeck.models.test_result": (ToolInvocation,),
}


class StandIn(MetaPathFinder, Loader):
    """Makes the known modules; asked last, so that the real package always wins."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a known module."""
        del path, target
        if fullname not in _MODULES:
            return None
        inner = any(name.startswith(f"{fullname}.") for name in _MODULES)
        return ModuleSpec(fullname, self, origin="burnish", is_package=inner)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """An ordinary module."""
        del spec

    def exec_module(self, module: ModuleType) -> None:
        """Give it the names it is known for."""
        for kind in _MODULES[module.__name__]:
            setattr(module, kind.__name__, kind)


def make_importable() -> None:
    """Let graders import what they import today."""
    if not any(isinstance(finder, StandIn) for finder in sys.meta_path):
        sys.meta_path.append(StandIn())
