"""The price desk of a shop, as an agent of the OpenAI Agents SDK.

Its model is a function that follows the instructions: put a real one in its place.
"""

import re
from typing import Any

from agents import Agent, Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import ResponseOutputMessage, ResponseOutputText


class FollowingModel(Model):
    """Computes the total, in euros if the instructions say so."""

    async def get_response(
        self, system_instructions: str | None, input: Any, *more: Any, **settings: Any
    ) -> ModelResponse:
        count, price = re.findall(r"\d+", str(input[-1]["content"]))[-2:]
        unit = " euros" if "in euros" in (system_instructions or "") else ""
        text = ResponseOutputText(
            text=f"{int(count) * int(price)}{unit}", type="output_text", annotations=[]
        )
        message = ResponseOutputMessage(
            id="message", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *more: Any, **settings: Any) -> Any:
        raise NotImplementedError("this model does not stream")


set_tracing_disabled(True)  # or the SDK would send traces to OpenAI
agent = Agent(
    name="desk",
    instructions="Compute what the customer has to pay. Answer with the amount only.",
    model=FollowingModel(),
)
