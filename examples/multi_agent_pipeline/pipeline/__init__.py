"""Three agents in a row, each with a prompt of its own. They know nothing of burnish."""
