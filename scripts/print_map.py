"""Print every module of the package with the first line of its docstring: ``make map``."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).parents[1] / "src" / "treering"


def main() -> None:
    """Print one line for each module, folder by folder."""
    for path in sorted(SOURCE.rglob("*.py"), key=lambda path: (path.parent.parts, path.name)):
        purpose = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        print(f"{path.relative_to(SOURCE)!s:56} {purpose.partition(chr(10))[0]}")


if __name__ == "__main__":
    main()
