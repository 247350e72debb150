"""The price desk of a shop, as a crew of CrewAI.

Its model is a class that follows the task: put a real one in its place, such as
`"anthropic/claude-sonnet-4-5"`.
"""

import os
import re
from typing import Any

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"  # or CrewAI would send what it measures
os.environ["CREWAI_TRACING_ENABLED"] = "false"

from crewai import Agent, BaseLLM, Crew, Task


class FollowingModel(BaseLLM):
    """Computes the total, in euros if the task says so."""

    def call(self, messages: Any, *more: Any, **settings: Any) -> str:
        text = " ".join(str(each["content"]) for each in messages)
        count, price = re.search(r"(\d+) \w+ at (\d+)", text).groups()
        unit = " euros" if "in euros" in text else ""
        return f"Thought: I know.\nFinal Answer: {int(count) * int(price)}{unit}"


clerk = Agent(
    role="clerk",
    goal="Tell customers what they have to pay.",
    backstory="You work at the price desk of a shop.",
    llm=FollowingModel(model="following"),
)
payment = Task(
    name="payment",
    description="Compute what this order costs: {order}. Answer with the amount only.",
    expected_output="The amount.",
    agent=clerk,
)
crew = Crew(agents=[clerk], tasks=[payment])
