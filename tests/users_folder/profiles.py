"""The user's own profiles, not ours."""

LAYERS = 3
