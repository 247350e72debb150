"""Runs in other systems: MLflow, Weights & Biases, and OpenTelemetry for whatever reads that."""
