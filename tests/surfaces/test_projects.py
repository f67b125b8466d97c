"""Which scope a command means when none is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treering.errors import InvalidScope
from treering.surfaces.cli.declare import SCOPE_VARIABLE, find_scope, project_scope

if TYPE_CHECKING:
    from pathlib import Path


def clone(folder: Path, address: str) -> Path:
    """Make ``folder`` look like a clone of ``address``."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(
        f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {address}\n\tfetch = +x\n'
    )
    return folder


@pytest.mark.parametrize(
    "address",
    [
        "https://forge.example/Acme/App.git",
        "https://mina:pass@forge.example/acme/app",
        "git@forge.example:acme/app.git",
        "ssh://git@forge.example:2222/acme/app/",
        "/srv/git/acme/app.git",
    ],
)
def test_a_clone_is_named_for_where_it_came_from(tmp_path: Path, address: str) -> None:
    root = clone(tmp_path / "elsewhere", address)
    (root / "src" / "deep").mkdir(parents=True)

    assert project_scope(root / "src" / "deep") == "acme/app"


def test_a_work_tree_is_named_as_its_repository(tmp_path: Path) -> None:
    root = clone(tmp_path / "one", "git@forge.example:acme/app.git")
    there = root / ".git" / "worktrees" / "two"
    there.mkdir(parents=True)
    (there / "commondir").write_text("../..\n")
    tree = tmp_path / "two"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {there}\n")

    assert project_scope(tree) == "acme/app"


def test_a_repository_without_a_remote_and_a_plain_folder_go_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "Shop Front" / ".git").mkdir(parents=True)
    (tmp_path / "notes" / "today").mkdir(parents=True)

    assert project_scope(tmp_path / "Shop Front") == "shop-front"
    assert project_scope(tmp_path / "notes" / "today") == "today"


def test_a_folder_whose_name_is_no_scope_says_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "a@b"
    folder.mkdir()

    with pytest.raises(InvalidScope, match="scope is required") as refused:
        project_scope(folder)

    assert SCOPE_VARIABLE in str(refused.value.hint)


def test_what_is_named_goes_before_the_environment_and_that_before_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    monkeypatch.delenv(SCOPE_VARIABLE, raising=False)
    assert find_scope(None, is_global=False) == "folder"

    monkeypatch.setenv(SCOPE_VARIABLE, "acme/app")
    assert find_scope(None, is_global=False) == "acme/app"
    assert find_scope("acme/other", is_global=False) == "acme/other"
    assert find_scope(None, is_global=True) == "global"
