"""Project files of kind `graph`: a graph of agents, and how to improve it."""
