"""The dashboard over a database with one measured run of the example, without a browser."""

from __future__ import annotations

from collections.abc import Iterator

import dash
import pytest
from dashboard_example import example_profile, example_schedule

from app.dashboard.factory import create_app
from db.database import open_database
from db.recordings import RunDescription, record_profile


@pytest.fixture(scope="module")
def example_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dash.Dash]:
    """Set up, as it is once it has answered."""
    path = tmp_path_factory.mktemp("app") / "app.db"
    database, schedule = open_database(path), example_schedule()
    record_profile(database, RunDescription("measured", schedule, "example"), example_profile(schedule, "measured", 2))
    database.close()
    made = create_app(path)
    made.server.test_client().get("/", headers={"Host": "127.0.0.1"})
    yield made
    made.server.config["HYPEROFFLOAD"].database.close()
