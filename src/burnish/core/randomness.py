"""Randomness from named streams of the run's seed: no stream disturbs another."""

import hashlib
import random


def stream(seed: int, *names: str | int) -> random.Random:
    """A generator that depends on the seed and the names, on nothing else."""
    material = "\0".join(map(str, (seed, *names))).encode()
    return random.Random(int.from_bytes(hashlib.sha256(material).digest(), "big"))  # noqa: S311
