"""Noisy worlds in which the true gain of every candidate is known exactly.

There is one text. Proposals add a line to it, which helps, harms or changes nothing. In a world
of answers, cases are drawn from a population of kinds: each kind is answered right with a chance
of its own, and a line helps some kinds more than others. In a world of one task, as the files of
a task are, a scorer gives a number that is noisy by itself.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from statistics import fmean, pvariance
from typing import ClassVar, Literal, TypeAlias

from burnish.core.cases import Case, Dataset, Outcome, Step, Trace
from burnish.core.content import stream
from burnish.core.surfaces import Candidate
from burnish.testing.doubles import luck

SURFACE = "text"
START = "Answer the question."
RIGHT = "yes"
KINDS = 200
"""Kinds of cases in the population, all equally frequent."""
_LINE = re.compile(r"^Line (\d{6}) (helps|harms|idles|shifts)\.$", re.MULTILINE)
_SIGNS = {"helps": 1.0, "harms": -1.0, "idles": 0.0, "shifts": 0.0}
_LEAST, _MOST = 0.02, 0.98
_EASE, _SHIFTED_EASE = 0.08, 0.4
"""The chance of the hardest kind at the start; what is shifted needs room both ways."""
_UNEVEN = (0.5, 1.5)
"""How many times its mean a line helps a kind: one or the other, by luck."""

Effect: TypeAlias = Literal["null", "shift", "gain", "power"]
"""`null`: no proposal changes anything. `shift`: each helps half of the kinds and harms the other
half as much. `gain`: some help, some harm, some do neither. `power`: the first proposal helps as
much as must be shown, later ones change nothing."""
_SHARES: dict[Effect, tuple[float, float]] = {"null": (0.0, 0.0), "gain": (0.4, 0.2)}
"""The shares of proposals that help, and that harm."""


@dataclass(frozen=True, kw_only=True)
class TrueGain:
    """What a candidate really gains."""

    here: float
    """On the cases of the claim."""
    everywhere: float
    """In the whole population that these cases were drawn from."""


@dataclass(frozen=True, kw_only=True)
class World(ABC):
    """One run's world: its luck, its cases and what proposals do."""

    EFFECTS: ClassVar[tuple[Effect, ...]]
    """What can be played in worlds of this kind."""
    STEP: ClassVar[float]
    """What a line that helps adds, except in a world of power; one that harms takes it away."""

    effect: Effect
    number: int
    """The number of the run, from which all luck comes."""
    sealed: bool
    """Whether there is a sealed test."""
    help: float
    """What a line that helps adds to the score, in the mean."""

    @abstractmethod
    def dataset(self) -> Dataset:
        """The cases of this run."""

    @abstractmethod
    def respond(self, candidate: Candidate, case: Case, draw: int) -> Outcome:
        """What the agent does."""

    @abstractmethod
    def true_gain(self, text: str, cases: Sequence[Case]) -> TrueGain:
        """What a text really gains over the start."""

    def proposal(self, text: str, *names: object) -> str:
        """The text with another line, which no two proposals have in common."""
        number = int(luck(self.number, "line", text, *names) * 1e6)
        return f"{text}\nLine {number:06d} {self._kind(text, number)}."

    def _kind(self, text: str, number: int) -> str:
        if self.effect == "shift":
            return "shifts"
        if self.effect == "power":
            return "idles" if " helps." in text else "helps"
        helps, harms = _SHARES[self.effect]
        fate = luck(self.number, "kind", number)
        return "helps" if fate < helps else "harms" if fate < helps + harms else "idles"


