"""The price desk of a shop, as a graph of LangGraph.

Its model is a class that follows the prompt: put a real one in its place.
"""

import re
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph

DESK_PROMPT = "Compute what the customer has to pay. Answer with the amount only."


class FollowingModel(BaseChatModel):
    """Computes the total, in euros if the prompt says so."""

    @property
    def _llm_type(self) -> str:
        return "following"

    def _generate(self, messages: list[BaseMessage], *more: Any, **settings: Any) -> ChatResult:
        count, price = re.findall(r"\d+", messages[-1].text)[-2:]
        unit = " euros" if "in euros" in messages[0].text else ""
        message = AIMessage(f"{int(count) * int(price)}{unit}")
        return ChatResult(generations=[ChatGeneration(message=message)])


model = FollowingModel()


def desk(state: MessagesState) -> dict[str, list[BaseMessage]]:
    """Ask the model with the prompt of this node."""
    return {"messages": [model.invoke([("system", DESK_PROMPT), *state["messages"]])]}


builder = StateGraph(MessagesState)
builder.add_node("desk", desk)
builder.add_edge(START, "desk")
builder.add_edge("desk", END)
graph = builder.compile()
