"""What the settings of back-propagation speak of must be there: checked before anything is paid."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from burnish.core.cases import Dataset
from burnish.core.protocols import Metric, Target
from burnish.core.structures import Structured
from burnish.projects.backprop_block import BackpropBlock
from burnish.projects.gathering import Gathering, Keys
from burnish.system.config_words import nearest

_LISTED = 12
"""Names that are listed where none is near."""


@dataclass(frozen=True, kw_only=True)
class BackpropChecks:
    """What a block may speak of."""

    block: BackpropBlock
    at: Keys
    """Where the block stands."""
    wrong: Gathering

    def surfaces(self, known: Sequence[str]) -> None:
        """The targets are surfaces."""
        for place, name in enumerate(self.block.targets):
            self._known(name, known, "surface", ("targets", place))

    def nodes(self, target: Target) -> None:
        """The nodes where losses begin are there, as far as the target can tell."""
        if not isinstance(target, Structured):
            return
        known = [node.id for node in target.structure.nodes]
        for metric, node in self.block.loss_targets.items():
            self._known(node, known, "node", ("loss_targets", metric))

    def metrics(self, metrics: Sequence[Metric]) -> None:
        """The metrics that floors, hints and loss targets name are measured."""
        known = [metric.name for metric in metrics]
        for name in self.block.guards.floors:
            self._known(name, known, "metric", ("guards", "floors", name))
        for name in self.block.loss_targets:
            self._known(name, known, "metric", ("loss_targets", name))
        for place, hint in enumerate(self.block.loss_hints):
            self._known(hint.metric, known, "metric", ("loss_hints", place, "metric"))

    def cases(self, dataset: Dataset) -> None:
        """Hints are about cases of train, protected cases are of holdout."""
        train, holdout = ([case.id for case in cases] for cases in (dataset.train, dataset.holdout))
        for place, hint in enumerate(self.block.loss_hints):
            self._known(hint.case, train, "case of train", ("loss_hints", place, "case"))
        for place, name in enumerate(self.block.guards.protected):
            self._known(name, holdout, "case of holdout", ("guards", "protected", place))

    def _known(self, name: str, known: Sequence[str], what: str, at: Keys) -> None:
        if name not in known:
            self.wrong.add((*self.at, *at), f"there is no {what} '{name}'", near(name, known))


def near(name: str, known: Sequence[str]) -> str:
    """What was probably meant, else all there is, as far as it can be listed."""
    meant = next(iter(_ending(name, known)), None) or nearest(name, known)
    if meant is not None:
        return f"did you mean '{meant}'?"
    shown = ", ".join(known[:_LISTED]) or "none"
    return f"there are: {shown}{', …' if len(known) > _LISTED else ''}"


def _ending(name: str, known: Iterable[str]) -> Iterable[str]:
    """Most often the graph's name is left out."""
    return (each for each in known if each.endswith(f"/{name}"))
