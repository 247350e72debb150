"""Gates: acceptance rules, each a pure function from evaluations to a Decision.

A tie is not an improvement: at zero measured noise every gate wants more than EPSILON.
Constraints of the objective come first in every gate that ends in an accept; the minibatch
gate only screens, so it leaves them to the gate behind it.
"""

from burnish.core.gates.guards import Guards, guarded
from burnish.core.gates.min_gain import min_gain
from burnish.core.gates.minibatch import improves_on_minibatch
from burnish.core.gates.sigma import sigma
from burnish.core.gates.strict import strict

__all__ = ["Guards", "guarded", "improves_on_minibatch", "min_gain", "sigma", "strict"]
