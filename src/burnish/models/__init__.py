"""Language models: references, roles with typed answers, usage, prices, the embedded model.

Nothing here is loaded before a model is used, and everything spent goes through the caller's
Effects.
"""
