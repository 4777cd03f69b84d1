"""The dashboard: pages over the database of recorded and predicted profiles."""

from app.dashboard.factory import create_app, serve

__all__ = ["create_app", "serve"]
