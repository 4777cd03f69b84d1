"""The dashboard: pages over the database of recorded and predicted profiles."""
