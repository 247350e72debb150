"""Which set, case and step a question of the strategy is about.

The strategy asks its roles without ids, so that no model can make much of them. The stages of
PromptIter are given ids: they are found again in the round under way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from burnish.compat.promptiter.eval_stack import Home
from burnish.core.cases import Case
from burnish.core.content import Json, canonical
from burnish.core.outcomes import Step
from burnish.core.surfaces import Value
from burnish.evaluation.matching.excerpts import without_middle
from burnish.strategies.backprop.losses import trace_of
from burnish.strategies.backprop.packets import SurfaceGradient
from burnish.strategies.backprop.rounds import Round
from burnish.strategies.backprop.step_requests import MOST_CHARS
from burnish.strategies.backprop.wording import BackwardRequest

NOWHERE = Home(eval_set="", case="")


@dataclass(frozen=True, kw_only=True)
class Found:
    """Where a step is; empty where more than one could be meant."""

    home: Home = NOWHERE
    step: str = ""


@dataclass(kw_only=True)
class Whereabouts:
    """The round under way, and what can be found in it."""

    homes: Mapping[str, Home]
    cases: Mapping[str, Case]
    round: Round | None = None
    _seen: dict[str, list[tuple[str, Step]]] = field(
        default_factory=dict[str, list[tuple[str, Step]]]
    )
    """The steps of the round, with their cases, by node."""

    def enter(self, found: Round) -> None:
        """Take in a round, or what more is known of it."""
        if self.round is None or self.round.number != found.number:
            self._seen = {}
            for case, step in self._steps(found):
                self._seen.setdefault(step.node, []).append((case, step))
        self.round = found

    def step(self, request: BackwardRequest) -> Found:
        """The step that a request is about."""
        before = {step.id for step in request.predecessors}
        same = {
            (case, step.id)
            for case, step in self._seen.get(request.node, [])
            if before <= set(step.predecessors)
            and request.input == _shown(step.input)
            and request.output == _shown(step.output)
        }
        if len(same) != 1:
            return Found()
        case, step = same.pop()
        return Found(home=self.homes.get(case, NOWHERE), step=step)

    def gradients(self, surface: str) -> list[SurfaceGradient]:
        """What was said of a surface, in the order in which the aggregator is asked."""
        found = self.round.gradients if self.round is not None else ()
        return sorted((g for g in found if g.surface == surface), key=lambda g: g.order)

    def value(self, surface: str) -> Value | None:
        """The value that a surface has in this round."""
        return None if self.round is None else self.round.parent.values.get(surface)

    def _steps(self, found: Round) -> Iterator[tuple[str, Step]]:
        for result in found.train.results:
            trace = trace_of(result, self.cases[result.case], tuple(found.parent.values))
            yield from ((result.case, step) for step in trace.steps)


def _shown(value: Json) -> str:
    """A text of a step as the strategy shows it."""
    text = value if isinstance(value, str) else canonical(value).decode()
    return "" if value is None else without_middle(text, MOST_CHARS)
