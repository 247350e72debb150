"""The delegation run: a manager, workers with tools, critique, completion gates, evaluation."""
