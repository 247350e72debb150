"""Which pages or slides of a document are read."""

from collections.abc import Sequence

from burnish.targets.agent.documents_bounds import Unreadable


def chosen(pages: Sequence[int], count: int, thing: str) -> Sequence[int]:
    """The numbers of the pages to read: those that are asked for, else all."""
    beyond = [page for page in pages if not 1 <= page <= count]
    if beyond:
        listed = ", ".join(map(str, beyond[:10]))
        has = f"it has {count} {thing}{'' if count == 1 else 's'}"
        raise Unreadable(f"there is no {thing} {listed}: {has}", remedy="Mend its `pages`.")
    return list(dict.fromkeys(pages)) or range(1, count + 1)
