"""The API page at /docs, for people, and at /openapi.json, for programs.

Both are written once, when somebody first asks for them, in a worker thread (some 0.3 s). /docs is the other as HTML.
It has no script and loads nothing, so it works without a network. The policy that is sent with it lets it load nothing,
either.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, JSONResponse

router = APIRouter()
_STYLE = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, .type { font-family: ui-monospace, monospace; font-size: .9em; }
details { border: 1px solid #8886; border-radius: .4rem; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; } summary b { display: inline-block; min-width: 4rem; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top;
  padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8883; }
h3 { margin-bottom: .2rem; scroll-margin-top: 1rem; } :target { background: #fe83; }
"""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    f"style-src 'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_INTRODUCTION = """<p>Each operation with its body and its answers. The same for programs:
<a href="openapi.json">openapi.json</a>. To try it out, use the playground at <a href="./">/</a>, if the server has
it.</p>"""
_REFERENCE = "#/components/schemas/"


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> JSONResponse:
    """The page for programs. Where the application is mounted below a path, it names that path."""
    page = await asyncio.to_thread(request.app.openapi)
    root = request.scope.get("root_path", "").rstrip("/")
    return JSONResponse({**page, "servers": [{"url": root}]} if root else page)


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """The page for people."""
    state = request.app.state
    if not hasattr(state, "api_page"):
        state.api_page = await asyncio.to_thread(lambda: html_of(request.app.openapi()))
    return HTMLResponse(state.api_page, headers=HEADERS)


def html_of(page: Mapping[str, Any]) -> str:
    """The page of an OpenAPI document whose references lead into its own components."""
    title = escape(page["info"]["title"])
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}: API</title>'
    operations = [
        _operation(method.upper(), path, operation)
        for path, methods in page["paths"].items()
        for method, operation in methods.items()
    ]
    shapes = [
        f'<h3 id="{escape(name)}">{escape(name)}</h3>{_described(schema)}{_fields(schema)}'
        for name, schema in sorted(page["components"]["schemas"].items())
    ]
    body = [f"<h1>{title}: API</h1>", _INTRODUCTION, *operations, "<h2>Shapes</h2>", *shapes]
    return (
        f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{"".join(body)}</body></html>'
    )


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"<summary><b>{method}</b> <code>{escape(path)}</code> {escape(operation.get('summary', ''))}</summary>"]
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<h3>Body, <code>{escape(media_type)}</code></h3>{_whole(content.get('schema', {}))}")
    for status, response in operation["responses"].items():
        answer = "Any other status" if status == "default" else status
        parts.append(f"<h3>{answer}: {escape(response['description'])}</h3>")
        for media_type, content in response.get("content", {}).items():
            each = ", each event" if media_type == "text/event-stream" else ""
            schema = content.get("schema")
            parts.append(f"<p><code>{escape(media_type)}</code>{each}</p>{_whole(schema) if schema else ''}")
    return f"<details>{''.join(parts)}</details>"


def _whole(schema: Mapping[str, Any]) -> str:
    if "properties" in schema:
        return _described(schema) + _fields(schema)
    return f'<p class="type">{_type(schema)}</p>'


def _described(schema: Mapping[str, Any]) -> str:
    return f"<p>{escape(schema['description'])}</p>" if "description" in schema else ""


def _fields(schema: Mapping[str, Any]) -> str:
    properties = schema.get("properties")
    if not properties:
        return "" if schema.get("type") == "object" else f'<p class="type">{_type(schema)}</p>'
    required = schema.get("required", ())
    rows = [
        f'<tr><td><code>{escape(name)}</code></td><td class="type">{_type(field)}</td>'
        f"<td>{_notes(name in required, field)}</td></tr>"
        for name, field in properties.items()
    ]
    return f"<table><tr><th>field</th><th>type</th><th></th></tr>{''.join(rows)}</table>"


def _notes(required: bool, field: Mapping[str, Any]) -> str:
    notes = ["required"] if required else []
    if field.get("default") is not None:
        notes.append(f"default <code>{escape(json.dumps(field['default']))}</code>")
    return ", ".join([*notes, *([escape(field["description"])] if "description" in field else [])])


def _type(schema: Mapping[str, Any]) -> str:
    return " | ".join(dict.fromkeys(_types(schema)))


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    """The alternatives. pydantic's schemas nest as deep as its types, a few levels."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(_REFERENCE))
        yield f'<a href="#{name}">{name}</a>'
    elif "anyOf" in schema or "oneOf" in schema:
        for option in schema.get("anyOf", schema.get("oneOf")):
            yield from _types(option)
    elif "const" in schema or "enum" in schema:
        for value in schema.get("enum", [schema.get("const")]):
            yield escape(json.dumps(value))
    elif schema.get("type") == "array":
        yield f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    else:
        yield escape(str(schema.get("type", "any")))
