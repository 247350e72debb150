"""The algorithms, callbacks and progress display of AgentOptimizer."""
