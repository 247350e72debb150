"""Which traces become cases: conditions, samples, no question twice, nothing private."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import ge, gt, le, lt
from typing import TypeAlias

from burnish.core.cases import Case
from burnish.core.content import Json, codec, stream
from burnish.core.errors import ConfigError, Problem
from burnish.datasets.agent_cases import mapped
from burnish.datasets.traces import SOURCE, LoggedTrace
from burnish.system.personal_data import DataRedactor

Condition: TypeAlias = Callable[[LoggedTrace], bool]
_COMPARED = re.compile(r"(?P<name>[^<>=]+?)\s*(?P<sign><=|>=|<|>)\s*(?P<value>-?\d*\.?\d+)")
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_STATES: Mapping[str, Condition] = {
    "error": lambda trace: bool(trace.error),
    "ok": lambda trace: not trace.error,
    "negative": lambda trace: trace.feedback == "negative",
    "positive": lambda trace: trace.feedback == "positive",
}
_IDENTIFIES = ("trace", "time", "session", "file", "format")
"""What is kept of a trace as it is: numbers in it are no telephone numbers."""


def where(texts: Sequence[str]) -> Condition:
    """All of these conditions; each is one alternative or several, with commas between them."""
    groups = [[_condition(part.strip()) for part in text.split(",")] for text in texts]
    return lambda trace: all(any(holds(trace) for holds in group) for group in groups)


def _condition(text: str) -> Condition:
    if text in _STATES:
        return _STATES[text]
    if text.startswith("tag=") and (tag := text.removeprefix("tag=")):
        return lambda trace: tag in trace.tags
    compared = _COMPARED.fullmatch(text)
    if compared is None:
        remedy = (
            "write error, ok, negative, positive, tag=NAME or a score: score<0.5, helpful>=0.8; "
            "commas between alternatives"
        )
        raise ConfigError(
            [Problem(where="--where", message=f"not usable: {text!r}", remedy=remedy)]
        )
    name, sign, bar = compared["name"], _SIGNS[compared["sign"]], float(compared["value"])

    def holds(trace: LoggedTrace) -> bool:
        # A log with one score need not call it `score`.
        only = [*trace.scores.values()] if name == "score" and len(trace.scores) == 1 else []
        value = trace.scores.get(name, only[0] if only else None)
        return value is not None and sign(value, bar)

    return holds


def sample(traces: Sequence[LoggedTrace], size: int, seed: int) -> tuple[LoggedTrace, ...]:
    """So many traces, at random, in shares like those of all by outcome and first tag.

    Each such group is in the sample at least once, if there is room: so rare ones weigh more than
    they should in a mean. The order of the log is kept.
    """
    groups: dict[tuple[str, str], list[LoggedTrace]] = defaultdict(list)
    for trace in traces:
        groups[trace.outcome, trace.tags[0] if trace.tags else ""].append(trace)
    if size >= len(traces):
        return tuple(traces)
    shares = _shares({key: len(held) for key, held in groups.items()}, size)
    chosen = {
        trace.id
        for key, held in groups.items()
        for trace in stream(seed, "sample of traces", *key).sample(
            sorted(held, key=lambda trace: trace.id), shares[key]
        )
    }
    return tuple(trace for trace in traces if trace.id in chosen)


def _shares(counts: Mapping[tuple[str, str], int], size: int) -> dict[tuple[str, str], int]:
    """How many of each group, by the largest remainders, with at least one where possible."""
    whole = sum(counts.values())
    least = 1 if size >= len(counts) else 0
    exact = {key: size * count / whole for key, count in counts.items()}
    shares = {key: min(counts[key], max(least, int(exact[key]))) for key in sorted(counts)}
    while (rest := size - sum(shares.values())) != 0:
        step = 1 if rest > 0 else -1
        open_keys = [k for k in shares if least <= shares[k] + step <= counts[k]]
        best = max(open_keys, key=lambda key: step * (exact[key] - shares[key]))
        shares[best] += step
    return shares


@dataclass(frozen=True, kw_only=True)
class Distinct:
    """Cases without those that ask the same again."""

    cases: tuple[Case, ...]
    repeated: int


def distinct(cases: Iterable[Case]) -> Distinct:
    """One case for each question: the first."""
    held = tuple(cases)
    first: dict[str, Case] = {}
    for case in held:
        first.setdefault(case.question_id, case)
    return Distinct(cases=tuple(first.values()), repeated=len(held) - len(first))


def redacted(case: Case, redactor: DataRedactor) -> Case:
    """The case without keys and personal data; what identifies its trace stays."""
    source = mapped(case.extras.get(SOURCE))
    bare = replace(case, name="", extras={**case.extras, SOURCE: _unidentified(source)})
    clean = codec(Case).decode(redactor.json(codec(Case).encode(bare)))
    again = _identified(mapped(clean.extras.get(SOURCE)), source)
    return replace(clean, name=case.name, extras={**clean.extras, SOURCE: again})


def _unidentified(source: Mapping[str, Json]) -> dict[str, Json]:
    rows = source.get("traces")
    inner = [_unidentified(mapped(row)) for row in rows] if isinstance(rows, list) else []
    bare = {key: value for key, value in source.items() if key not in _IDENTIFIES}
    return {**bare, **({"traces": [*inner]} if inner else {})}


def _identified(clean: Mapping[str, Json], source: Mapping[str, Json]) -> dict[str, Json]:
    kept = {key: value for key, value in source.items() if key in _IDENTIFIES}
    rows, before = clean.get("traces"), source.get("traces")
    if not isinstance(rows, list) or not isinstance(before, list):
        return {**kept, **clean}
    pairs = zip(rows, before, strict=True)
    return {**kept, **clean, "traces": [_identified(mapped(a), mapped(b)) for a, b in pairs]}
