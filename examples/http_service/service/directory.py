"""The answers of the directory: which number to call, as far as its prompt says how to give it.

A few lines of Python stand for the model that your service calls. They do what the prompt says, and
nothing that it does not say.
"""

import re

NUMBERS = {
    "Graz": "0316 555 014",
    "Linz": "0732 555 081",
    "Wels": "07242 555 3",
    "Enns": "07223 555 6",
}
NIGHT = "0316 555 999"
EXTENSIONS = {"Lind": 27, "Okoro": 31, "Sato": 45, "Moreau": 52}
_ABROAD = re.compile(r"abroad.*country code", re.IGNORECASE)
_NIGHT = re.compile(r"night.*night desk", re.IGNORECASE)
_PERSON = re.compile(r"person.*extension", re.IGNORECASE)


def answer(query: str, prompt: str) -> str:
    """What to tell somebody who asks for a number."""
    office = next((name for name in NUMBERS if name in query), None)
    if office is None:
        return "Which office do you mean?"
    number, who = NUMBERS[office], office
    if "night" in query and _NIGHT.search(prompt):
        number, who = NIGHT, "night desk"
    if "abroad" in query and _ABROAD.search(prompt):
        number = f"+43 {number[1:]}"
    person = next((name for name in EXTENSIONS if name in query), None)
    if person and _PERSON.search(prompt):
        number = f"{number}, extension {EXTENSIONS[person]}"
    return f"{who}: {number}"
