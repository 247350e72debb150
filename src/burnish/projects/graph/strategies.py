"""How a graph is searched: back-propagation, reflection, or coordinate descent."""

from dataclasses import dataclass, replace

from burnish.core.cases import Dataset
from burnish.core.errors import Problem
from burnish.core.protocols import Metric
from burnish.effects.budget import Budget
from burnish.models.calling import ModelClient
from burnish.models.model_block import ModelBlock
from burnish.models.references import ModelRef
from burnish.projects.agent_files import agent_judge
from burnish.projects.backprop_block import PROPOSER, ROLES
from burnish.projects.backprop_checks import BackpropChecks
from burnish.projects.backprop_roles import proposers_of
from burnish.projects.called_parts import CalledParts
from burnish.projects.gathering import Keys
from burnish.projects.graph.graph_file import GraphFile, GraphOptimizerBlock
from burnish.projects.graph.surfaces import GraphSurfaces
from burnish.projects.loading import Given
from burnish.projects.overrides import flag_of
from burnish.projects.prompts.bounds import too_small
from burnish.projects.prompts.roles import reflector_of, writers_by
from burnish.projects.prompts.strategies import Searching
from burnish.projects.reflective_block import ending
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.strategies.reflective.strategy import Reflective
from burnish.targets.graph import GraphTarget
from burnish.targets.graph.nodes import AgentNode

AT: Keys = ("optimizer",)
BACKPROP, REFLECTIVE, COORDINATE = Backprop.name, Reflective.name, Coordinate.name
STRATEGIES = (BACKPROP, REFLECTIVE, COORDINATE)
_USUAL = CoordinateSettings()
_OF_COORDINATE = ("max_cycles", "numeric_max_trials", "numeric_patience", "textual_max_trials",
                  "textual_patience", "critic", "applier")  # fmt: skip
_FLAGS = {
    BACKPROP: {"max_rounds", "accept_sigma"},
    REFLECTIVE: {"reflector"},
    COORDINATE: {*_OF_COORDINATE, "accept_sigma"},
}
"""By strategy, the flags that not every strategy has a use for."""


