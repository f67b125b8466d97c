"""The table of all screens: what each path shows, and the arguments it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from treering.surfaces.server.routes import Request, Route
from treering.surfaces.viewer import (
    compare,
    files,
    home,
    memory,
    search,
    session,
    session_actions,
    session_details,
    tools,
    trust,
    usage,
)
from treering.surfaces.viewer.requests import PageBody, ViewArguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from treering.surfaces.viewer.markup import Markup
    from treering.surfaces.viewer.requests import PageRequest

    Screen = Callable[[PageRequest], PageBody | Markup | Response]


def _page(path: str, answer: Screen, arguments: type[ViewArguments] = ViewArguments) -> Route:
    """Return a row; scripts fetch what ``answer`` returns as Markup or as a response."""
    return Route(
        method="GET",
        path=path,
        right="read",
        answer=cast("Callable[[Request], Any]", answer),
        result=PageBody,
        arguments=arguments,
        scopes=lambda asked: asked.named_scopes(),
    )


SCREENS: Final = (
    _page("/sessions", home.sessions_page, home.SessionListArguments),
    _page("/sessions/{session_id}", session.session_page, session.SessionArguments),
    _page("/sessions/{session_id}/rows", session.rows, session.RowsArguments),
    _page("/sessions/{session_id}/find", session.find, session.FindArguments),
    _page("/sessions/{session_id}/outline", session.session_outline),
    _page("/sessions/{session_id}/picture", session.picture, session.PictureArguments),
    _page("/sessions/{session_id}/export", session.export, session.ExportArguments),
    _page(
        "/sessions/{session_id}/event",
        session_details.event_drawer,
        session_details.EventArguments,
    ),
    _page(
        "/sessions/{session_id}/context",
        session_details.model_view,
        session_details.ModelViewArguments,
    ),
    _page("/sessions/{session_id}/tree", session_details.fork_tree),
    _page(
        "/sessions/{session_id}/fork",
        session_actions.fork_plan,
        session_actions.ForkPlanArguments,
    ),
    _page("/search", search.search_page, search.SearchPageArguments),
    _page("/files", files.files_page, files.FilesArguments),
    _page("/tools", tools.tools_page, tools.ToolsArguments),
    _page("/usage", usage.usage_page, usage.UsageArguments),
    _page("/memory", memory.memory_page, memory.MemoryArguments),
    _page("/memory/{fact_id}", memory.fact_page),
    _page("/compare", compare.compare_page, compare.CompareArguments),
    _page("/trust", trust.trust_page, trust.TrustArguments),
)
"""Every screen of the viewer."""
