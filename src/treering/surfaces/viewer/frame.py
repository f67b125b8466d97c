"""The frame around every page: search, navigation, scope and period; and pages without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from treering.surfaces.viewer.parts import NOTHING, Markup, html, html_if
from treering.surfaces.viewer.requests import PERIODS, PageBody, PageRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treering.surfaces.server.problems import Problem

THEMES: Final = ("auto", "light", "dark")
THEME_COOKIE: Final = "treering-theme"


class NavigationItem(NamedTuple):
    """A page that the frame links to, and the letter that opens it after ``g``."""

    path: str
    name: str
    letter: str


NAVIGATION: Final = (
    NavigationItem("/sessions", "Sessions", "s"),
    NavigationItem("/files", "Files", "f"),
    NavigationItem("/tools", "Tools", "t"),
    NavigationItem("/usage", "Usage", "u"),
    NavigationItem("/memory", "Memory", "m"),
    NavigationItem("/compare", "Compare", "c"),
    NavigationItem("/trust", "Trust", "r"),
)
_OWN: Final = frozenset({"scope", "since", "until", "after"})


def framed(page: PageBody, request: PageRequest, *, live: int) -> Markup:
    """Return a page in its frame."""
    return html(
        """{head}<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="frame">
<div class="bar">
<a class="brand" href="/sessions">Treering</a>
<button type="button" id="find" class="find" aria-haspopup="dialog" aria-keyshortcuts="Control+K">\
<span aria-hidden="true">⌕</span> Search<span class="roomy"> everything</span>\
<kbd class="roomy">Ctrl K</kbd></button>
<a id="live" class="live" href="{live_url}"{hidden}><span class="dot" aria-hidden="true">●</span> \
<span data-count>{live}</span> live</a>
<button type="button" id="theme" class="plain" data-theme-now="{theme}">\
<span aria-hidden="true">◐</span> <span class="roomy">{theme_name}</span>\
<span class="unseen"> theme</span></button>
<button type="button" id="help" class="plain" aria-haspopup="dialog" aria-keyshortcuts="?">\
<span aria-hidden="true">?</span><span class="unseen">Keyboard help</span></button>
</div>
<div class="places">
<nav aria-label="Screens"><ul>{places}</ul></nav>
{filters}
</div>
</header>
<main id="main" tabindex="-1" class="{width}" data-modules="{modules}">
{body}
</main>
<p id="said" class="unseen" role="status"></p>
</body>
</html>
""",
        head=_head(page, request.theme),
        live_url="/sessions?state=running",
        hidden=NOTHING if live else Markup(" hidden"),
        live=live,
        theme=request.theme,
        theme_name=request.theme.capitalize(),
        places=[_place(item, request) for item in NAVIGATION],
        filters=_filters(request),
        width="wide" if page.is_wide else "narrow",
        modules=" ".join(page.modules),
        body=page.body,
    )


def bare(page: PageBody, *, theme: str) -> Markup:
    """Return a page without navigation, for people who are not logged in."""
    return html(
        """{head}<body class="bare">
<main id="main" tabindex="-1" class="narrow" data-modules="{modules}">
<p class="brand">Treering</p>
{body}
</main>
<p id="said" class="unseen" role="status"></p>
</body>
</html>
""",
        head=_head(page, theme),
        modules=" ".join(page.modules),
        body=page.body,
    )


def login_page(reason: str | None) -> PageBody:
    """Return the page that exchanges a token for a cookie; ``reason``: why the last was refused."""
    return PageBody(
        title="Open the viewer",
        modules=("login",),
        status=401,
        body=html(
            """<h1>Open the viewer</h1>
<p id="login-state" role="alert" class="notice">{reason}</p>
<p>The viewer opens by a link that carries a token, and your browser does not have a valid one.
A token is good until its server ends.</p>
<ol>
<li>In a terminal, run <code>treering view</code>: it opens the viewer by itself.</li>
<li>Or paste the token that <code>treering serve</code> has printed, or that
<code>treering tokens add</code> has made:</li>
</ol>
<form id="login" class="row">
<label>Token <input type="password" name="token" required autocomplete="off"
 spellcheck="false" placeholder="trt_…"></label>
<button type="submit" class="main">Open</button>
</form>
<noscript><p class="notice">The viewer needs JavaScript.</p></noscript>""",
            reason=sentence(reason),
        ),
    )


def problem_page(problem: Problem, status: int) -> PageBody:
    """Return a page that says what went wrong and what to do."""
    return PageBody(
        title="Not found" if status == 404 else "Something went wrong",
        status=status,
        body=html(
            """<h1>{title}</h1>
<p class="notice bad">{message}</p>
{hint}
<p><a href="/sessions">All sessions</a></p>""",
            title="Not found" if status == 404 else "This did not work",
            message=sentence(problem.message),
            hint=html_if("<p>{}</p>", sentence(problem.hint)),
        ),
    )


def sentence(text: str | None) -> str:
    """Return what an error says as a sentence of a page."""
    return "" if not text else f"{text[:1].upper()}{text[1:]}."


def empty(title: str, *lessons: Markup) -> Markup:
    """Return an empty screen, which says how to fill it."""
    return html(
        '<div class="empty"><p><strong>{}</strong></p>{}</div>',
        title,
        [html("<p>{}</p>", lesson) for lesson in lessons],
    )


def theme_of(cookies: Mapping[str, str]) -> str:
    """Return the theme that the user chose in this browser."""
    chosen = cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else "auto"


def _head(page: PageBody, theme: str) -> Markup:
    return html(
        """<!doctype html>
<html lang="en" data-theme="{theme}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · Treering</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
{styles}<script type="module" src="/static/app.js"></script>
</head>
""",
        theme=theme,
        title=page.title,
        styles=[
            html('<link rel="stylesheet" href="/static/{}.css">\n', name)
            for name in ("tokens", "base", "search", *page.styles)
        ],
    )


def _place(item: NavigationItem, request: PageRequest) -> Markup:
    is_here = request.path == item.path or request.path.startswith(f"{item.path}/")
    return html(
        '<li><a href="{}" data-letter="{}"{}>{}</a></li>',
        request.url(item.path),
        item.letter,
        Markup(' aria-current="page"') if is_here else None,
        item.name,
    )


def _filters(request: PageRequest) -> Markup:
    """Return the choice of scope and period; it keeps the rest of the address."""
    scope = request.arguments.scope
    names = [("", "all scopes"), *((name, name) for name in request.all_scopes)]
    if scope and scope not in request.all_scopes:
        names.append((scope, scope))
    periods = dict(PERIODS)
    if request.since not in periods:
        periods[request.since] = f"since {request.since}"
    path = "/sessions" if request.path.startswith("/sessions/") else request.path
    fields = {} if path != request.path else request.query
    return html(
        """<form class="filters" method="get" action="{path}" data-instant>
{kept}<label><span class="unseen">Scope</span><select name="scope">{scopes}</select></label>
<label><span class="unseen">Period</span><select name="since">{periods}</select></label>
<noscript><button type="submit">Apply</button></noscript>
</form>""",
        path=path,
        kept=[
            html('<input type="hidden" name="{}" value="{}">\n', name, value)
            for name, value in fields.items()
            if name not in _OWN
        ],
        scopes=[_option(value, name, chosen=scope or "") for value, name in names],
        periods=[_option(value, name, chosen=request.since) for value, name in periods.items()],
    )


def _option(value: str, name: str, *, chosen: str) -> Markup:
    selected = Markup(" selected") if value == chosen else None
    return html('<option value="{}"{}>{}</option>', value, selected, name)
