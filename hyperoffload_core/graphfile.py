"""The graph file: a captured graph and how to capture it again, as JSON (``.json``) or gzipped JSON (``.json.gz``)."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from hyperoffload_core.errors import UserError
from hyperoffload_core.files import read_json, write_whole
from hyperoffload_core.ir import Graph, GraphError, Op, Storage, check_graph

FORMAT = "hyperoffload.graph"
VERSION = 1
_RARE = {"stateful": False, "recompute_of": None}


class GraphFileError(UserError):
    """A file that is not a graph of this version; the message names the file and where it differs."""


@dataclass(frozen=True)
class GraphFile:
    """``source`` says how to capture it again: ``{"model": "llama3-8b-train"}`` or ``{"model": "/a/b.py:build"}``."""

    graph: Graph
    source: dict[str, Any] = field(default_factory=dict)


def graph_document(graph: Graph) -> dict[str, Any]:
    """The graph as plain JSON values; `graph_from_document` makes it a graph again."""
    return {
        "name": graph.name,
        "notes": list(graph.notes),
        "ops": [_row(o) for o in graph.ops],
        "storages": [_row(s) for s in graph.storages],
    }


def graph_from_document(document: dict[str, Any]) -> Graph:
    """The graph of a `graph_document`, unchecked. Raises `KeyError` or `TypeError` for fields it does not have."""
    return Graph(
        name=document["name"],
        ops=tuple(Op(**_tuples(o)) for o in document["ops"]),
        storages=tuple(Storage(**_tuples(s)) for s in document["storages"]),
        notes=tuple(document.get("notes", ())),
    )


def write_graph(content: GraphFile, path: Path) -> None:
    """Write the file; it appears whole or not at all."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "source": content.source,
        "hash": content.graph.hash,
        **graph_document(content.graph),
    }
    data = json.dumps(document, separators=(",", ":")).encode()
    if path.name.endswith(".gz"):
        data = gzip.compress(data, compresslevel=6, mtime=0)
    write_whole(path, data)


def read_graph(path: Path) -> GraphFile:
    """Read what `write_graph` wrote, checked. Raises `GraphFileError`."""
    try:
        document = read_json(path)
    except (OSError, ValueError, EOFError) as error:
        raise GraphFileError(f"{path}: not a graph file ({getattr(error, 'strerror', None) or error})") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise GraphFileError(f'{path}: not a graph file (one says "format": "{FORMAT}")')
    if document.get("version") != VERSION:
        raise GraphFileError(f"{path}: version {document.get('version')!r}; this program reads version {VERSION}")
    try:
        graph = graph_from_document(document)
        check_graph(graph)
    except KeyError as error:
        raise GraphFileError(f"{path}: the field {error.args[0]!r} is missing") from error
    except (TypeError, AttributeError, GraphError) as error:
        raise GraphFileError(f"{path}: {error}") from error
    if graph.hash != document.get("hash"):
        raise GraphFileError(f"{path}: the graph does not have the hash the file states, so the file was changed")
    return GraphFile(graph, dict(document.get("source", {})))


def _row(item: Op | Storage) -> dict[str, Any]:
    """Every field of an op or a storage, but what few have only where it is."""
    row = {f.name: getattr(item, f.name) for f in fields(item)}
    return {name: value for name, value in row.items() if name not in _RARE or value is not _RARE[name]}


def _tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
