"""Steps as an agent's own code tells them: `with burnish.step("planner") as step`."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from burnish.targets.tracing.places import PLACE, Recording, StepRecord

T = TypeVar("T")


class OpenStep:
    """One step of an agent, from `with` to the end of its block.

    Where nobody records, nothing is kept and nothing is looked at.
    """

    def __init__(
        self,
        node: str,
        *,
        inputs: object = None,
        surfaces: Iterable[str] = (),
        after: "Sequence[OpenStep] | None" = None,
    ) -> None:
        self.node = node
        self.output: object = None
        """What the step gave; set it before the block ends."""
        self._inputs = inputs
        self._surfaces = surfaces
        self._after = after
        self._recorder: Recording[Any] | None = None
        self.record: StepRecord | None = None
        """What is written down of it; None where nobody records."""

    def done(self, output: T) -> T:
        """Set the output, and give it back: `return step.done(answer)`."""
        self.output = output
        return output

    def tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        result: object = None,
        error: str = "",
        *,
        id: str = "",  # noqa: A002 - as the field of ToolCall is called
    ) -> None:
        """Say that a tool was used."""
        if self.record is not None:
            self.record.tool(name, arguments or {}, result, error, id)

    def used(self, *, requests: int = 0, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """Say what model calls in this step took, those of inner steps not counted."""
        if self.record is not None:
            self.record.use(requests, input_tokens, output_tokens)

    def __enter__(self) -> Self:
        place = PLACE.get()
        if place is not None:
            self._recorder = place.recorder
            self.record = place.recorder.begin(
                place,
                self.node,
                inputs=self._inputs,
                surfaces=self._surfaces,
                after=_records(self._after),
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._recorder is not None and self.record is not None:
            self._recorder.end(self.record, output=self.output, error=error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, at)


def step(
    node: str,
    *,
    inputs: object = None,
    surfaces: Iterable[str] = (),
    after: Sequence[OpenStep] | None = None,
) -> OpenStep:
    """A step of the agent: `with` or `async with` it around the code of a node.

    What came before it is worked out, across tasks and threads; `after` says it instead. Inside
    another step its node is `outer/inner`.
    """
    return OpenStep(node, inputs=inputs, surfaces=surfaces, after=after)


def _records(after: Sequence[OpenStep] | None) -> list[StepRecord] | None:
    if after is None:
        return None
    return [each.record for each in after if each.record is not None]
