"""The service: runs started, followed and canceled over HTTP."""
