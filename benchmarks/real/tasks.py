"""Small tasks with a right answer to every input, made by script: no two cases share a sentence."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from burnish.core.cases import Case, Dataset
from burnish.core.content import stream

# fmt: off
_THINGS = (
    "kettle", "lamp", "desk", "chair", "printer", "fan", "scale", "toaster", "radio", "tent",
    "drill", "clock", "mixer", "heater", "camera", "bike", "shelf", "router", "watch", "keyboard",
)
_CITIES = (
    "Lyon", "Porto", "Graz", "Turku", "Ghent", "Bergen", "Malaga", "Turin", "Krakow", "Basel",
    "Cork", "Varna", "Split", "Uppsala", "Leipzig", "Brno",
)
_GOODS = (
    "paper clips", "blue pens", "desk lamps", "notebooks", "stamps", "filters", "batteries",
    "envelopes", "candles", "coffee cups", "labels", "tea towels",
)
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)
# fmt: on


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many cases each split has."""

    train: int = 40
    holdout: int = 40
    test: int = 200


@dataclass(frozen=True, kw_only=True)
class Task:
    """An agent's job: instructions that are too vague, and cases with exact answers."""

    name: str
    instructions: str
    sentences: Callable[[], Iterator[tuple[str, str]]]
    """Sentences with their answers; every sentence once."""

    def dataset(self, sizes: Sizes, *, seed: int = 1, tuning: bool = False) -> Dataset:
        """Cases of their own for each split, all kinds of answers in each.

        A fifth of the sentences is for `tuning` prompts and settings: no reported figure uses one.
        """
        rng = stream(seed, "real tasks", self.name)
        queues = _by_answer_kind(self._pairs(tuning=tuning), rng)
        count = sizes.train + sizes.holdout + sizes.test
        pairs = list(islice(_in_turn(queues), count))
        assert len(pairs) == count, f"{self.name} has only {len(pairs)} sentences"
        cases = tuple(
            Case.single(sentence, answer, name=f"{self.name}-{number:03d}")
            for number, (sentence, answer) in enumerate(pairs)
        )
        held = sizes.train + sizes.holdout
        return Dataset(
            train=cases[: sizes.train], holdout=cases[sizes.train : held], test=cases[held:]
        )

    def _pairs(self, *, tuning: bool) -> list[tuple[str, str]]:
        pairs = list(self.sentences())
        apart = set(stream(0, "tuning", self.name).sample(range(len(pairs)), len(pairs) // 5))
        return [pair for number, pair in enumerate(pairs) if (number in apart) is tuning]


def _by_answer_kind(
    pairs: Sequence[tuple[str, str]], rng: random.Random
) -> list[list[tuple[str, str]]]:
    """The pairs in random order; apart for each label, together if answers are all different."""
    labels = {answer for _, answer in pairs}
    kinds: Mapping[str, list[tuple[str, str]]] = {label: [] for label in sorted(labels)}
    if len(labels) > len(pairs) / 4:
        kinds = {"": []}
    for pair in pairs:
        kinds[pair[1] if pair[1] in kinds else ""].append(pair)
    for queue in kinds.values():
        rng.shuffle(queue)
    return list(kinds.values())


def _in_turn(queues: list[list[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    while any(queues):
        for queue in queues:
            if queue:
                yield queue.pop()


def _sentiment() -> Iterator[tuple[str, str]]:
    good = ("works perfectly", "looks lovely", "arrived a day early", "was easy to set up")
    bad = ("broke after a week", "came scratched", "is far too loud", "smells of glue")
    for thing, praise in product(_THINGS, (*good, "is worth every cent")):
        yield f"The {thing} {praise}.", "POS"
    for thing, fault in product(_THINGS, (*bad, "never switched on")):
        yield f"The {thing} {fault}.", "NEG"
    for thing, praise, fault in product(_THINGS, good, bad):
        yield f"The {thing} {praise}, but it {fault}.", "MIX"


def _routing() -> Iterator[tuple[str, str]]:
    """House rules: lawyers first; large sums to finance; after the warranty it is a sale."""
    for thing, amount in product(_THINGS, (20, 45, 80, 150, 230)):
        yield f"I was charged {amount} euros twice for the {thing}.", "billing"
    for thing, amount in product(_THINGS, (620, 750, 900, 1200)):
        yield f"I was charged {amount} euros twice for the {thing}.", "finance"
    for thing, month in product(_THINGS, _MONTHS[:4]):
        yield f"The {thing} that I bought in {month} broke, and it has a warranty.", "repairs"
    for thing, years in product(_THINGS, ("three", "four", "five", "six")):
        text = f"My {thing} is {years} years old, the warranty is over, and it broke."
        yield text, "sales"
    for thing, step in product(_THINGS, ("call my lawyer", "go to court", "ask my solicitor")):
        yield f"If the {thing} is not refunded I will {step}.", "legal"


def _extraction() -> Iterator[tuple[str, str]]:
    for number, (goods, city) in enumerate(product(_GOODS, _CITIES)):
        amount = 2 + number * 7 % 48
        text = f"Please send {amount} {goods} to our office in {city}."
        yield text, f"{city.upper()}|{amount}|{goods}"
        more = 3 + number * 11 % 60
        yield f"{city} needs {more} {goods} by Friday.", f"{city.upper()}|{more}|{goods}"


def _dates() -> Iterator[tuple[str, str]]:
    for number, (thing, month) in enumerate(product(_THINGS, range(12))):
        day, year = 1 + number * 5 % 28, 2019 + number % 9
        text = f"The {thing} is due on {day} {_MONTHS[month]} {year}."
        yield text, f"{year}/{month + 1:02d}/{day:02d}"
        later = 1 + number * 11 % 28
        text = f"We tested the {thing} on {_MONTHS[month]} {later}, {year + 1}."
        yield text, f"{year + 1}/{month + 1:02d}/{later:02d}"


TASKS = {
    task.name: task
    for task in (
        Task(
            name="routing",
            instructions="Say which team should handle the customer's message.",
            sentences=_routing,
        ),
        Task(
            name="extraction",
            instructions="Extract the order from the message.",
            sentences=_extraction,
        ),
        Task(
            name="sentiment",
            instructions="Say what the customer thinks of the product.",
            sentences=_sentiment,
        ),
        Task(name="dates", instructions="Say when it is or was.", sentences=_dates),
    )
}
SEARCHED = ("routing", "extraction", "sentiment")
"""The tasks of the second part."""
