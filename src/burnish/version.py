"""The version of burnish."""

VERSION = "0.2.0"
