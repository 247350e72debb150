"""What LangChain's models and tools do inside a step: tokens, and uses of tools."""

import threading
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from burnish.targets.tracing.places import PLACE
from burnish.targets.tracing.records import Record
from burnish.targets.tracing.values import error_text


class CallTracer(BaseCallbackHandler):
    """Tells the step under way what is called in it; where nobody records it does nothing."""

    run_inline = True  # in the context of whoever calls

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: dict[UUID, tuple[Record, str, dict[str, Any]]] = {}

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """A model has answered."""
        del run_id, kwargs
        record = _under_way()
        if record is None:
            return
        for answer in (each for several in response.generations for each in several):
            told = answer.message if isinstance(answer, ChatGeneration) else None
            used = told.usage_metadata if isinstance(told, AIMessage) else None
            given, made = (used["input_tokens"], used["output_tokens"]) if used else (0, 0)
            record.use(1, given, made)

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A tool is called."""
        record = _under_way()
        if record is None:
            return
        name = str(kwargs.get("name") or serialized.get("name", "tool"))
        with self._lock:
            self._used[run_id] = record, name, inputs or {"input": input_str}

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool has answered."""
        del kwargs
        failed = isinstance(output, ToolMessage) and output.status == "error"
        told = output.text if isinstance(output, ToolMessage) else output
        self._tell(run_id, None if failed else told, str(told) if failed else "")

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool has raised."""
        del kwargs
        self._tell(run_id, None, error_text(error))

    def _tell(self, run: UUID, result: Any, error: str) -> None:
        with self._lock:
            used = self._used.pop(run, None)
        if used is not None:
            record, name, arguments = used
            record.tool(name, arguments, result, error, "")


def _under_way() -> Record | None:
    place = PLACE.get()
    return place.inside if place is not None else None
