"""Routes of the service, one file a subject."""
