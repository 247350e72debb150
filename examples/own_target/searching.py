"""The thing being optimised: a search over help articles. It knows nothing of burnish."""

import math
import re

ARTICLES = {
    "Track a parcel": "See where your order is. Use the number in the mail we sent to you.",
    "Return an item": "Send it back in 30 days. Print a label and drop it at a shop near you.",
    "Change a delivery address": "An order that is not packed can still go to a new place.",
    "Get an invoice": "Download the bill of an order as a file for your tax return.",
    "Use a voucher": "Enter the code before you pay. It cannot be used for a gift card.",
    "Cancel an order": "You can stop an order until it is packed. The money comes back in days.",
    "Repair a lamp": "Broken glass, a dead bulb or a loose cable: what we mend free of charge.",
    "Delete an account": "We remove your data and mail settings. Open orders are not touched.",
}
_COMMON = re.compile(
    r"a|an|and|are|as|at|be|been|can|do|does|for|from|has|have|how|i|in|is|it|me|my|not|of|on|or"
    r"|our|the|this|to|was|we|what|when|where|which|will|with|you|your"
)


def search(
    question: str, *, title_weight: float, skip_common: bool, cut_endings: bool, rare_first: bool
) -> list[str]:
    """The titles of all articles, the one that fits best first."""

    def words(text: str) -> list[str]:
        found = re.findall(r"[a-z0-9]+", text.lower())
        kept = [word for word in found if not (skip_common and _COMMON.fullmatch(word))]
        return [_stem(word) for word in kept] if cut_endings else kept

    asked = words(question)
    if not asked:
        raise ValueError("there is nothing to look for")
    titles = {title: words(title) for title in ARTICLES}
    texts = {title: words(text) for title, text in ARTICLES.items()}

    def worth(word: str) -> float:
        holders = sum(word in titles[title] or word in texts[title] for title in ARTICLES)
        return math.log(1 + len(ARTICLES) / (1 + holders)) if rare_first else 1.0

    def fit(title: str) -> float:
        hits = ((title_weight * (w in titles[title]) + texts[title].count(w), w) for w in asked)
        return sum(times * worth(word) for times, word in hits)

    return sorted(ARTICLES, key=lambda title: (-fit(title), title))


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word
