"""What happens while an agent runs: the uses of its tools, in order, with results and errors."""

import time
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai.exceptions import CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.messages import ToolReturn
from pydantic_ai.toolsets import WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import to_jsonable_python

from burnish.core.content import Json
from burnish.core.effects import Effects
from burnish.core.errors import BurnishError
from burnish.core.outcomes import ToolCall


@dataclass
class RunLog:
    """What one run of a case may spend through, and what its tools did."""

    effects: Effects
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    seconds: float = 0.0


@dataclass
class LoggedToolset(WrapperToolset[RunLog]):
    """Writes down every use of a tool; a tool that raises tells the model so and is no crash."""

    retrieves: bool = False
    """Whether what comes back are passages."""

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[RunLog],
        tool: ToolsetTool[RunLog],
    ) -> Any:
        """Call it, and write it down."""
        started = time.perf_counter()
        try:
            found = await super().call_tool(name, tool_args, ctx, tool)
        except (BurnishError, CallDeferred):
            raise
        except (ModelRetry, ToolFailed) as error:
            self._write(ctx, name, tool_args, error=str(error))
            raise
        except Exception as error:  # noqa: BLE001 - the border to the user's tools: the model may mend it
            told = f"{type(error).__name__}: {error}"
            self._write(ctx, name, tool_args, error=told)
            return f"the tool failed: {told}"
        finally:
            ctx.deps.seconds += time.perf_counter() - started
        self._write(ctx, name, tool_args, found=found)
        return found

    def _write(
        self,
        ctx: RunContext[RunLog],
        name: str,
        args: dict[str, Any],
        *,
        found: Any = None,
        error: str = "",
    ) -> None:
        value: Any = found.return_value if isinstance(found, ToolReturn) else found
        told = _plain(value)
        passages: tuple[str, ...] = ()
        if isinstance(found, ToolReturn) and isinstance(found.metadata, tuple):
            passages = cast("tuple[str, ...]", found.metadata)
        elif self.retrieves and found is not None:
            passages = (told if isinstance(told, str) else str(told),)
        ctx.deps.calls.append(
            ToolCall(
                name=name,
                arguments=cast("dict[str, Json]", _plain(args)),
                result=told,
                error=error,
                id=ctx.tool_call_id or "",
                passages=passages,
            )
        )


def _plain(value: Any) -> Json:
    return cast("Json", to_jsonable_python(value, fallback=repr, inf_nan_mode="strings"))
