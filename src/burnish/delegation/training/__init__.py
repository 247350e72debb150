"""Suites: tasks on which the policy texts behind all delegations are trained."""
