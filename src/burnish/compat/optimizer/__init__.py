"""AgentOptimizer: its algorithms, its callbacks, and what a program is shown."""
