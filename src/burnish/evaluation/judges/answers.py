"""What the answers of judges are made of, and how their items are matched with what was asked."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class JudgeAnswer(BaseModel):
    """A judge's answer: what it says besides is left alone, NaN is no number."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        allow_inf_nan=False,
        json_schema_extra={"additionalProperties": False},
    )


def _lowered(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _spelled(value: object) -> object:
    number = isinstance(value, int) and not isinstance(value, bool)
    return str(value).strip() if number or isinstance(value, str) else value


def _counted(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not true or false")  # noqa: TRY004 - pydantic's way
    return value


YesNo: TypeAlias = Annotated[Literal["yes", "no"], BeforeValidator(_lowered)]
YesNoUnsure: TypeAlias = Annotated[Literal["yes", "no", "unsure"], BeforeValidator(_lowered)]
ItemId: TypeAlias = Annotated[str, BeforeValidator(_spelled)]
Number: TypeAlias = Annotated[int, BeforeValidator(_counted)]
Share: TypeAlias = Annotated[float, BeforeValidator(_counted), Field(ge=0, le=1)]
Lowered = BeforeValidator(_lowered)


class NumberedItem(JudgeAnswer):
    """What a judge says of one numbered item."""

    number: Number
    reason: str
    verdict: YesNo


class NumberedAnswer(JudgeAnswer):
    """What a judge says of each numbered item."""

    items: list[NumberedItem]


def unmatched(expected: Sequence[str], found: Sequence[str]) -> str:
    """What is wrong with the ids of an answer, in words that help to mend it; empty if nothing."""
    counts = Counter(found)
    faults = {
        "is missing": [each for each in expected if each not in counts],
        "is not among those asked about": [each for each in counts if each not in expected],
        "is there more than once": [each for each, count in counts.items() if count > 1],
    }
    told = [f"{', '.join(ids)} {words}" for words, ids in faults.items() if ids]
    return f"one item for each id, please: {'; '.join(told)}" if told else ""


def misnumbered(count: int, found: Sequence[int]) -> str:
    """The same for items numbered from 1."""
    return unmatched([str(n) for n in range(1, count + 1)], [str(n) for n in found])
