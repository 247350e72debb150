"""The plan and the lines of back-propagation: what would run, and what each round brought.

Scores, not losses: this strategy is told what to gain, and PromptIter speaks so.
"""

from collections.abc import Iterator, Mapping, Sequence

from burnish.core.cases import Split
from burnish.core.comparisons import amount, tied
from burnish.core.structures import Structured
from burnish.core.words import counted, duration, money, number, padded, spending
from burnish.runs.events import TrialRecorded
from burnish.runs.plans import (
    NOTHING_PAID,
    asking,
    budget_limits,
    case_lines,
    notes,
    reserved,
    role_label,
    surface_words,
    sweeps,
    time_limits,
)
from burnish.runs.progress import ProgressLines, fitted, outcome, shorten_after
from burnish.runs.setup import Setup
from burnish.strategies.backprop.settings import BackpropSettings
from burnish.strategies.backprop.strategy import Backprop

_GATES = {
    "min_gain": "a score on holdout that rises, by {gain:g} or more; a tie is no gain",
    "sigma": "a gain on train of {sigma:g} × its noise, and a holdout that is not worse",
    "strict": "a score on holdout that is better by {sigma:g} × its noise",
}
_NOTE, _WIDEST_NOTE = 24, 36
_REST = 76
"""What a whole line takes beside its note."""


def plan_lines(setup: Setup, strategy: Backprop) -> Iterator[str]:
    """The lines of `--dry-run`."""
    yield from _what(setup, strategy)
    yield from _surfaces(setup, strategy)
    yield from case_lines(setup, strategy.settings.repeats)
    yield from _decision(strategy.settings)
    yield f"limits    {', '.join([*search_limits(setup, strategy), *time_limits(setup)])}"
    yield from _costs(setup, strategy)
    yield from notes(setup)
    yield NOTHING_PAID


def _what(setup: Setup, strategy: Backprop) -> Iterator[str]:
    target = setup.target
    if isinstance(target, Structured):
        structure = target.structure
        nodes, edges = counted(len(structure.nodes), "node"), counted(len(structure.edges), "edge")
        yield f"graph     {nodes}, {edges}, from {structure.entry}"
    else:
        yield f"agent     {target.description.kind}: a graph of one, unless its runs leave steps"
    yield f"strategy  {strategy.name}, seed {setup.seed}"
    for role in strategy.roles:
        yield f"  {role.name:<11} {role_label(role)}".rstrip()
    yield f"score     the mean of {', '.join(setup.objective.weights)}"


def _surfaces(setup: Setup, strategy: Backprop) -> Iterator[str]:
    names, values = strategy.targets(setup.target), setup.target.baseline.values
    yield f"surfaces  {len(setup.target.surfaces)}, {len(names)} may be patched"
    for surface in setup.target.surfaces:
        mark = "*" if surface.id in names else " "
        words = surface_words(surface, values[surface.id])
        yield f"  {mark} {surface.kind:<7} {surface.id}: {words}"


def _decision(settings: BackpropSettings) -> Iterator[str]:
    gate = _GATES[settings.gate].format(gain=settings.min_score_gain, sigma=settings.accept_sigma)
    yield f"accepts   {gate}"
    guards = settings.guards
    if guards.protected:
        yield f"          no protected case gets worse: {', '.join(guards.protected)}"
    if guards.no_new_failures:
        yield "          no case that passed fails"
    for metric, floor in guards.floors.items():
        yield f"          {metric} stays at {floor:g} or more"


def search_limits(setup: Setup, strategy: Backprop) -> list[str]:
    """What ends a search."""
    settings = strategy.settings
    own = [f"max_rounds {settings.max_rounds}"]
    if settings.max_rounds_without_acceptance:
        own.append(f"max_rounds_without_acceptance {settings.max_rounds_without_acceptance}")
    if settings.target_score is not None:
        own.append(f"target_score {settings.target_score:g}")
    return [*own, *budget_limits(setup.budget)]


def _costs(setup: Setup, strategy: Backprop) -> Iterator[str]:
    settings = strategy.settings
    train = sweeps(setup, Split.TRAIN, settings.repeats)
    holdout = sweeps(setup, Split.HOLDOUT, settings.repeats)
    each = holdout + (train if settings.gate == "sigma" else holdout.times(0))
    patches = len(strategy.targets(setup.target)) * settings.candidates_per_round
    yield f"baseline  about {spending(holdout)}"
    yield f"a round   about {spending(train)} on train, nothing where that is known already"
    backward = asking([strategy.backwarder])
    yield f"          + {spending(backward)} per failing case and step, for the backwarder"
    merging = asking([strategy.aggregator]).times(len(strategy.targets(setup.target)))
    yield f"          + up to {spending(merging)} for the aggregator"
    yield f"          + up to {spending(asking([strategy.patcher]).times(patches))} for the patcher"
    many = f", {settings.candidates_per_round} times" if settings.candidates_per_round > 1 else ""
    yield f"          + {spending(each)} to decide{many}"
    yield from reserved(setup)
    yield "          one call for each agent of the graph and turn; cycles and tools take more, and"
    yield "          how many cases fail is not known before"


class BackpropLines(ProgressLines):
    """Rounds by what was patched, in scores."""

    def held(self, trial: TrialRecorded) -> str:
        """What the start has on holdout, as a score."""
        return f"score on hold {number(None if trial.holdout is None else 1 - trial.holdout)}"

    def trial(self, trial: TrialRecorded, width: int) -> str:
        """One candidate of a round in one line."""
        place = "" if trial.index in (None, 1) else f".{trial.index}"
        label = f"[r{trial.cycle}{place}]"
        room = min(_WIDEST_NOTE, max(_NOTE, width - _REST))
        name = f"{label:<6} {padded(touched_words(trial.touched), room)}"
        if not trial.measured:
            return shorten_after(f"{name} {outcome(trial)}  ", trial.reason, width)
        parts = [
            (0, name),
            (2, f"train {number(trial.train_score)} "),
            (0, f"{_held(trial):<26}"),
            (0, f"{outcome(trial):<9}"),
            (3, f"{money(trial.usd):>7}"),
            (4, duration(trial.seconds)),
        ]
        return fitted(parts, width)


def touched_words(surfaces: Sequence[str]) -> str:
    """`planner#instruction +1`: the first surface, without the way to its node."""
    names = [_short(name) for name in surfaces]
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else "—"


def _short(surface: str) -> str:
    """A surface without the names of graphs before its node."""
    node, mark, part = surface.partition("#")
    return f"{node.rpartition('/')[2]}{mark}{part}" if mark else surface


def _held(trial: TrialRecorded) -> str:
    """`hold 0.350→0.810 (▲0.460)`; before is the incumbent."""
    if trial.holdout is None:
        return "hold ——"
    now, before = 1 - trial.holdout, _before(trial.numbers)
    if before is None:
        return f"hold {number(now)}"
    gain = now - before
    sign = "=" if tied(gain) else f"{'▲' if gain > 0 else '▼'}{amount(abs(gain))}"
    return f"hold {number(before)}→{number(now)} ({sign})"


def _before(numbers: Mapping[str, float]) -> float | None:
    """The incumbent's score on holdout as the gate saw it."""
    if (score := numbers.get("best_score_before")) is not None:
        return score
    losses = (numbers.get("best_holdout_mean_before"), numbers.get("primary_before"))
    return next((1 - loss for loss in losses if loss is not None), None)
