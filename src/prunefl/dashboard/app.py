"""The web application: a page, its files, a stream of news, and metrics. The only home of FastAPI."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from prunefl.dashboard.access import Access, Terms
from prunefl.dashboard.hub import Hub, Reader
from prunefl.dashboard.metrics import CONTENT_TYPE, render_metrics

LOOK_SECONDS = 0.5
PING_SECONDS = 5.0
"""How often a page hears of us though nothing has changed: so it can tell a quiet run from a dashboard that is gone."""

MOST_READERS = 50
OWN = ("dashboard.js", "lanes.js", "dashboard.css", "tiles.js")
SHARED = ("base.css", "numbers.js", "charts.js", "heat.js", "reading.js", "theme.js", "tabs.js")
AS_THEY_ARE = (int, str, type(None))
KINDS = {"js": "text/javascript", "css": "text/css"}


def make_app(hub: Hub, terms: Terms, is_wanted: Callable[[], bool] = lambda: True) -> Any:
    """Return the application; it ends its looking, and says so to pages, when nobody wants it any more."""
    bell = Bell()

    @asynccontextmanager
    async def alive(_: FastAPI) -> AsyncIterator[None]:
        looking = asyncio.create_task(_keep_looking(hub, bell, is_wanted))
        yield
        looking.cancel()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=alive)
    served = {name: _read(name) for name in (*OWN, *SHARED)}

    @app.get("/")
    def page() -> HTMLResponse:
        return HTMLResponse(_read("index.html"))

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in served:
            return PlainTextResponse("no such file\n", 404)
        return Response(served[name], media_type=KINDS[name.rpartition(".")[2]])

    @app.get("/events")
    async def events(run: str = "") -> Response:
        if bell.readers >= MOST_READERS:
            return PlainTextResponse("too many pages are open\n", 503)
        return StreamingResponse(_stream(Reader(hub, run), bell), media_type="text/event-stream")

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(render_metrics(list(hub.views.values())), media_type=CONTENT_TYPE)

    app.add_middleware(_Guard, terms=terms)
    return app


class _Guard:
    """Access as a middleware."""

    def __init__(self, app: Any, terms: Terms) -> None:
        self.inner = Access(app, terms)

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        return self.inner(scope, receive, send)


class Bell:
    """Wakes all readers at once."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()
        self.readers = 0
        self.is_over = False

    def ring(self) -> None:
        """Wake who waits."""
        self.rung.set()
        self.rung = asyncio.Event()


async def _keep_looking(hub: Hub, bell: Bell, is_wanted: Callable[[], bool]) -> None:
    while is_wanted():
        if await asyncio.to_thread(hub.look):
            bell.ring()
        # a long file is read bit by bit, and shown meanwhile
        await asyncio.sleep(0.02 if hub.is_behind else LOOK_SECONDS)
    bell.is_over = True
    bell.ring()


async def _stream(reader: Reader, bell: Bell) -> AsyncIterator[bytes]:
    """Yield news as server-sent events; a ping where there is none."""
    bell.readers += 1
    try:
        while not bell.is_over:
            rung = bell.rung
            news = {**await asyncio.to_thread(reader.news), "now": time.time()}
            yield b"event: news\ndata: " + _packed(news) + b"\n\n"
            while not bell.is_over and not rung.is_set():
                try:
                    await asyncio.wait_for(rung.wait(), PING_SECONDS)
                except TimeoutError:
                    yield b"event: ping\ndata: " + _packed({"now": time.time()}) + b"\n\n"
    finally:
        bell.readers -= 1


def _packed(news: Any) -> bytes:
    return json.dumps(_plain(news), separators=(",", ":"), allow_nan=False).encode()


def _plain(value: Any) -> Any:
    """Return the value with floats to seven digits, but hundredths of large ones: times of day need them."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return float(f"{value:.7g}") if abs(value) < 1e6 else round(value, 2)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # ten thousand items a second with a thousand clients, most of them whole numbers
        return [item if type(item) in AS_THEY_ARE else _plain(item) for item in value]
    return value


def _read(name: str) -> str:
    room = "prunefl.report" if name in SHARED else "prunefl.dashboard"
    return (files(room) / "web" / name).read_text(encoding="utf-8")
