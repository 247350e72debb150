"""The agent of this example: sorts tickets as its prompt tells it to, and never calls a model."""

import burnish

RULES = {
    "refund": ("refund", "money back"),
    "login": ("password", "log in"),
}


def sort_ticket(text: str) -> str:
    """The label of a ticket; a rule works only while the prompt has it."""
    prompt = burnish.prompt("system").lower()
    for label, words in RULES.items():
        if f"'{label}'" in prompt and any(word in text.lower() for word in words):
            return label
    return "other"
