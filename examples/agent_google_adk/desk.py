"""The price desk of a shop, as an agent of Google ADK.

Its model is a class that follows the instruction: put a real one in its place, such as
`"gemini-2.5-flash"`.
"""

import re
from collections.abc import AsyncGenerator

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai import types


class FollowingModel(BaseLlm):
    """Computes the total, in euros if the instruction says so."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        count, price = re.findall(r"\d+", llm_request.contents[-1].parts[-1].text)[-2:]
        unit = " euros" if "in euros" in str(llm_request.config.system_instruction) else ""
        answer = types.Part(text=f"{int(count) * int(price)}{unit}")
        yield LlmResponse(content=types.Content(role="model", parts=[answer]))


agent = Agent(
    name="desk",
    model=FollowingModel(model="following"),
    instruction="Compute what the customer has to pay. Answer with the amount only.",
)
