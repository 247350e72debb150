"""The version of burnish."""

VERSION = "0.1.0"
