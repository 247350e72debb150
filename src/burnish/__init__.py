"""burnish makes AI agents measurably better, and proves it."""
