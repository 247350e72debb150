"""What a user should know before a search over prompts starts."""

from collections.abc import Iterator

from burnish.core.cases import Case, Dataset, Split
from burnish.projects.called_parts import price_notes
from burnish.targets.calling import CallingTarget
from burnish.targets.calling.notes import notes_for
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
