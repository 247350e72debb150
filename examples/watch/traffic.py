"""What customers ask in a week, answered by the agent, as lines of a log: `python traffic.py WEEK`.

In the first week they ask what the agent was made for. Then the shop begins to sell vouchers and
to offer assembly, and every second message is about those.
"""

import json
import sys

from desk import queue_of

USUAL = ["My invoice {n} is wrong.", "Parcel {n} is late.", "Chair {n} is broken."]
NEW = ["My voucher {n} does not work.", "Who does the assembly of shelf {n}?"]
RARE = "Hello, this is customer {n}."


def messages(week: int) -> list[str]:
    """The messages of a week; one in ten is about nothing in particular."""
    texts: list[str] = []
    for n in range(60 * week, 60 * week + 60):
        kind = NEW[n // 2 % 2] if week > 1 and n % 2 else USUAL[n % 3]
        texts.append((RARE if n % 10 == 0 else kind).format(n=n))
    return texts


if __name__ == "__main__":
    week = int(sys.argv[1])
    for n, message in enumerate(messages(week)):
        row = {"id": f"{week}-{n}", "input": message, "output": queue_of(message)}
        sys.stdout.write(json.dumps({**row, "time": f"2026-03-{7 * week + n // 9:02}"}) + "\n")
