"""Everything paid goes through here: the journal, budgets, limits, retries, executors."""
