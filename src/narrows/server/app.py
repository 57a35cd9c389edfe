"""The ASGI application: routes, middlewares and error handlers around the served models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from narrows.errors import NarrowsError
from narrows.server import api_page
from narrows.server.errors import RequestError
from narrows.server.faces import FACES, error_response
from narrows.server.http import Outermost, RequireKey
from narrows.server.models import Models, Served
from narrows.server.openapi import write_page_later
from narrows.server.playground import Playground
from narrows.server.playground import router as playground
from narrows.server.routes import router
from narrows.server.settings import Settings
from narrows.server.unenforced import HEADER


def create_app(engine: Served, settings: Settings | None = None) -> FastAPI:
    """An application that serves `engine`, or several models: a mapping of names to engines, or to `ServedModel`s. The
    first stands for requests that name no model. The caller closes the engines.

    Raises `FormatError` or `EngineError` where a format or a chat template cannot be used, and `InputError` where
    settings of one model are given for several.
    """
    settings = settings or Settings()
    models = Models(engine, settings)
    shared = models.shared

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        models.close()

    app = FastAPI(
        title="narrows",
        summary="OpenAI-compatible completions under grammars",
        lifespan=lifespan,
        redirect_slashes=False,  # a redirect would name the host that the client named
        docs_url=None,  # FastAPI's pages load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # FastAPI would write the page in the event loop
    )
    app.state.models = models
    app.include_router(router)
    app.include_router(api_page.router)
    for face in FACES:
        app.include_router(face.router)
    if settings.playground:
        app.state.playground = Playground(models)
        app.include_router(playground)
    write_page_later(app)
    app.add_exception_handler(NarrowsError, _known)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _left)
    if settings.api_keys:
        app.add_middleware(RequireKey, keys=settings.api_keys, respond=error_response)
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.allowed_origins),
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["x-request-id", HEADER],
        )
    app.add_middleware(Outermost, metrics=shared.metrics, drain=shared.drain, respond=error_response)
    return app


def _known(request: Request, error: Exception) -> Response:
    assert isinstance(error, NarrowsError)
    models = request.app.state.models
    models.shared.metrics.rejected.labels(error.code).inc()
    models.note(error)
    return error_response(request.scope["path"], error)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
    path = request.scope["path"]
    return error_response(path, RequestError(f"{request.method} {path}: {error.detail}", code=code))


def _left(request: Request, error: Exception) -> Response:
    request.app.state.models.shared.metrics.disconnected.inc()
    return Response(status_code=499)
