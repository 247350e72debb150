"""An agent that writes reminders of appointments, in the way that its prompt asks for.

A few lines of Python stand for the model that your agent calls. They do what the prompt says, and
nothing that it does not say.
"""

import re

_APPOINTMENT = re.compile(
    r"(?P<what>[\w ]+), (?P<day>\d+ \w+), (?P<hour>\d+):(?P<minute>\d\d) (?P<half>am|pm)"
)
_ADDED = re.compile(r"^For each ([\w ]+) add: (.+)$", re.MULTILINE)


def reminder(query: str, prompt: str) -> str:
    """The text that is sent for an appointment such as `eye test, 3 March, 2:30 pm`."""
    told = _APPOINTMENT.search(query)
    if told is None:
        raise ValueError(f"no appointment in '{query}'")
    hour, half = int(told["hour"]), f" {told['half']}"
    if "24-hour" in prompt:
        hour, half = hour % 12 + 12 * (told["half"] == "pm"), ""
    added = dict(_ADDED.findall(prompt)).get(told["what"], "")
    line = f"Your {told['what']} is on {told['day']} at {hour}:{told['minute']}{half}."
    return f"{line} {added}".strip()
