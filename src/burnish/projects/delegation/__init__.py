"""Workflow files: from a file to a delegation that is ready to run."""
