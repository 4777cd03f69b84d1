"""The pages. Each module has ``register(app, state)``, which adds its page and its callbacks to one application."""

from app.dashboard.pages import compare, missing, new, run, runs, sql, tune

PAGES = (runs, run, tune, new, compare, sql, missing)
