"""Tables on the terminal."""

from collections.abc import Collection

from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 240


class Columns:
    """A table whose named columns give way where there is no room: cut, or folded into lines."""

    def __init__(
        self, *names: str, cut: Collection[str] = (), folded: Collection[str] = ()
    ) -> None:
        self._table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
        self._cut = [name in cut for name in names]
        for name in names:
            # A column that may not wrap gives way last, so the others go first.
            self._table.add_column(name, no_wrap=name not in cut and name not in folded)

    def add(self, *cells: str) -> None:
        """Add a row; brackets in a text are text, not markup."""
        cuts = zip(cells, self._cut, strict=True)
        texts = (
            Text(cell, no_wrap=cut, overflow="ellipsis" if cut else "fold") for cell, cut in cuts
        )
        self._table.add_row(*texts)

    def show(self) -> None:
        """Print it. A file or a pipe has no width: nothing is folded there."""
        console = Console()
        console.width = console.width if console.is_terminal else _PIPE_WIDTH
        console.print(self._table)
