"""Which scripts and styles a page asks for, and how they are served.

A browser that opens the dashboard for the first time pays for each file and, far more, for reading scripts. So what
every page needs comes in few files made when the dashboard starts; a page gets what its first sight needs (charts:
plotly.js, lists: ag-grid) as soon as the first script runs and the rest when it is there; and scripts that run at once
say so, which lets Chromium compile them beside the page instead of function by function while the page waits.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import dash
import flask
from dash.fingerprint import check_fingerprint

from app.dashboard.opening import layout_of_this
from profiles.plotly_js import plotly_js

# Where Dash looks for plotly.js: the one served there can draw what pages draw, and is a third of the size.
PLOTLY = "_dash-component-suites/plotly/package_data/plotly.min.js"
GRAPH = "_dash-component-suites/dash/dcc/async-graph.js"
GRID = "_dash-component-suites/dash_ag_grid/async-community.js"
JOINED = "/_joined/"
CHARTS_FIRST = re.compile(r"/(run|compare|experiments)\b")
# Its grids stand far below its chart.
GRIDS_LATER = re.compile(r"/run/")
NO_GRIDS = re.compile(r"/(graph|experiments)\b")
# V8 compiles all functions of a script with this first line while it arrives.
RUNS_AT_ONCE = b"//# allFunctionsCalledOnLoad\n"
KEPT = "public, max-age=31536000, immutable"

_SUITES = "_dash-component-suites/"
_SCRIPT = re.compile(r'<script src="([^"]*)"></script>\s*')
_ASSETS = Path(__file__).parent / "assets"
# Dash brings polyfills for browsers that cannot run these pages; looking for what is missing took every opening 50 ms.
# Of them the pages need only this, regenerator-runtime 0.14.1 of npm as it was published.
_REGENERATOR = Path(__file__).parent / "regenerator" / "runtime.js"


class Dashboard(dash.Dash):
    """A Dash application whose index depends on the page asked for."""

    def __init__(self, *positions: Any, **settings: Any) -> None:
        super().__init__(*positions, assets_ignore=".*", **settings)
        self._joined: dict[str, bytes] = {}
        self._orders: dict[tuple[str, ...], list[str]] = {}
        self._style = self._join("style.css", [file.read_bytes() for file in sorted(_ASSETS.glob("*.css"))])
        self.server.add_url_rule(f"{JOINED}<name>", "joined", self._serve_joined)
        self.server.add_url_rule(f"/{PLOTLY}", "plotly", lambda: _served(plotly_js()))
        self.server.add_url_rule(f"/{GRID}", "grid", lambda: _served(_of_package(f"/{GRID}")))

    def interpolate_index(self, **parts: Any) -> str:
        path = flask.request.path
        asked = tuple(_SCRIPT.findall(parts["scripts"]))
        scripts = self._orders.get(asked) or self._orders.setdefault(asked, self._arranged(asked))
        # What the renderer asks for first, and what the page will draw with.
        early, soon = [layout_of_this(), "_dash-dependencies"], []
        if CHARTS_FIRST.match(path):
            soon += [PLOTLY, GRAPH]
        later = [address for address in scripts if "/dash_ag_grid/" in address and GRIDS_LATER.match(path)]
        if not later and not NO_GRIDS.match(path):
            soon.append(GRID)
        links = [f'<link rel="preload" as="fetch" href="{self._address(file)}" crossorigin>' for file in early]
        # Named for assets/early.js.
        links += [f'<meta name="soon" content="{self._address(file)}">' for file in soon]
        # Named for assets/later.js, which loads it for the first grid.
        links += [f'<meta name="grid-script" content="{address}">' for address in later]
        tags = [f'<script src="{address}"></script>' for address in scripts if address not in later]
        parts["metas"] = parts["metas"] + "".join(links)
        parts["css"] = f'{parts["css"]}<link rel="stylesheet" href="{self._style}">'
        parts["scripts"] = "\n".join([*tags, _SCRIPT.sub("", parts["scripts"])])
        page: str = super().interpolate_index(**parts)
        return page

    def _arranged(self, scripts: tuple[str, ...]) -> list[str]:
        """Addresses of scripts in the order in which they run. Those that load parts of themselves later must stay as
        they are: they look for these beside their own address."""
        base = [address for address in scripts if "/dash/deps/" in address]
        needed = [_of_package(address) for address in base if "/polyfill@" not in address]
        renderer = [address for address in scripts if "/dash-renderer/" in address]
        at = scripts.index(renderer[0])
        own = {file.name: file.read_bytes() for file in sorted(_ASSETS.glob("*.js"))}
        first = own.pop("early.js")
        return [
            self._join("base.js", [first, _REGENERATOR.read_bytes(), *needed]),
            *(address for address in scripts[:at] if address not in base),
            self._join("own-and-dash-renderer.js", [*own.values(), *(_of_package(address) for address in renderer)]),
            # No page has a table of this kind: they have grids.
            *(address for address in scripts[at + 1 :] if "/dash_table/" not in address),
        ]

    def _join(self, title: str, files: list[bytes]) -> str:
        """The address of files as one; it changes with what is in them."""
        content = RUNS_AT_ONCE + b"\n;\n".join(files) if title.endswith(".js") else b"\n".join(files)
        name = f"{hashlib.sha256(content).hexdigest()[:16]}-{title}"
        self._joined[name] = content
        return self._address(f"{JOINED[1:]}{name}")

    def _address(self, file: str) -> str:
        return f"{self.config.requests_pathname_prefix}{file}"

    def _serve_joined(self, name: str) -> flask.Response:
        if name not in self._joined:
            flask.abort(404)
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        return flask.Response(self._joined[name], mimetype=kind, headers={"Cache-Control": KEPT})


def _served(script: bytes) -> Any:
    response = flask.Response(RUNS_AT_ONCE + script, mimetype="text/javascript")
    response.headers["Cache-Control"] = "no-cache"
    response.add_etag()
    return response.make_conditional(flask.request)


@cache
def _of_package(address: str) -> bytes:
    """The file that Dash serves at an address."""
    package, _, file = address.partition(_SUITES)[2].partition("/")
    return resources.files(package).joinpath(check_fingerprint(file)[0]).read_bytes()
