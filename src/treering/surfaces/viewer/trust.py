"""Trust: proof, erasures, retention, secrets, health."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from treering.model.kinds import ERASURE_KINDS
from treering.surfaces.shared.health import DoctorFinding, check_scope, masked
from treering.surfaces.shared.texts import counted
from treering.surfaces.shared.times import moment
from treering.surfaces.viewer.parts import (
    NOTHING,
    Markup,
    TableColumn,
    action_button,
    answer,
    facts_list,
    figure,
    html,
    html_if,
    short_id,
    table,
    when,
)
from treering.surfaces.viewer.requests import PageBody, PageRequest, ViewArguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.events import Header
    from treering.model.receipts import Verification

ERASURES: Final = 50
SCOPES_NAMED: Final = 3
_MARKS: Final = {"ok": ("✓", "good"), "warning": ("!", "warn"), "error": ("✕", "bad")}


class TrustArguments(ViewArguments, frozen=True, kw_only=True):
    """Whether to verify now."""

    verify: bool = False


def trust_page(request: PageRequest) -> PageBody:
    """Return the evidence for and against trusting the ledger."""
    erasures = _erasures(request)
    findings = list(_findings(request))
    bad = sum(finding.level != "ok" for finding in findings)
    return PageBody(
        title="Trust",
        modules=("actions",),
        styles=("trust",),
        body=html(
            """<h1 class="unseen">Trust</h1>{answer}
