"""The strategy `shorten`: leave out one sentence at a time, keep what is no worse without it.

Prompts grow, and nobody dares to shorten them. This strategy tries. It asks no model.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from burnish import (
    Candidate,
    Evaluation,
    Origin,
    Pair,
    Problem,
    Role,
    Run,
    Setup,
    Spend,
    Split,
    SplitResult,
    Target,
    TextSurface,
    Trial,
    min_gain,
)
from burnish.core.content import short_id
from burnish.plugins import (
    Access,
    AtLeastOne,
    Building,
    Door,
    Heading,
    RunRecord,
    Section,
    Share,
    StrategyParts,
    StrategyPlugin,
    StrategySettings,
    Table,
    TargetParts,
    plain_report,
)


class ShortenSettings(StrategySettings):
    """How the search goes about it. A field is a key of a file, a flag, a variable."""

    most: Annotated[AtLeastOne, Door(flag="*", http=Access.CLIENT)] = 5
    """Sentences that may be left out."""
    tolerance: Annotated[Share, Door(flag="*")] = 0.0
    """The score on holdout that a shorter prompt may lose."""


@dataclass(frozen=True, kw_only=True)
class Shorten:
    """Goes over the sentences of every text, the last one first."""

    settings: ShortenSettings = field(default_factory=ShortenSettings)
    name: str = "shorten"

    @property
    def fingerprint(self) -> str:
        """Settings and version; a resume is refused when they changed."""
        return short_id([self.name, "version 1", self.settings.model_dump()])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """It asks nobody."""
        return ()

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """It needs a text."""
        if any(isinstance(surface, TextSurface) for surface in target.surfaces):
            return ()
        return (Problem(message="there is no text to shorten"),)

    async def search(self, run: Run) -> None:
        """Propose, check, evaluate, decide, record."""
        if run.stop_reason(self._need(run)) is not None:
            return
        best = run.target.baseline
        score = await self._holdout(run, best)
        run.record(
            Trial(candidate=best, phase="baseline", holdout=SplitResult.of(score, run.objective))
        )
        run.advance(best)
        left_out = 0
        for surface, number in list(_sentences(best)):
            if left_out >= self.settings.most or run.stop_reason(self._need(run)) is not None:
                return
            shorter = _without(best, surface, number)
            result = await self._trial(run, best, score, shorter)
            if result is not None:
                best, score, left_out = shorter, result, left_out + 1

    async def _trial(
        self, run: Run, best: Candidate, score: Evaluation, shorter: Candidate
    ) -> Evaluation | None:
        """The evaluation of a shorter prompt that is kept; None where it is not."""
        touched = tuple(name for name in best.values if best.values[name] != shorter.values[name])
        trial = Trial(candidate=shorter, cycle=1, phase="shorten", touched=touched)
        if problems := await run.check(shorter, parent=best):
            run.record(replace(trial, problems=tuple(problems)))
            return None
        found = await self._holdout(run, shorter)
        pair = Pair(candidate=found, incumbent=score)
        # As good as before is enough, since it is shorter; a gain of less than nothing says so.
        decision = min_gain(
            objective=run.objective, validation=pair, gain=-max(self.settings.tolerance, 1e-6)
        )
        run.record(replace(trial, holdout=SplitResult.of(found, run.objective), decision=decision))
        if not decision.accepted:
            return None
        run.advance(shorter)
        return found

    async def _holdout(self, run: Run, candidate: Candidate) -> Evaluation:
        return await run.evaluate(candidate, split=Split.HOLDOUT, repeats=self.settings.repeats)

    def _need(self, run: Run) -> Spend:
        """What one trial may cost: asked for before it is begun."""
        return run.estimate(Split.HOLDOUT, repeats=self.settings.repeats)


class ShortenPlugin(StrategyPlugin):
    """What the rest of burnish knows of the strategy."""

    name: ClassVar[str] = "shorten"
    Settings: ClassVar[type[StrategySettings]] = ShortenSettings

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        """The strategy, from its settings: files, flags, variables and HTTP have spoken."""
        del parts
        return StrategyParts(strategy=Shorten(settings=building.spec.strategy.settings))

    def plan(self, setup: Setup) -> Iterable[str]:
        """The lines of `--dry-run`."""
        texts = [len(list(_split(str(value)))) for value in setup.target.baseline.values.values()]
        yield f"strategy  shorten, seed {setup.seed}"
        yield f"sentences {sum(texts)}, of which {_strategy(setup).settings.most} may go"
        yield f"holdout   {len(setup.dataset.holdout)} cases decide"
        yield "nothing was paid; leave out --dry-run to start"

    def report(self, run: RunRecord) -> Iterable[Section]:
        """What report.md says: what every run says, and how much shorter the texts are."""
        yield from plain_report(run, self.reason(run))
        if run.baseline is not None and run.best_candidate is not None:
            before, now = run.baseline.trial.candidate.values, run.best_candidate.values
            rows = [(name, len(str(before[name])), len(str(now[name]))) for name in before]
            yield Heading("Length")
            yield Table(
                ("text", "characters before", "now"),
                tuple((name, str(old), str(new)) for name, old, new in rows),
            )


def _strategy(setup: Setup) -> Shorten:
    assert isinstance(setup.strategy, Shorten)
    return setup.strategy


def _split(text: str) -> Iterator[str]:
    """A text as its sentences, each with the space after it."""
    yield from (part for part in re.split(r"(?<=[.!?])(?=\s)", text) if part.strip())


def _sentences(candidate: Candidate) -> Iterator[tuple[str, int]]:
    """Every sentence by its text and its place, the last one first: then places stay true."""
    for name, value in candidate.values.items():
        if isinstance(value, str):
            yield from ((name, number) for number in reversed(range(len(list(_split(value))))))


def _without(candidate: Candidate, surface: str, number: int) -> Candidate:
    parts = list(_split(str(candidate.values[surface])))
    gone = " ".join(parts.pop(number).split())
    origin = Origin(by="shorten", note=f"without “{gone[:40]}”")
    return candidate.child({surface: "".join(parts).strip()}, origin=origin)
