"""The agent that is optimised. It knows nothing of burnish."""
