"""The agent that the gate measures and the nightly run improves."""