@dataclass(frozen=True, kw_only=True)
class GraphSearch:
    """Makes the search that a graph file asks for; what is wrong is kept in `parts`."""

    given: Given
    file: GraphFile
    block: GraphOptimizerBlock
    parts: CalledParts
    target: GraphTarget
    surfaces: GraphSurfaces
    dataset: Dataset
    metrics: tuple[Metric, ...]

    def made(self) -> Searching | None:
        """The search; None where it cannot be."""
        flags = self.given.flags
        name = flags.choose("strategy", self.block.strategy, self.given.environment, BACKPROP)
        ways = {
            BACKPROP: self._backprop,
            REFLECTIVE: self._reflective,
            COORDINATE: self._coordinate,
        }
        if name not in ways:
            remedy = f"there are: {', '.join(STRATEGIES)}"
            self._wrong("strategy", f"no strategy '{name}' for graphs", remedy)
            return None
        self._refuse_idle(name)
        return ways[name]()

    def _refuse_idle(self, strategy: str) -> None:
        """A flag that would do nothing is more likely a mistake than a wish."""
        others = {flag for flags in _FLAGS.values() for flag in flags} - _FLAGS[strategy]
        for flag in sorted(others):
            if getattr(self.given.flags, flag) is not None:
                users = [name for name, flags in _FLAGS.items() if flag in flags]
                message = f"the strategy '{strategy}' has no use for it"
                remedy = f"leave it out, or take --strategy {' or '.join(users)}"
                problem = Problem(where=flag_of(flag), message=message, remedy=remedy)
                self.parts.wrong.problems.append(problem)

    def _backprop(self) -> Searching | None:
        repeats, flags = self._repeats(1), self.given.flags
        told = {"max_rounds": flags.max_rounds, "accept_sigma": flags.accept_sigma}
        said = {name: value for name, value in told.items() if value is not None}
        block = self.block.model_copy(update=said)
        checks = BackpropChecks(block=block, at=AT, wrong=self.parts.wrong)
        checks.nodes(self.target)
        checks.metrics(self.metrics)
        checks.cases(self.dataset)
        found = {role: self._model(role) for role in (PROPOSER, *ROLES)}
        named = {role: ref for role, ref in found.items() if ref is not None}
        lacking = any(role not in named for role in ROLES)
        shared = named.get(PROPOSER) or (self._first_model(PROPOSER) if lacking else None)
        if lacking and shared is None:
            return None
        proposers = self.parts.wrong.of(
            (*AT, PROPOSER),
            lambda: proposers_of(named, shared, self.parts.models, self.parts.folder),
            None,
        )
        if proposers is None:
            return None
        strategy = proposers.strategy(block.settings(repeats=repeats))
        return self._searching(strategy, repeats, proposers.patcher.client)

    def _reflective(self) -> Searching | None:
        repeats = self._repeats(1)
        settings = self.block.reflective.settings(repeats=repeats, fields=self.surfaces.texts())
        budget, notes = ending(self._budget())
        small = too_small(budget, self.dataset, settings, test_repeats=repeats)
        if small is not None and not self.given.flags.baseline_only:
            where = self.parts.wrong.place(("budget", "max_metric_calls"))
            self.parts.wrong.problems.append(replace(small, where=where))
        ref = self._model("reflector") or self._model(PROPOSER) or self._first_model("reflector")
        if ref is None:
            return None
        role = self.parts.wrong.of(
            (*AT, "reflector"),
            lambda: reflector_of(ref, self.parts.models, self.parts.folder),
            None,
        )
        if role is None:
            return None
        made = self._searching(Reflective(reflector=role, settings=settings), repeats, role.client)
        return replace(made, budget=budget, notes=(*notes, *self._left_out(numbers=True)))

    def _coordinate(self) -> Searching | None:
        repeats = self._repeats(_USUAL.repeats)
        first = self._model("critic") or self._model(PROPOSER) or self._first_model("critic")
        if first is None:
            return None
        second = self._model("applier") or first
        writers = self.parts.wrong.of(
            (*AT, "critic"),
            lambda: writers_by(first, second, self.parts.models, self.parts.folder),
            None,
        )
        if writers is None:
            return None
        strategy = Coordinate(
            settings=self._phases(repeats), critic=writers.critic, applier=writers.applier
        )
        made = self._searching(strategy, repeats, writers.applier.client)
        return replace(made, notes=tuple(self._left_out(numbers=False)))

    def _phases(self, repeats: int) -> CoordinateSettings:
        """The settings of the file after flags; numbers are searched where there are some."""
        flags, said, usual = self.given.flags, self.block.coordinate, _USUAL.numeric_phase
        told = {
            "accept_sigma": flags.accept_sigma,
            "max_cycles": flags.max_cycles,
            "max_trials": flags.textual_max_trials,
            "patience": flags.textual_patience,
        }
        block = said.model_copy(update={k: v for k, v in told.items() if v is not None})
        numeric = PhaseLimits(
            max_trials=flags.numeric_max_trials or usual.max_trials,
            patience=flags.numeric_patience or usual.patience,
        )
        settings = block.settings(repeats=repeats, fields=self.surfaces.texts())
        return settings.model_copy(
            update={"numbers": self.surfaces.numbers(), "numeric_phase": numeric}
        )

    def _left_out(self, *, numbers: bool) -> list[str]:
        """What this strategy does not look at.

        Coordinate descent takes demonstrations from train cases, whose question and answer are
        those of the whole graph: they show no single node what to do.
        """
        left = [*self.surfaces.others(), *(self.surfaces.numbers() if numbers else ())]
        return [f"left as they are by this strategy: {', '.join(left)}"] if left else []

    def _searching(self, strategy: Backprop | Reflective | Coordinate, repeats: int,
                   client: ModelClient) -> Searching:  # fmt: skip
        return Searching(strategy=strategy, budget=self._budget(), repeats=repeats, client=client)

    def _budget(self) -> Budget:
        return self.file.budget.budget(self.given.flags, self.given.environment)

    def _repeats(self, usual: int) -> int:
        whole = self.file.repeats if "repeats" in self.file.model_fields_set else None
        in_file = self.block.repeats or whole
        return self.given.flags.choose("repeats", in_file, self.given.environment, usual)

    def _model(self, role: str) -> ModelRef | None:
        block: ModelBlock | None = getattr(self.block, role)
        told = (self.given.flags, self.given.environment)
        flag, weaker = (getattr(each, role, None) for each in told)
        if flag is None and block is not None:
            return self.parts.wrong.of((*AT, role), block.reference, None)
        said = flag or weaker
        if said is None:
            return None
        return self.parts.wrong.as_told(lambda: ModelRef.parse(said), None)

    def _first_model(self, role: str) -> ModelRef | None:
        """The model of the first agent, where it is strong enough to write."""
        nodes = (n for n in self.target.graph.nodes.values() if isinstance(n, AgentNode))
        first = next(nodes, None)
        if first is not None and first.agent.block.model.provider != "local":
            return agent_judge(first.agent)
        told = "there is no agent whose model could write texts"
        if first is not None:
            told = "the graph's own model is a local one, and writing texts takes a stronger one"
        self._wrong(role, told, f"name one: {role}: openai:gpt-4o, or --{role} MODEL")
        return None

    def _wrong(self, key: str, message: str, remedy: str) -> None:
        self.parts.wrong.add((*AT, key), message, remedy)
