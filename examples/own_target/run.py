"""Optimise the search over help articles: `python run.py [FOLDER]`.

Stop it, or kill it, and start it again: it goes on where it was.
"""

# ruff: noqa: T201

import sys
from pathlib import Path

from metric import ReciprocalRank
from strategy import OneByOne
from target import HelpSearch

from burnish import Budget, Case, Dataset, Objective, Setup, optimize

QUESTIONS = {
    "Track a parcel": (
        "Where is the parcel?",
        "How do I see where my parcels are?",
        "My order has not been delivered, tracking says nothing",
        "Which number do I use for tracking?",
    ),
    "Return an item": (
        "How do I send an item back?",
        "Returning two items",
        "I want to return this, where do I get the label?",
        "Is it possible to drop a return at a shop?",
    ),
    "Change a delivery address": (
        "I moved: change the address of a delivery",
        "Can the order be delivered to a new place?",
        "Changing addresses",
        "My address is not the one in my account",
    ),
    "Get an invoice": (
        "Where do I get the invoice of my order?",
        "I need a bill for tax",
        "Invoices as a file",
        "Can you send the bill to me?",
    ),
    "Use a voucher": (
        "How do I use the voucher you sent?",
        "My code is not accepted when I pay",
        "Using vouchers for a gift card",
        "Where do I enter a code?",
    ),
    "Cancel an order": (
        "I want to cancel my order",
        "Cancelling: when do I have my money back?",
        "Stop the order, it is the wrong lamp",
        "Can orders be stopped in days, not hours?",
    ),
    "Repair a lamp": (
        "The lamp came with broken glass",
        "Do you repair lamps?",
        "What does repairing a cable cost?",
        "The bulbs are dead in my lamp",
    ),
    "Delete an account": (
        "Delete my account",
        "How do I remove my data from your settings?",
        "Deleting accounts with open orders",
        "I do not want mail from you, remove me",
    ),
}


def setup() -> Setup:
    """What to optimise, on which cases, by which measure, how, and how far."""
    by_place = list(zip(*QUESTIONS.values(), strict=True))
    rounds = [
        tuple(Case.single(asked, title) for asked, title in zip(row, QUESTIONS, strict=True))
        for row in by_place
    ]
    return Setup(
        target=HelpSearch(),
        metrics=(ReciprocalRank(),),
        objective=Objective(weights={"reciprocal_rank": 1.0}),
        dataset=Dataset(train=rounds[0] + rounds[2], holdout=rounds[1], test=rounds[3]),
        strategy=OneByOne(),
        budget=Budget(max_trials=20, max_calls=600),
    )


def main() -> None:
    """Run it, or go on with it, and say how it ended."""
    here = Path(__file__).parent
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here / "results" / "optimizer" / "help"
    result = optimize(setup(), folder=folder)
    print(f"stopped  {result.ending.reason.code}: {result.ending.reason.detail}")
    print(f"spent    {result.cost.calls} calls")
    for name, value in sorted(result.best.items()):
        print(f"best     {name} = {value}")
    if result.gain is not None:
        gain = result.gain
        print(f"test     gain {gain.mean:.3f}, between {gain.low:.3f} and {gain.high:.3f}")
    print(f"report   {folder / 'report.md'}")


if __name__ == "__main__":
    main()
