"""Why delegations end, in words, and what can be done then."""

_LIMIT = "the budget is used up"
_WORDS = {
    "stall": "the manager decided the very same three times in a row",
    "fail": "the manager gave up",
    "eval_fail": "the metrics are below the threshold `fail`",
    "completion_circuit_breaker": "the gates sent it back too often for the same reason",
    "max_loops": _LIMIT,
    "max_total_workers": _LIMIT,
    "max_total_tokens": _LIMIT,
    "max_wall_time": _LIMIT,
}
_MORE = "run the task again in another folder with more of it: `budget` in the file, or a flag"
_NEXT = {
    "stall": "name a stronger manager, or say the task in other words, and run it again",
    "fail": "mend what the manager complains of, and run the task again",
    "manager_failed": "name a manager that answers in the form asked for, and run the task again",
    "manager_missing": "see that the model can be reached, and run the task again in another "
    "folder: a resume asks nobody twice",
    **{name: _MORE for name, words in _WORDS.items() if words is _LIMIT},
}


def ending_words(reason: str) -> str:
    """The reason with what it means; one that explains itself stays as it is."""
    told = _WORDS.get(reason)
    return reason if told is None else f"{reason}: {told}"


def next_step(reason: str) -> str:
    """What to do about a run that delivered nothing; empty where its report says it."""
    return _NEXT.get(reason.partition(":")[0], "")
