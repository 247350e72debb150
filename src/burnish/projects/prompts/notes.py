"""What a user should know before a search over prompts starts."""

from collections.abc import Iterator, Sequence

from burnish.core.cases import Case, Dataset, Split
from burnish.core.protocols import Metric
from burnish.evaluation.judges.judged import judged_parts
from burnish.models.calling import ModelClient
from burnish.strategies.reflective.settings import ReflectiveSettings
from burnish.targets.calling import CallingTarget
from burnish.targets.calling.notes import notes_for, price_notes
from burnish.targets.prompts.target import PromptsTarget

SHORT = 20
"""A prompt of fewer characters has little that could be worded otherwise."""


def agent_notes(target: PromptsTarget, dataset: Dataset, *, settable: bool) -> Iterator[str]:
    """What is to be said of the agent and its prompts; `settable` where the file sets prices."""
    yield from target.notes
    cases: list[Case] = [case for split in Split for case in dataset.cases(split)]
    if isinstance(target.agent, CallingTarget):
        yield from notes_for(target.agent, cases)
        yield from price_notes(target.agent, settable=settable)
    for name, text in target.baseline.values.items():
        if len(str(text).strip()) < SHORT:
            told = f"the prompt '{name}' has {len(str(text).strip())} characters"
            yield f"{told}: there is little in it that could be worded otherwise"


def reflective_notes(target: PromptsTarget, settings: ReflectiveSettings) -> Iterator[str]:
    """What is to be said of the settings of a reflective search."""
    if settings.merge and len(target.surfaces) < 2:
        yield "merging has no effect: it takes the texts of two prompts, and there is only one"


def judge_notes(
    metrics: Sequence[Metric], *, repeats: int, reflector: ModelClient | None
) -> Iterator[str]:
    """What is to be said of models that judge."""
    judged = [metric for each in metrics for metric in judged_parts(each)]
    if judged and repeats == 1:
        names = ", ".join(dict.fromkeys(metric.name for metric in judged))
        told = f"each case is run once, and a model judges {names}"
        yield f"{told}: verdicts vary, and one run cannot tell by how much"
    same = {
        metric.name: None
        for metric in judged
        for judge in metric.panel.judges
        if reflector is not None and judge.client.ref.label == reflector.ref.label
    }
    if same and reflector is not None:
        told = f"{reflector.ref.label} writes the prompts and judges {', '.join(same)}"
        yield f"{told}: it may come to please itself"
