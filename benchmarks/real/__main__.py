"""Compares rewrites and searches with gepa 0.1.4 on a real model, and prints markdown.

`make bench PART=real BASE_URL=http://127.0.0.1:8080/v1 MODEL=name` runs both parts. Without an
address the model is one that burnish runs itself, such as local:smollm2, which only shows that all
works.
"""

import argparse
import asyncio
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.real.agents import Endpoint
from benchmarks.real.log import REFLECTIONS, SEARCHES, Log
from benchmarks.real.reflections import BURNISH, GEPA, Reflections
from benchmarks.real.searches import AUTO, RealSearch, search_all
from benchmarks.real.tables import reflection_table, search_table
from benchmarks.real.tasks import SEARCHED, TASKS, Sizes

_PARTS = (REFLECTIONS, SEARCHES)
_SYSTEMS = (BURNISH, AUTO, GEPA)
_SMOKE = {"draws": 1, "cases": 2, "calls": 14, "train": 4, "holdout": 4, "test": 4}
"""The sizes for a model that burnish runs itself, unless others are set."""
_FULL = {"draws": 8, "cases": 40, "calls": 600, "train": 40, "holdout": 40, "test": 200}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts, and print a table for each."""
    options = _options(arguments)
    if GEPA in options.system and find_spec("gepa") is None:
        sys.exit("gepa is not installed here; `make bench PART=real` installs gepa==0.1.4")
    endpoint = Endpoint(model=options.model, base_url=options.base_url, timeout=options.timeout)
    words = shlex.join(sys.argv[1:] if arguments is None else arguments)
    print(f"Made with `python -m benchmarks.real {words}`, model {options.model}.\n")
    if REFLECTIONS in options.parts:
        print(_reflections(options, endpoint), flush=True)
    if SEARCHES in options.parts:
        print(_searches(options, endpoint), flush=True)


def _reflections(options: argparse.Namespace, endpoint: Endpoint) -> str:
    part = Reflections(
        endpoint=endpoint,
        tasks=options.task or list(TASKS),
        systems=[system for system in options.system if system != AUTO],
        draws=options.draws,
        cases=options.cases,
        seed=options.seed,
        tuning=options.tuning,
        folder=options.prompts,
        log=Log(options.log),
    )
    rewrites = asyncio.run(part.make())
    sizes = f"{options.draws} rewrites of each kind, each scored on {options.cases} new cases"
    return f"**One reflection** from three failures: {sizes}.\n\n{reflection_table(rewrites)}\n"


def _searches(options: argparse.Namespace, endpoint: Endpoint) -> str:
    sizes = Sizes(train=options.train, holdout=options.holdout, test=options.test)
    searches = [
        RealSearch(
            system=system,
            task=task,
            endpoint=endpoint,
            sizes=sizes,
            calls=options.calls,
            seed=options.seed,
            folder=options.prompts,
        )
        for task in options.task or SEARCHED
        for system in options.system
    ]
    made = search_all(searches, Log(options.log))
    words = f"{sizes.train} train, {sizes.holdout} holdout and {sizes.test} test cases"
    return f"**Whole searches** of {options.calls} calls: {words}.\n\n{search_table(made)}\n"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(_PARTS)}; both")
    parser.add_argument("--base-url", default="", help="an OpenAI-compatible endpoint")
    parser.add_argument("--model", default="local:smollm2")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one call")
    parser.add_argument("--draws", type=int, help="rewrites of each system for each task")
    parser.add_argument("--cases", type=int, help="new cases that score a rewrite")
    parser.add_argument("--calls", type=int, help="calls of the agent in a search")
    parser.add_argument("--train", type=int)
    parser.add_argument("--holdout", type=int)
    parser.add_argument("--test", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--tuning", action="store_true", help="rewrite and score on cases kept for tuning"
    )
    parser.add_argument("--task", action="append", choices=list(TASKS), help="all unless named")
    parser.add_argument("--system", action="append", choices=_SYSTEMS, help="all")
    parser.add_argument("--prompts", type=Path, default=Path(), help="folder of installed prompts")
    parser.add_argument("--log", type=Path, help="keeps what was made, which is not made again")
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in _PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]}; there are: {', '.join(_PARTS)}")
    options.parts = options.parts or list(_PARTS)
    options.system = options.system or list(_SYSTEMS)
    for name, size in (_FULL if options.base_url else _SMOKE).items():
        if getattr(options, name) is None:
            setattr(options, name, size)
    return options


if __name__ == "__main__":
    main()
