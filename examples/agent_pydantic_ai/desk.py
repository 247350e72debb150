"""The price desk of a shop, as an agent of pydantic-ai.

Its model is a function that follows the instructions: put a real one in its place.
"""

import re

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Compute the total, in euros if the instructions say so."""
    count, price = re.findall(r"\d+", str(messages[-1].parts[-1].content))[-2:]
    unit = " euros" if "in euros" in (info.instructions or "") else ""
    return ModelResponse(parts=[TextPart(f"{int(count) * int(price)}{unit}")])


agent = Agent(
    FunctionModel(model),
    instructions="Compute what the customer has to pay. Answer with the amount only.",
)
