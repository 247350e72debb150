"""The schema of an answer, narrowed to what one request shows."""

import copy
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from burnish.core.content import Json
