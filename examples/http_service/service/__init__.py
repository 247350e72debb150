"""The service that is optimised. It knows nothing of burnish."""
