"""Bundles to share: a session as a page and as events, with a proof that needs no ledger.

    index.html     the session for people
    events.jsonl   its events as native JSONL, chain included; one with a secret has no content
    proof.json     sizes and digests of the files, the heads of the chains, and a root over it all

The proof is checked with these functions alone, from the file alone.
"""

from __future__ import annotations

import json
import zipfile
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any, Final, Literal

import msgspec

from treering.errors import InvalidInput
from treering.ledger import chain
from treering.ledger.jsonl import (
    ABSENT,
    EndLine,
    EventLine,
    OpeningLine,
    SessionLine,
    encode_line,
    parse_line,
    to_record,
    to_session,
)
from treering.ledger.records import Record, SessionRecord, shared_seq
from treering.ledger.restoring import check_session
from treering.ledger.verification import link_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from treering.ledger.jsonl import Line

FORMAT: Final = "treering.bundle.v1"
PAGE: Final = "index.html"
EVENTS: Final = "events.jsonl"
PROOF: Final = "proof.json"
FILE_BYTES_MAX: Final = 4 * 1024**3
"""A file of a bundle that says to be larger is not unpacked."""
_STAMP: Final = (1980, 1, 1, 0, 0, 0)
COVERS: Final = (
    "every file is as it was when the bundle was made, if its maker gave you the same root",
    "the events of each session follow one another without a gap, from the first to the last one",
    "who, what kind and when: the header of every event that has not expired",
    "the content of events that have it: summary, refs and payload",
)
COVERS_NOT: Final = (
    "who made the bundle: compare the root with the one that its maker gave you, or with an anchor",
    "what happened after the last event, or was never recorded",
    "content that is withheld or erased: its digest is part of the chain, its words are not here",
    "the page beyond its digest: it is made from the events and leaves out what is not for people",
)


class BundleFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a bundle."""

    sha256: str
    bytes: int


class ChainHead(msgspec.Struct, frozen=True, kw_only=True):
    """Where the chain of a session ends in a bundle."""

    session_id: str
    genesis: str
    first_seq: int
    last_seq: int
    link: str


class BundleProof(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle promises."""

    format: Literal["treering.bundle.v1"] = FORMAT
    treering: str
    at: str
    scope: str
    session_id: str
    files: dict[str, BundleFile]
    heads: list[ChainHead]
    events: int
    with_content: int
    """Events whose content is here, and proved."""
    withheld: int
    """Events whose content is left out, or here without the salt that would prove it."""
    secrets: int
    """Those of them that are left out because they hold a secret."""
    erased: int
    covers: tuple[str, ...] = COVERS
    covers_not: tuple[str, ...] = COVERS_NOT
    root: str = ""
    """The digest of everything above."""


class BundleCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a bundle."""

    intact: bool
    faults: list[str]
    root: str | None
    proof: BundleProof | None
    anchored: int | None = None
    """Heads that an anchor confirms."""


def without_secrets(line: bytes, is_secret: Callable[[Any], bool]) -> tuple[bytes, bool]:
    """Return a line of an export, and whether its content was left out because of a secret."""
    entry = parse_line(line)
    if not isinstance(entry, EventLine) or not is_secret(msgspec.json.decode(line)):
        return line, False
    bare = msgspec.structs.replace(entry, summary=None, refs=ABSENT, payload=ABSENT, salt=None)
    return encode_line(bare), True


def write_bundle(
    stream: IO[bytes],
    *,
    page: bytes,
    lines: Iterable[bytes],
    secrets: int,
    session_id: str,
    version: str,
    at: str,
) -> BundleProof:
    """Write a bundle of a page and of the lines of an export, which are checked first."""
    events = b"".join(line + b"\n" for line in lines)
    chains = _Chains()
    for line in events.splitlines():
        chains.take(parse_line(line))
    proof = BundleProof(
        treering=version,
        at=at,
        scope=chains.scope,
        session_id=session_id,
        files={
            name: BundleFile(sha256=sha256(content).hexdigest(), bytes=len(content))
            for name, content in ((PAGE, page), (EVENTS, events))
        },
        heads=chains.heads(),
        events=chains.events,
        with_content=chains.with_content,
        withheld=chains.withheld,
        secrets=secrets,
        erased=chains.erased,
    )
    proof = msgspec.structs.replace(proof, root=_root(proof))
    proof_json = msgspec.json.format(msgspec.json.encode(proof), indent=1) + b"\n"
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in ((PAGE, page), (EVENTS, events), (PROOF, proof_json)):
            archive.writestr(zipfile.ZipInfo(name, _STAMP), content, zipfile.ZIP_DEFLATED)
    return proof


def verify_bundle(
    stream: IO[bytes], *, root: str | None = None, anchor: IO[bytes] | None = None
) -> BundleCheck:
    """Check a bundle: its files, its chains and, if given, its root and an anchor of the ledger.

    Raise InvalidInput if it is not a bundle.
    """
    try:
        with zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
            if PROOF not in names:
                raise InvalidInput(f"it has no {PROOF}", hint="name a bundle of treering export")
            files = {name: _read(archive, name) for name in names}
    # zipfile raises NotImplementedError for a compression that it does not know.
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise InvalidInput(f"it is not a bundle: {error}", hint="name an unchanged one") from error
    try:
        proof = msgspec.json.decode(files[PROOF], type=BundleProof)
    except msgspec.MsgspecError as error:
        fault = f"{PROOF} cannot be read: {error}"
        return BundleCheck(intact=False, faults=[fault], root=None, proof=None)
    faults = _file_faults(proof, files)
    if root is not None and proof.root != root.strip().lower():
        faults.append(f"the root is {proof.root}, not the one that you gave")
    chains = _Chains()
    faults += _chain_faults(proof, chains, files.get(EVENTS, b""))
    anchored = None
    if anchor is not None:
        anchored, wrong = _anchored(chains, anchor)
        faults += wrong
    return BundleCheck(
        intact=not faults, faults=faults, root=proof.root, proof=proof, anchored=anchored
    )


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > FILE_BYTES_MAX:
        raise ValueError(f"{name} is larger than {FILE_BYTES_MAX} bytes")
    return archive.read(name)


def _file_faults(proof: BundleProof, files: dict[str, bytes]) -> list[str]:
    faults = [] if _root(proof) == proof.root else ["the proof was changed: its root does not fit"]
    for name, stated in proof.files.items():
        if name not in files:
            faults.append(f"{name} is missing")
        elif sha256(files[name]).hexdigest() != stated.sha256:
            faults.append(f"{name} was changed")
    faults += [f"{name} was added" for name in files if name not in {*proof.files, PROOF}]
    return faults


def _chain_faults(proof: BundleProof, chains: _Chains, events: bytes) -> list[str]:
    """Follow the events into ``chains``; return the faults."""
    try:
        for line in events.splitlines():
            chains.take(parse_line(line))
        chains.finish()
    except (InvalidInput, ValueError) as error:
        return [str(error)]
    faults = []
    if chains.heads() != proof.heads:
        faults.append("the events end elsewhere than the proof says")
    counts = (chains.events, chains.with_content, chains.withheld, chains.erased)
    if counts != (proof.events, proof.with_content, proof.withheld, proof.erased):
        faults.append("there are not as many events as the proof says")
    return faults


def _root(proof: BundleProof) -> str:
    fields = msgspec.to_builtins(msgspec.structs.replace(proof, root=""))
    return sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class _Chains:
    """The chains of the sessions in an export, followed line by line."""

    def __init__(self) -> None:
        self.scope = ""
        self.events = self.with_content = self.withheld = self.erased = 0
        self.links: dict[str, dict[int, bytes]] = {}
        """By genesis, the link at each seq."""
        self._sessions: dict[str, SessionRecord] = {}
        self._last: dict[str, tuple[int, bytes]] = {}
        self._is_ended = False

    def take(self, line: Line) -> None:
        """Follow one line. Raise InvalidInput if it does not fit those before it."""
        if isinstance(line, OpeningLine):
            self.scope = line.scope
        elif isinstance(line, SessionLine):
            self._begin(to_session(line, self.scope))
        elif isinstance(line, EventLine):
            self._follow(to_record(line, self.scope))
        else:
            self._end(line)

    def finish(self) -> None:
        """Raise InvalidInput if the last line is missing."""
        if not self._is_ended:
            raise InvalidInput("the events are cut off: the last line is missing", hint=_INTACT)

    def heads(self) -> list[ChainHead]:
        return [
            ChainHead(
                session_id=name,
                genesis=session.genesis.hex(),
                first_seq=shared_seq(session) + 1,
                last_seq=self._last[name][0],
                link=self._last[name][1].hex(),
            )
            for name, session in self._sessions.items()
        ]

    def _begin(self, session: SessionRecord) -> None:
        check_session(session)
        if session.session_id in self._sessions:
            raise InvalidInput(f"session {session.session_id} begins twice", hint=_INTACT)
        cut = session.cut
        if cut is not None:
            shared = self.links.get(cut.genesis.hex(), {}).get(cut.seq)
            if shared != cut.link:
                raise InvalidInput(
                    f"session {session.session_id} is not a fork of a session before it",
                    hint=_INTACT,
                )
        self._sessions[session.session_id] = session
        self._last[session.session_id] = (shared_seq(session), session.genesis)

    def _follow(self, record: Record) -> None:
        label = f"seq {record.seq} of session {record.session_id}"
        if record.session_id not in self._last:
            raise InvalidInput(f"{label} comes before its session", hint=_INTACT)
        seq, previous = self._last[record.session_id]
        if record.seq != seq + 1:
            raise InvalidInput(f"{label} is in the place of seq {seq + 1}", hint=_INTACT)
        # Of an expired event only the link is left, which the next one is chained to.
        if record.erasure != "expired" and link_of(previous, record) != record.link:
            raise InvalidInput(f"{label} is not what was recorded", hint=_INTACT)
        self._last[record.session_id] = (record.seq, record.link)
        genesis = self._sessions[record.session_id].genesis.hex()
        self.links.setdefault(genesis, {})[record.seq] = record.link
        self.events += 1
        if record.erasure is not None:
            self.erased += 1
        elif record.salt is None or record.summary is None:
            self.withheld += 1
        else:
            digest = chain.content_digest(record.salt, record.summary, record.refs, record.payload)
            if digest != record.content_digest:
                raise InvalidInput(f"the content of {label} was changed", hint=_INTACT)
            self.with_content += 1

    def _end(self, line: EndLine) -> None:
        self._is_ended = True
        if (line.sessions, line.events) != (len(self._sessions), self.events):
            raise InvalidInput("events are missing, or were added", hint=_INTACT)


def _anchored(chains: _Chains, anchor: IO[bytes]) -> tuple[int, list[str]]:
    """Return how many heads of an anchor are in the chains, and what does not fit."""
    count = 0
    wrong: list[str] = []
    for line in anchor:
        try:
            head = msgspec.json.decode(line)
        except msgspec.MsgspecError as error:
            raise InvalidInput("the anchor file is damaged", hint="use an intact copy") from error
        links = chains.links.get(head.get("genesis", "")) if isinstance(head, dict) else None
        if links is None or head["seq"] not in links:
            continue
        count += 1
        if links[head["seq"]].hex() != head["link"]:
            wrong.append(f"seq {head['seq']} is not the one that was anchored")
    if not count and not wrong:
        wrong.append("the anchor knows no event of this bundle")
    return count, wrong


_INTACT: Final = "ask for an unchanged bundle"