@dataclass(frozen=True, kw_only=True)
class AnswerWorld(World):
    """Questions that are answered right or wrong, by luck."""

    EFFECTS: ClassVar[tuple[Effect, ...]] = ("null", "shift", "gain", "power")
    STEP: ClassVar[float] = 0.2
    TRAIN: ClassVar[int] = 6
    CLAIM: ClassVar[int] = 16
    """Cases of holdout, and of the sealed test."""

    def dataset(self) -> Dataset:
        rng = stream(self.number, "kinds")
        held, tested = self.TRAIN + self.CLAIM, self.CLAIM if self.sealed else 0
        cases = tuple(_case(place, rng.randrange(KINDS)) for place in range(held + tested))
        return Dataset(
            train=cases[: self.TRAIN], holdout=cases[self.TRAIN : held], test=cases[held:]
        )

    def respond(self, candidate: Candidate, case: Case, draw: int) -> Outcome:
        chance = self._chance(str(candidate.values[SURFACE]), _kind_of(case))
        right = luck(self.number, candidate.id, case.id, draw) < chance
        reply = RIGHT if right else "no"
        step = Step(id="answer", node="agent", surfaces=(SURFACE,), output=reply)
        return Outcome(replies=(reply,), trace=Trace(steps=(step,)))

    def true_gain(self, text: str, cases: Sequence[Case]) -> TrueGain:
        def mean_gain(kinds: Iterable[int]) -> float:
            return fmean(self._chance(text, kind) - self._chance(START, kind) for kind in kinds)

        return TrueGain(here=mean_gain(map(_kind_of, cases)), everywhere=mean_gain(range(KINDS)))

    def _chance(self, text: str, kind: int) -> float:
        least = _SHIFTED_EASE if self.effect == "shift" else _EASE
        return _chance_of(text, kind, each=self.help, least=least)

    @classmethod
    @cache
    def smallest_shown(cls, repeats: int) -> float:
        """The smallest true gain whose expected interval just excludes zero.

        The interval is Student's t over the gains of the cases. The spread of a case's gain is
        the noise of both sides' draws, and how unevenly a line helps. Both depend on the gain
        itself, so this is where gain and half-width meet.
        """
        low, high = 0.0, 1.0
        for _ in range(40):
            gain = (low + high) / 2
            shown = gain > _half_width(gain, cls.CLAIM, repeats)
            low, high = (low, gain) if shown else (gain, high)
        return high


@dataclass(frozen=True, kw_only=True)
class TaskWorld(World):
    """The files of one task and a scorer whose number varies from run to run."""

    EFFECTS: ClassVar[tuple[Effect, ...]] = ("null", "gain", "power")
    STEP: ClassVar[float] = 0.08
    NOISE: ClassVar[float] = 0.05

    def dataset(self) -> Dataset:
        names = ("task", "holdout", "test")
        train, holdout, test = (Case.single(f"run the {name}", name=name) for name in names)
        return Dataset(train=(train,), holdout=(holdout,), test=(test,) if self.sealed else ())

    def respond(self, candidate: Candidate, case: Case, draw: int) -> Outcome:
        text = str(candidate.values[SURFACE])
        noise = stream(self.number, candidate.id, case.id, draw).gauss(0.0, self.NOISE)
        return Outcome(replies=("ran",), measures={"score": 0.5 + self._gain(text) + noise})

    def true_gain(self, text: str, cases: Sequence[Case]) -> TrueGain:
        del cases
        return TrueGain(here=self._gain(text), everywhere=self._gain(text))

    def _gain(self, text: str) -> float:
        return self.help * helps_in(text)

    @classmethod
    def smallest_shown(cls, repeats: int) -> float:
        """The same for one case: the interval is Student's t over the draws of both sides."""
        return student(2 * repeats - 2) * cls.NOISE * math.sqrt(2 / repeats)


def _case(place: int, kind: int) -> Case:
    return Case.single(f"Is number {place:03d} even?", RIGHT, name=f"q{place:03d}-{kind:03d}")


def _kind_of(case: Case) -> int:
    """The kind of a case, which is part of its name."""
    return int(case.id.rpartition("-")[2])


@lru_cache(maxsize=100_000)
def _chance_of(text: str, kind: int, *, each: float, least: float) -> float:
    """The chance that a case of this kind is answered right under this text."""
    effects = (_effect(line, sign, kind) for line, sign in _LINE.findall(text))
    chance = least + 0.2 * luck("start", kind) + each * math.fsum(effects)
    return min(_MOST, max(_LEAST, chance))


def _effect(line: str, sign: str, kind: int) -> float:
    if sign == "shifts":  # One half of the kinds mirrors the other.
        lucky = luck("line", line, kind % (KINDS // 2)) < 0.5
        return 1.0 if lucky == (kind < KINDS // 2) else -1.0
    return _SIGNS[sign] * _UNEVEN[luck("line", line, kind) < 0.5]


# -- What a set of cases can show -----------------------------------------------------------------


def _half_width(gain: float, cases: int, repeats: int) -> float:
    text = f"{START}\nLine 000001 helps."
    before, after = (
        [_chance_of(words, kind, each=gain, least=_EASE) for kind in range(KINDS)]
        for words in (START, text)
    )
    noise = fmean(p * (1 - p) for p in (*before, *after)) * 2 / repeats
    uneven = pvariance([new - old for new, old in zip(after, before, strict=True)])
    return student(cases - 1) * math.sqrt((noise + uneven) / cases)


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, by the expansion of Cornish and Fisher."""
    z = 1.959964
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def helps_in(text: str) -> float:
    """How many lines of a text help, less those that harm."""
    return math.fsum(_SIGNS[sign] for _, sign in _LINE.findall(text))
