"""Alembic migrations, run in process by `db.database.open_database`."""
