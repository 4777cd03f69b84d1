"""The pages. Each module has ``register(app, state)``, which adds its page and its callbacks to one application."""

from app.dashboard.pages import compare, experiments, graph, missing, new, run, runs, sql, tune

PAGES = (runs, run, graph, tune, new, compare, experiments, sql, missing)
