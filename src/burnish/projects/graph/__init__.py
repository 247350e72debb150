"""Project files of kind `graph`: a graph of agents, and how it is made better."""
