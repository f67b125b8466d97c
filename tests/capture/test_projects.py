"""The project of a folder: its git remote, that of a work tree, or its name."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from treering.capture.projects import project_name, scope_of
from treering.errors import InvalidScope

if TYPE_CHECKING:
    from pathlib import Path


def clone(folder: Path, remote: str | None) -> Path:
    """Create a repository that looks cloned from ``remote``."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    if remote is not None:
        git(folder, "remote", "add", "origin", remote)
    return folder


def git(folder: Path, *arguments: str) -> None:
    names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("remote", "project"),
    [
        ("/work/acme/app/.", "acme/app"),
        ("https://github.com/acme/lamp.git", "acme/lamp"),
        ("https://ada:word@git.example.org/acme/lamp", "acme/lamp"),
        ("git@github.com:acme/lamp.git", "acme/lamp"),
        ("ssh://git@example.org:2222/teams/acme/lamp.git/", "acme/lamp"),
        ("/srv/git/lamp.git", "git/lamp"),
        ("lamp", "here"),
        ("", "here"),
    ],
)
def test_a_project_is_named_after_its_remote(tmp_path: Path, remote: str, project: str) -> None:
    folder = clone(tmp_path / "here", remote or None)

    assert project_name(folder) == project


def test_a_folder_inside_belongs_to_the_project(tmp_path: Path) -> None:
    folder = clone(tmp_path / "here", "git@github.com:acme/lamp.git")
    inside = folder / "src" / "deep"
    inside.mkdir(parents=True)

    assert project_name(inside) == "acme/lamp"
    assert project_name(folder / "gone" / "since") == "acme/lamp"


def test_a_work_tree_belongs_to_its_repository(tmp_path: Path) -> None:
    folder = clone(tmp_path / "here", "git@github.com:acme/lamp.git")
    git(folder, "commit", "--allow-empty", "--message", "begin")
    git(folder, "worktree", "add", str(tmp_path / "elsewhere" / "tree"))

    assert project_name(tmp_path / "elsewhere" / "tree") == "acme/lamp"


@pytest.mark.parametrize("content", [b"", b"[remote", b"\xff\xfe\0", b"gitdir: /nowhere/at/all"])
def test_a_broken_repository_is_known_by_its_folder(tmp_path: Path, content: bytes) -> None:
    whole, pointer = tmp_path / "whole", tmp_path / "pointer"
    (whole / ".git").mkdir(parents=True)
    (whole / ".git" / "config").write_bytes(content)
    pointer.mkdir()
    (pointer / ".git").write_bytes(content)

    assert (project_name(whole), project_name(pointer)) == ("whole", "pointer")


@pytest.mark.parametrize(
    ("folder", "scope"),
    [
        ("/gone/since/lamp", "lamp"),
        ("C:\\Users\\ada\\lamp", "lamp"),
        ("/gone/My Lamp", "my-lamp"),
        ("/gone/灯台", "灯台"),
        ("lamp", "lamp"),
        ("/gone/lamp/2", "lamp/2"),
        ("/gone/lamp/.worktrees/2", "lamp"),
        ("/gone/lamp/worktrees/fix-7/src", "lamp"),
        ("/gone/lamp/.claude/worktrees/quiet-harbour/src", "lamp"),
        ("/home/ada/.codex/worktrees/1f2e/lamp", "lamp"),
        ("/home/ada/.cursor/worktrees/lamp/1f2e", "lamp"),
        ("/gone/worktrees", "worktrees"),
    ],
)
def test_a_folder_that_is_gone_is_known_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, scope: str
) -> None:
    scope_of.cache_clear()
    monkeypatch.chdir(clone(tmp_path / "here", "git@github.com:acme/other.git"))

    assert scope_of(folder) == scope


@pytest.mark.parametrize("folder", ["/", "", "/gone/\u0000", "/gone/..."])
def test_a_folder_that_cannot_name_a_scope_is_said_so(folder: str) -> None:
    with pytest.raises((InvalidScope, ValueError)):
        scope_of(folder)