<h2 id="proof">Proof</h2>{proof}
<h2>Erasures</h2>{erasures}
<h2>Retention</h2>{retention}
<h2>Secrets</h2>{secrets}
<h2>Health</h2>{findings}
{forget}""",
            answer=answer(
                figure(
                    f"{len(request.scopes):,}", "scopes" if len(request.scopes) != 1 else "scope"
                ),
                figure(f"{len(erasures):,}", "erasures" if len(erasures) != 1 else "erasure"),
                figure(f"{bad:,}", "to look at") if bad else html("nothing to look at"),
            ),
            proof=_proof(request),
            erasures=_erasure_table(request, erasures),
            retention=_retention(request),
            secrets=_secrets(request),
            findings=_health(findings),
            forget=_forget(request),
        ),
    )


def _proof(request: PageRequest) -> Markup:
    """Return whether the chain holds, on request; that reads every event."""
    if not request.arguments.verify:
        return html(
            '<p>Every event is chained to the one before by its hash. <a class="chip" href="{}">'
            'Verify now</a></p><p class="small muted">It reads every event: about a second for'
            " 100,000. On the command line: <code>treering verify</code>.</p>{}",
            request.url(verify="true"),
            _anchor(request),
        )
    results = [(None, request.ledger.admin.verify())] if _is_whole(request) else [
        (scope, request.ledger.admin.verify(scope)) for scope in request.scopes
    ]  # fmt: skip
    return html("{}{}", [_verified(scope, result) for scope, result in results], _anchor(request))


def _is_whole(request: PageRequest) -> bool:
    """Return whether the page is about the whole ledger, and the token covers it."""
    return not request.grant.scopes and not request.arguments.scope


def _verified(scope: str | None, one: Verification) -> Markup:
    of = "The whole ledger" if scope is None else f"Scope {scope}"
    if one.intact:
        more = (("redacted", one.redacted), ("expired", one.expired), ("sealed", one.sealed))
        gone = ", ".join(f"{number:,} {name}" for name, number in more if number)
        return html(
            '<p class="notice good" role="status"><b>✓ {} is intact:</b> {} in {}{}.</p>',
            of,
            counted(one.events, "event"),
            counted(one.sessions, "session"),
            f", of them {gone}" if gone else "",
        )
    broken = one.first_broken
    return html(
        '<p class="notice bad" role="alert"><b>✕ {} is broken</b> in {}.{}</p>',
        of,
        counted(one.broken_sessions, "session"),
        html(
            " First in session {} of {} at event {}: {}.",
            broken.session_id,
            broken.scope,
            broken.seq,
            broken.detail,
        )
        if broken
        else None,
    )


def _anchor(request: PageRequest) -> Markup:
    """Return the root over all sessions now; stored elsewhere, it proves the past."""
    if not _is_whole(request):
        return NOTHING
    receipt = request.ledger.admin.anchor(io.BytesIO())
    return html(
        '<h3>Anchor</h3>{}<p class="small muted">Keep the root where nobody can write who'
        " writes the ledger: <code>treering anchor --out anchor.json</code>, and later"
        " <code>treering verify --anchor anchor.json</code>.</p>",
        facts_list(
            [
                ("root now", html('<span class="mono words">{}</span>', receipt.root)),
                ("events", f"{receipt.events:,}"),
                ("sessions", f"{receipt.sessions:,}"),
                ("at", moment(receipt.at_ms)),
            ]
        ),
    )  # fmt: skip


def _erasures(request: PageRequest) -> list[Header]:
    headers = [
        header
        for scope in request.scopes
        for header in request.ledger.headers(
            scope, kinds=sorted(ERASURE_KINDS), last=ERASURES
        ).items
    ]
    headers.sort(key=lambda header: -header.ts_ms)
    return headers[:ERASURES]


def _erasure_table(request: PageRequest, erasures: list[Header]) -> Markup:
    state = request.ledger.admin.erasure_state()
    physical = html(
        '<p class="small {}">{}</p>',
        "muted" if state == "done" else "bad",
        "The bytes of erased content are gone from all files."
        if state == "done"
        else "Bytes of erased content are still in a file that somebody reads: treering gc",
    )
    if not erasures:
        return html('<p class="muted">Nothing was redacted, expired or forgotten.</p>{}', physical)
    return html(
        '<p class="small muted">Each is an event in the chain, and accounts for what was'
        " removed.</p>{}{}",
        table(
            [TableColumn("What", "words"), TableColumn("Kind"), TableColumn("By", "hide-small"),
             TableColumn("When", "number"), TableColumn("Scope", "hide-small"),
             TableColumn("Voucher")],
            [
                (
                    request.text(header.summary),
                    header.kind.partition(".")[2],
                    request.text(header.agent_id),
                    when(header.ts_ms, request),
                    header.scope,
                    short_id(header.event_id, name="id of the event that vouches for it"),
                )
                for header in erasures
            ],
            caption="Erasures",
        ),
        physical,
    )  # fmt: skip


def _retention(request: PageRequest) -> Markup:
    """Return how long events are kept: one row for all scopes with the same policy."""
    policies: dict[tuple[str, bool], list[str]] = {}
    for scope in request.scopes:
        limits = ", ".join(
            f"{kind} {counted(days, 'day')}"
            for kind, days in sorted(request.ledger.retention(scope).items())
            if days is not None
        )
        is_own = bool(request.ledger.own_retention(scope))
        policies.setdefault((limits, is_own), []).append(scope)
    if not policies:
        return html('<p class="muted">No scope has a policy yet.</p>')
    rows = [
        (
            ", ".join(scopes) if len(scopes) <= SCOPES_NAMED else f"{len(scopes):,} scopes",
            limits or "everything is kept",
            "its own" if is_own else "defaults",
        )
        for (limits, is_own), scopes in policies.items()
    ]
    columns = [TableColumn("Scope"), TableColumn("Kept for", "words"), TableColumn("By", "nowrap")]
    return html(
        '{}<p class="small muted">Imported sessions are kept unless a policy names their kinds.'
        " <code>treering retention</code> changes it.</p>",
        table(columns, rows, caption="How long events are kept"),
    )


def _secrets(request: PageRequest) -> Markup:
    alerts = [
        header
        for scope in request.scopes
        for header in request.ledger.headers(scope, kinds=["ops.alert"], last=ERASURES).items
        if "secret" in header.summary.casefold()
    ]
    alerts.sort(key=lambda header: -header.ts_ms)
    state = html(
        "<p>Secrets are masked before anything is recorded from logs and hooks, and again on every"
        " page here.</p>"
    )
    if not alerts:
        return state
    return html(
        "{}<ul>{}</ul>",
        state,
        [
            html('<li>{} <span class="muted small">{} · {}</span></li>',
                 request.text(header.summary), header.scope, when(header.ts_ms, request))
            for header in alerts[:10]
        ],
    )  # fmt: skip


def _findings(request: PageRequest) -> Iterator[DoctorFinding]:
    """Return the findings of treering doctor on the ledger, without those on the machine."""
    problems = [
        finding
        for scope in request.scopes
        for finding in check_scope(request.ledger, scope, request.now_ms)
        if finding.level != "ok"
    ]
    yield from (masked(finding, request.mask) for finding in problems)


def _health(findings: list[DoctorFinding]) -> Markup:
    if all(finding.level == "ok" for finding in findings):
        return html(
            '<p class="good">✓ Nothing is wrong.</p><p class="small muted"><code>treering doctor'
            "</code> also looks at logs, hooks and the disk of this machine.</p>"
        )
    return html('<ul class="findings">{}</ul>', [_finding(finding) for finding in findings])


def _finding(finding: DoctorFinding) -> Markup:
    mark, style = _MARKS[finding.level]
    return html(
        '<li><span class="{style}" aria-hidden="true">{mark}</span>'
        '<span class="unseen">{level}:</span> {message}{fix}{items}</li>',
        style=style,
        mark=mark,
        level=finding.level,
        message=finding.message,
        fix=html_if('<br><span class="small muted">do: <code>{}</code></span>', finding.fix),
        items=html_if(
            "<ul>{}</ul>", [html('<li class="small mono">{}</li>', item) for item in finding.items]
        ),
    )


def _forget(request: PageRequest) -> Markup:
    """Return the buttons that erase a person of the scope; nothing without the right."""
    if not request.may("erase") or not request.arguments.scope:
        return NOTHING
    people: dict[str, Any] = {
        outline.user: None
        for figure in request.figures(1)
        for outline in figure.outlines.values()
        if outline.user
    }
    if not people:
        return NOTHING
    scope = request.the_scope
    return html(
        '<h2>Forget a person</h2><p class="small muted">Everything about them in {} is erased,'
        " physically; the chain still holds. You are shown how much before anything happens.</p>"
        '<p class="row">{}</p>',
        scope,
        [
            action_button(
                request, "erase", f"Forget {request.text(name)}",
                url=f"/v1/scopes/{quote(scope, safe='')}/forget", body={"user": name},
                is_danger=True, preview="yes", title=f"Forget {request.text(name)}?",
                says="This is erased for good:", done="Forgotten.",
            )
            for name in sorted(people)[:20]
        ],
    )  # fmt: skip
