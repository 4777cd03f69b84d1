"""Recorded and predicted profiles in one SQLite file: models, recordings, window queries, policies, jobs."""
