"""Everything a run is made of, checked before anything is written or paid."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from burnish.core.cases import Split
from burnish.core.codec import codec
from burnish.core.content import short_id
from burnish.core.effects import KEY_SCHEMA
from burnish.core.errors import ConfigError, PriceUnknown, Problem, TargetMismatch
from burnish.core.leaks import LeakWatch
from burnish.core.objectives import Objective
from burnish.runs.conditions import Conditions
from burnish.runs.evaluating import CasePolicy
from burnish.runs.strategy import Strategy
from burnish.version import VERSION


@runtime_checkable
class KnowsSecrets(Protocol):
    """Something that was given keys, and knows their values."""

    def secrets(self) -> Sequence[str]:
        """What may not be kept anywhere."""
        ...


@dataclass(frozen=True, kw_only=True)
class Setup(Conditions):
    """What to optimise, on which cases, by which measure, how, and how far."""

    strategy: Strategy

    def secrets(self) -> list[str]:
        """The keys that anything here was given."""
        known = [each for each in self.resources if isinstance(each, KnowsSecrets)]
        return [secret for each in known for secret in each.secrets()]

    def inputs(self) -> dict[str, str]:
        """Hashes of everything that decides what happens; budgets and concurrency do not."""
        return {
            "target": self.target.description.fingerprint,
            "baseline": self.target.baseline.id,
            "data": self.dataset.fingerprint,
            "metrics": short_id([[m.name, m.fingerprint] for m in self.metrics]),
            "objective": short_id(codec(Objective).encode(self.objective)),
            "case policy": short_id(codec(CasePolicy).encode(self.case_policy)),
            "strategy": short_id([self.strategy.name, self.strategy.fingerprint]),
            "role prompts": short_id([[r.name, r.fingerprint] for r in self.strategy.roles]),
            "seed": str(self.seed),
            "test repeats": str(self.test_repeats),
            "key schema": str(KEY_SCHEMA),
            "burnish version": ".".join(VERSION.split(".")[:2]),
        }

    def check(self) -> None:
        """Raise with everything that is wrong, before anything is paid."""
        problems = [*self.dataset.problems(), *self._unknown_metrics(), *self._told_already()]
        if problems:
            raise ConfigError(problems)
        mismatch = self.strategy.mismatch(self.target)
        if mismatch:
            raise TargetMismatch(
                f"the strategy '{self.strategy.name}' cannot run on this target: "
                + "; ".join(map(str, mismatch))
            )
        self._check_prices()

    def _told_already(self) -> list[Problem]:
        """Whoever proposes sees the texts as they are: they may hold nothing of what decides."""
        if not self.strategy.roles:
            return []
        secrets, values = LeakWatch(self.dataset), self.target.baseline.values
        return [
            Problem(
                where=name,
                message=f"the text contains text of case '{case}', which no proposer may see",
                remedy="take the case out of holdout and test, or its text out of this one",
            )
            for name, value in values.items()
            if isinstance(value, str) and (case := secrets.leaked(value)) is not None
        ]

    def _unknown_metrics(self) -> list[Problem]:
        names = {metric.name for metric in self.metrics}
        wanted = {
            "objective": [*self.objective.weights, *(self.objective.required or ())],
            "budget.required_metrics": list(self.budget.required_metrics),
        }
        known = ", ".join(sorted(names)) or "none"
        return [
            Problem(where=where, message=f"no metric '{name}'", remedy=f"there are: {known}")
            for where, asked in wanted.items()
            for name in asked
            if name not in names
        ]

    def _check_prices(self) -> None:
        if self.budget.max_usd is None:
            return
        cases = [case for split in Split for case in self.dataset.cases(split)]
        unpriced = [
            *(["the agent"] if any(self.target.estimate(c).unpriced for c in cases) else []),
            *(m.name for m in self.metrics if any(m.estimate(c).unpriced for c in cases)),
            *(role.name for role in self.strategy.roles if not role.priced),
        ]
        if unpriced:
            raise PriceUnknown(
                f"max_usd is set, but the price of a call is not known for: {', '.join(unpriced)}",
                remedy="give the price, or limit calls or tokens instead of USD",
            )
