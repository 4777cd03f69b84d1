"""The user's own app, not ours."""

WIDTH = 48
