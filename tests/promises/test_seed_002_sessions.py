"""Memory and sessions: every line on context windows, sessions and their isolation, quoted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

import treering
from builders import DAY, HERE, exchange
from treering.errors import RunActive, ToolDenied
from treering.model.sessions import MODES

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger, Session

MINUTE = 60_000


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """Return the session of one person."""
    return ledger.main_session("telegram", "u1", scope=HERE, agent="lyria")


@pytest.fixture
def group(ledger: Ledger) -> Session:
    """Return the session of one group."""
    return ledger.group_session("telegram", "g7", scope=HERE, agent="lyria")


def take_turns(session: Session, first: int, last: int) -> None:
    for number in range(first, last + 1):
        exchange(session, f"question {number}?", f"answer {number}!")


def texts(session: Session) -> list[str]:
    return [str(message["content"]) for message in session.context().messages]


# Short-term: context window.


def test_the_window_holds_the_most_recent_turns(session: Session) -> None:
    """The context window holds the most recent conversation turns."""
    take_turns(session, 1, 40)

    context = session.context(200)

    assert context.messages[-2:] == [
        {"role": "user", "content": "question 40?"},
        {"role": "assistant", "content": "answer 40!"},
    ]
    assert len(context.messages) < 80


def test_a_window_has_messages_a_limit_a_count_and_a_summary(session: Session) -> None:
    """Interface ContextWindow { messages; max_tokens; current_tokens; summary }."""
    take_turns(session, 1, 15)
    session.compact()

    context = session.context(128_000)

    assert (context.max_tokens, len(context.messages)) == (128_000, 21)
    assert 0 < context.tokens <= 128_000
    assert str(context.messages[0]["content"]).startswith("<summary>")


def test_a_session_that_is_new_has_an_empty_window(session: Session) -> None:
    """getOrCreate(sessionId): messages: [], current_tokens: 0, summary: null."""
    context = session.context(128_000)

    assert (context.messages, context.tokens) == ([], 0)
    assert list(session.headers()) == []


def test_each_message_counts(session: Session) -> None:
    """window.current_tokens += tokens."""
    counts = []
    for number in range(1, 4):
        take_turns(session, number, number)
        counts.append(session.context(128_000).tokens)

    assert counts[0] < counts[1] < counts[2]


def test_approaching_the_limit_older_messages_are_compressed(session: Session) -> None:
    """If approaching limit, compress older messages (max_tokens * 0.8)."""
    take_turns(session, 1, 15)
    tokens = session.context().tokens

    assert session.compact(tokens * 10 // 8 + 2) is None
    assert session.compact(tokens * 10 // 8 - 2) is not None


def test_it_happens_by_itself_as_messages_are_added(session: Session) -> None:
    """If (window.current_tokens > window.max_tokens * 0.8) await this.compress(sessionId)."""
    take_turns(session, 1, 30)
    with session.turn() as turn:
        turn.user("question 31?")
        turn.context(max_tokens=300)
        turn.assistant("answer 31!")

    assert len(texts(session)) == 21


def test_the_most_recent_messages_are_kept_intact(session: Session) -> None:
    """Keeps the most recent messages intact …: const keepRecent = 20."""
    take_turns(session, 1, 15)
    before = texts(session)

    session.compact()

    assert texts(session)[1:] == before[-20:]


def test_with_twenty_messages_or_fewer_nothing_is_compressed(session: Session) -> None:
    """If (window.messages.length <= keepRecent) return."""
    take_turns(session, 1, 10)

    assert session.compact(1) is None


def test_a_model_may_write_the_summary(session: Session) -> None:
    """Generate summary via LLM … toSummarize.map(m => `[${m.role}]: ${m.content}`)."""
    given: list[str] = []

    def ask_model(messages: Any, earlier: str | None, tokens: int) -> str:
        given.extend(message.text for message in messages)
        return f"{earlier or ''} a summary within {tokens}"

    take_turns(session, 1, 15)
    session.compact(summariser=ask_model)

    assert given == [text for n in range(1, 6) for text in (f"question {n}?", f"answer {n}!")]
    assert "a summary within" in texts(session)[0]


def test_a_summary_follows_on_the_one_before(session: Session) -> None:
    """window.summary = window.summary ? `${window.summary} … ${summary.text}` : summary.text."""
    take_turns(session, 1, 15)
    session.compact()
    take_turns(session, 16, 30)
    session.compact()

    [summary] = [text for text in texts(session) if text.startswith("<summary>")]
    assert "question 1?" in summary


def test_the_count_after_compression_is_of_what_is_left(session: Session) -> None:
    """window.current_tokens = countTokens(summary + messages)."""
    take_turns(session, 1, 200)

    header = session.compact()

    assert header is not None
    assert header.refs["from_tokens"] > header.refs["to_tokens"]
    assert session.context().tokens == pytest.approx(header.refs["to_tokens"], rel=0.1)


def test_working_memory_is_the_state_of_the_task(session: Session) -> None:
    """WM[Working Memory<br/>Current task state]: here goals and schedules that count."""
    with session.turn() as turn:
        turn.user("Book a flight.")
        turn.emit("goal.added", {"id": "g1", "description": "book a flight"})
        turn.emit("schedule.added", {"id": "c1", "prompt": "remind me"})
    session.record("goal.updated", "progress", payload={"id": "g1", "progress": "2 of 3"})

    assert [(goal.description, goal.progress) for goal in session.goals()] == [
        ("book a flight", "2 of 3")
    ]
    assert [one.prompt for one in session.schedules()] == ["remind me"]


# Episodes.


def test_an_episode_is_written_when_a_session_goes(ledger: Ledger, session: Session) -> None:
    """When a session ends or goes idle, create an episode summary."""
    exchange(session, "Which database? We decided to use PostgreSQL.", "PostgreSQL it is.")

    header = session.write_episode()

    assert header is not None
    told = ledger.event(HERE, header.event_id).payload
    assert (told["user"], told["message_count"]) == ("u1", 2)
    assert any("PostgreSQL" in decision for decision in told["key_decisions"])
    assert {"summary", "outcome", "duration_minutes", "action_items"} <= told.keys()
    assert session.write_episode() is None


# Session types.


def test_there_are_three_modes() -> None:
    """Enum SessionMode { MAIN = "main", GROUP = "group", QUEUE = "queue" }."""
    assert set(MODES) == {"main", "group", "queue"}


def test_main_is_one_session_per_user_per_channel(ledger: Ledger, session: Session) -> None:
    """MAIN: Direct 1:1 conversation. One session per user per channel."""
    take_turns(session, 1, 1)

    def of(channel: str, user: str) -> int:
        return len(ledger.main_session(channel, user, scope=HERE, agent="lyria").history())

    assert (of("telegram", "u1"), of("telegram", "u2"), of("irc", "u1")) == (2, 0, 0)


def test_main_has_full_tool_access_and_persistent_memory(session: Session) -> None:
    """Full tool access, persistent memory."""
    session.record("memory.stored", "stored", payload={"id": "m1", "key": "colour"})

    assert all(session.permits(tool) for tool in ("file_system", "email", "calendar"))
    assert session.memory_refs == ["m1"]


def test_group_is_one_session_per_group(ledger: Ledger, group: Session) -> None:
    """GROUP: Channel/group chat. One session per group."""
    take_turns(group, 1, 1)

    again = ledger.group_session("telegram", "g7", scope=HERE, agent="lyria")

    assert len(again.history()) == 2


def test_group_is_activated_by_mention_or_reply(group: Session) -> None:
    """Activated by mention or reply."""
    take_turns(group, 1, 1)
    answer = next(one for one in group.headers() if one.kind == "conversation.assistant")

    assert group.is_addressed("@lyria, hello")
    assert group.is_addressed("thanks", reply_to=answer.event_id)
    assert not group.is_addressed("hello all")


def test_group_has_limited_tools_that_can_be_configured(ledger: Ledger, group: Session) -> None:
    """Limited tool access (configurable per group)."""
    other = ledger.group_session("telegram", "g8", scope=HERE, agent="lyria", tools=["calendar"])

    assert (group.permits("calendar"), other.permits("calendar")) == (False, True)
    with pytest.raises(ToolDenied), group.turn() as turn, turn.tool("calendar"):
        pass


def test_group_runs_code_in_a_sandbox(group: Session) -> None:
    """Docker sandbox for code execution."""
    assert group.isolation is not None
    assert group.isolation.sandbox


def test_queue_is_processed_one_at_a_time_in_order(ledger: Ledger) -> None:
    """QUEUE: … Messages processed one at a time in order."""
    queue = ledger.session("q", scope=HERE, agent="lyria", mode="queue")
    for text in ("one", "two", "three"):
        queue.post(text)
    taken = []
    while (run := queue.take()) is not None:
        with run:
            assert queue.take() is None
            taken.append(cast("Any", run.message).text)

    assert taken == ["one", "two", "three"]


# Session persistence.


def test_sessions_persist_across_restarts(tmp_path: Path) -> None:
    """Sessions persist across restarts."""
    path = tmp_path / "ledger.db"
    with treering.open(path) as ledger:
        take_turns(ledger.group_session("irc", "g1", scope=HERE, agent="lyria"), 1, 3)

    with treering.open(path) as ledger:
        again = ledger.session("group:irc:g1", scope=HERE, agent="lyria")
        assert (again.settings.mode, len(again.history())) == ("group", 6)


def test_a_session_that_is_not_there_is_not_made_by_asking(ledger: Ledger) -> None:
    """get(sessionId) … if (!data) return null."""
    session = ledger.session("nowhere", scope=HERE, agent="lyria")

    assert session.history() == []
    with pytest.raises(treering.NotFound):
        session.outline()
    assert ledger.sessions(HERE).items == []


def test_every_message_is_on_disk_at_once(tmp_path: Path) -> None:
    """Persist to disk (debounced — doesn't write on every message): here nothing is held back."""
    path = tmp_path / "ledger.db"
    with treering.open(path) as writer, treering.open(path, mode="ro") as reader:
        session = writer.session("s1", scope=HERE, agent="lyria")
        session.record("conversation.user", "hello?", payload={"text": "hello?"})

        assert len(reader.session("s1", scope=HERE, agent="lyria").history()) == 1


def test_pruning_writes_episodes_first_and_says_how_many_went(
    ledger: Ledger, session: Session, group: Session
) -> None:
    """prune(maxAge): create episodic memory before pruning; return expired.length."""
    take_turns(session, 1, 2)
    take_turns(group, 1, 2)
    later = group.outline().updated_ms + 31 * DAY

    receipt = ledger.prune(HERE, older_than_days=30, now_ms=later)

    assert receipt.count == 2
    for one in (session, group):
        kinds = [header.kind for header in one.headers()]
        assert kinds.index("episode.written") < kinds.index("ledger.expired")
        assert one.history() == []
    assert ledger.sessions(HERE).items == []
    assert ledger.admin.verify().intact


def test_what_is_younger_is_not_pruned(ledger: Ledger, session: Session) -> None:
    """SELECT id FROM sessions WHERE last_active < $1."""
    take_turns(session, 1, 1)
    now_ms = session.outline().updated_ms + 29 * DAY

    assert ledger.prune(HERE, older_than_days=30, now_ms=now_ms).count == 0
    assert len(session.history()) == 2


def test_an_idle_session_is_archived(ledger: Ledger, session: Session) -> None:
    """IDLE[Session Idle] --> EPISODE[Create Episode] --> ARCHIVE[Archive Session]."""
    take_turns(session, 1, 1)
    later = session.outline().updated_ms + 30 * MINUTE

    assert ledger.sweep(HERE, now_ms=later).closed == [session.session_id]
    kinds = [header.kind for header in session.headers()]
    assert kinds[-2:] == ["episode.written", "session.closed"]
    assert session.write_episode() is None
    assert session.outline().state == "closed"


# Session isolation (groups).


def test_each_group_has_its_own_context_tools_and_permissions(
    ledger: Ledger, group: Session
) -> None:
    """Each group gets its own context, tools, and permissions."""
    other = ledger.group_session("telegram", "g8", scope=HERE, agent="lyria", tools=["weather"])
    take_turns(group, 1, 1)

    assert other.context().messages == []
    assert (group.permits("calculator"), other.permits("calculator")) == (True, False)


def test_a_group_session_is_made_with_these_values(group: Session) -> None:
    """Id: `group:${channel}:${groupId}`, mode, channel, participants: [], memory_refs: []."""
    group.open()

    assert group.session_id == "group:telegram:g7"
    assert (group.settings.mode, group.settings.channel) == ("group", "telegram")
    assert (group.settings.participants, group.memory_refs) == ((), [])
    outline = group.outline()
    assert outline.created_ms <= outline.updated_ms


def test_a_group_is_isolated(group: Session) -> None:
    """Sandbox: true, file_access: false, browser_access: "read_only", cross_user_memory: false."""
    assert group.isolation == treering.views.Isolation(
        sandbox=True, file_access=False, browser_access="read_only", cross_user_memory=False
    )


@pytest.mark.parametrize(
    "tool", ["web_search", "web_browse", "code_execute_sandboxed", "weather", "calculator"]
)
def test_the_default_tools_of_a_group(group: Session, tool: str) -> None:
    """Default group permissions — more restrictive than 1:1."""
    assert group.permits(tool)


@pytest.mark.parametrize("tool", ["file_system", "email", "calendar", "personal_integrations"])
def test_the_tools_that_a_group_lacks(group: Session, tool: str) -> None:
    """Notably excludes: file_system, email, calendar, personal_integrations."""
    assert not group.permits(tool)


def test_a_group_knows_nothing_of_what_a_person_said_alone(
    session: Session, group: Session
) -> None:
    """Group Isolation: sandboxed execution, restricted tools, no cross-user memory."""
    session.record("memory.stored", "stored", payload={"id": "m1", "key": "colour"})
    take_turns(session, 1, 1)
    take_turns(group, 2, 2)

    assert texts(group) == ["question 2?", "answer 2!"]
    assert group.memory_refs == []


def test_main_is_interactive_and_refuses_a_second_turn(session: Session) -> None:
    """Direct 1:1 conversation."""
    with session.turn(), pytest.raises(RunActive):
        session.turn().start()
