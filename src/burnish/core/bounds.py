"""Numbers that files, flags, variables and requests may set, with the bounds they all share.

The upper bounds are far above what anybody needs: they turn a slip of the keyboard into an error
with its place, instead of a run that never ends or a machine without memory.
"""

from typing import Annotated, TypeAlias

from pydantic import Field

MOST = 1_000_000_000
MOST_REPEATS = 1_000
MOST_PLACES = 10_000

AtLeastOne: TypeAlias = Annotated[int, Field(ge=1, le=MOST)]
"""A count of things that happen one after the other: trials, calls, tokens."""
NoneOrMore: TypeAlias = Annotated[int, Field(ge=0, le=MOST)]
"""The same where nothing at all makes sense too."""
AboveZero: TypeAlias = Annotated[float, Field(gt=0, le=MOST)]
"""An amount: seconds, minutes, US dollars."""
NotNegative: TypeAlias = Annotated[float, Field(ge=0, le=MOST)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Repeats: TypeAlias = Annotated[int, Field(ge=1, le=MOST_REPEATS)]
"""How often something is done over; every time is held in memory until the end."""
Places: TypeAlias = Annotated[int, Field(ge=1, le=MOST_PLACES)]
"""How many things may run at once; each place costs memory."""
