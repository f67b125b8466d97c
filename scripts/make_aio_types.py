"""Write the types of ``treering.aio``: those of the ledger's own calls, awaited.

    .venv/bin/python scripts/make_aio_types.py            write src/treering/aio.pyi
    .venv/bin/python scripts/make_aio_types.py --check    say whether it is out of date

Signatures are taken from the source of the synchronous classes, and names from its imports.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from treering import app, async_objects
from treering.async_objects import ASYNC, DIRECT, sort_of

STUB: Final = Path(__file__).parents[1] / "src" / "treering" / "aio.pyi"
HEAD: Final = '''"""The types of ``treering.aio``. Written by scripts/make_aio_types.py."""
'''
PUBLIC: Final = frozenset({"AsyncItems", "AsyncObject", "Lanes"})
"""Names that others import from here, though they are defined elsewhere."""
NAMES: Final = {handle.__name__: kind.__name__ for handle, kind in ASYNC.items()}
"""What stands in a coroutine for a class."""


class Source:
    """The source of one module: the definitions of its classes, and where its names are from."""

    def __init__(self, module: Any) -> None:
        self._name: str = module.__name__
        tree = ast.parse(inspect.getsource(module))
        self._origins: dict[str, tuple[str, str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    self._origins[alias.asname or alias.name] = (node.module, alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    self._origins[alias.asname or alias.name] = (alias.name, "")
        self._nodes = {
            node.name: node
            for node in tree.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
        self._own = {
            name.id
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        }

    def node(self, name: str) -> Any:
        """Return the definition of a class or function."""
        return self._nodes[name]

    def overloads(self, method: ast.FunctionDef) -> list[ast.FunctionDef]:
        """Return the overloads of a method."""
        return [
            node
            for definition in self._nodes.values()
            if isinstance(definition, ast.ClassDef) and method in definition.body
            for node in definition.body
            if isinstance(node, ast.FunctionDef)
            and node.name == method.name
            and [ast.unparse(one) for one in node.decorator_list] == ["overload"]
        ]

    def origin(self, name: str) -> tuple[str, str] | None:
        """Return where a name is imported from; None if it is built in."""
        if name in self._origins:
            return self._origins[name]
        if name in self._nodes or name in self._own:
            return self._name, name
        if hasattr(builtins, name):
            return None
        raise LookupError(f"{name} in {self._name}")


class Stub:
    """The lines of the stub, and what they import."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._imports: dict[str, tuple[str, str]] = {
            "Any": ("typing", "Any"),
            "AsyncItems": ("treering.async_objects", "AsyncItems"),
            "AsyncObject": ("treering.async_objects", "AsyncObject"),
            "Generator": ("collections.abc", "Generator"),
            "Header": ("treering.model.events", "Header"),
            "Lanes": ("treering.spine.off_loop", "Lanes"),
            "async_objects": ("treering", "async_objects"),
        }
        self._sources: dict[str, Source] = {}

    def source(self, module: Any) -> Source:
        """Return the source of a module."""
        if module.__name__ not in self._sources:
            self._sources[module.__name__] = Source(module)
        return self._sources[module.__name__]

    def add_class(self, handle: type) -> None:
        """Add the class that stands for ``handle``."""
        name = NAMES[handle.__name__]
        self._imports[handle.__name__] = (handle.__module__, handle.__name__)
        self.lines += [f"class {name}(async_objects.{name}):", f"    sync: {handle.__name__}"]
        members: dict[str, tuple[Source, Any]] = {}
        for base in reversed(handle.__mro__[:-1]):
            if base.__module__.startswith("treering."):
                source = self.source(sys.modules[base.__module__])
                for statement in source.node(base.__name__).body:
                    defined = _defined(statement)
                    members |= {member: (source, node) for member, node in defined.items()}
        ours = getattr(async_objects, name)
        for member, (source, node) in sorted(members.items()):
            if not member.startswith("_") and not hasattr(ours, member):
                self._add_member(handle, member, source, node)

    def _add_member(self, handle: type, name: str, source: Source, node: Any) -> None:
        if not isinstance(node, ast.FunctionDef):
            self.lines.append(f"    {name}: {self._returned(source, node)}")
            return
        static = inspect.getattr_static(handle, name)
        if isinstance(static, staticmethod | classmethod):
            return
        sort, returned = sort_of(handle, name), self._returned(source, node.returns)
        if isinstance(static, property | cached_property):
            if sort == "awaited":
                self._imports["Awaitable"] = ("collections.abc", "Awaitable")
                returned = f"Awaitable[{returned}]"
            self.lines += ["    @property", f"    def {name}(self) -> {returned}: ..."]
            return
        if sort == "iterator":
            # A follower iterates headers, or events.
            inner = node.returns.slice if isinstance(node.returns, ast.Subscript) else None
            returned = f"AsyncItems[{'Header' if inner is None else self._text(source, inner, {})}]"
        word = "def" if sort == "iterator" or name in DIRECT else "async def"
        for overload in source.overloads(node):
            form = f"({self._arguments(source, overload.args)})"
            self._imports["overload"] = ("typing", "overload")
            self.lines += [
                "    @overload",
                f"    {word} {name}{form} -> {self._returned(source, overload.returns)}: ...",
            ]
        if not source.overloads(node):
            arguments = self._arguments(source, node.args)
            self.lines.append(f"    {word} {name}({arguments}) -> {returned}: ...")

    def add_open(self) -> None:
        """Add ``open``, with the arguments of ``treering.open``."""
        source = self.source(app)
        arguments = self._arguments(source, source.node("open").args)
        self.lines += [
            "class AsyncLedgerOpening(async_objects.LedgerOpening):",
            "    def __await__(self) -> Generator[Any, None, AsyncLedger]: ...",
            "    async def __aenter__(self) -> AsyncLedger: ...",
            f"def open({arguments}) -> AsyncLedgerOpening: ...",
        ]

    def text(self) -> str:
        """Return the whole stub, formatted."""
        imports = [
            f"import {module}"
            if not name
            else f"from {module} import {name}"
            if local == name and local not in PUBLIC
            else f"from {module} import {name} as {local}"
            for local, (module, name) in sorted(self._imports.items(), key=lambda one: one[1])
        ]
        lines = [HEAD, *imports, *self.lines, ""]
        command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(STUB), "-"]
        done = subprocess.run(
            command, input="\n".join(lines), capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout

    def _arguments(self, source: Source, node: ast.arguments) -> str:
        function: Any = ast.parse(f"def f({ast.unparse(node)}): ...").body[0]
        arguments: ast.arguments = function.args
        arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
        arguments.kw_defaults = [
            None if default is None else ast.Constant(...) for default in arguments.kw_defaults
        ]
        accepted = {name: f"{name} | {kind}" for name, kind in NAMES.items()}
        return self._text(source, arguments, accepted)

    def _returned(self, source: Source, node: ast.expr | None) -> str:
        if node is None:
            raise LookupError(f"no annotation in {source}")
        return self._text(source, node, NAMES)

    def _text(self, source: Source, node: ast.AST, names: dict[str, str]) -> str:
        """Return annotations as text, with other names for classes; note what they import."""
        text = ast.unparse(_Renamed(names).visit(node))
        tree = ast.parse(f"def f({text}): ..." if isinstance(node, ast.arguments) else text)
        local = {
            one.id: self._local(source, one.id)
            for one in ast.walk(tree)
            if isinstance(one, ast.Name) and one.id not in NAMES.values()
        }
        renamed = ast.unparse(_Renamed(local, everywhere=True).visit(tree))
        if isinstance(node, ast.arguments):
            return renamed.removeprefix("def f(").partition("):\n")[0]
        return renamed

    def _local(self, source: Source, name: str) -> str:
        """Return what a name of a source is called here: two sources may mean different things."""
        origin = source.origin(name)
        if origin is None:
            return name
        local = name
        while self._imports.setdefault(local, origin) != origin:
            local += "_"
        return local


class _Renamed(ast.NodeTransformer):
    """Renames classes in annotations."""

    def __init__(self, names: dict[str, str], *, everywhere: bool = False) -> None:
        self._names = names
        self._everywhere = everywhere

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Leave what a list or an iterator holds as it is: it is not wrapped."""
        return self.generic_visit(node) if self._everywhere else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Rename a class."""
        wanted = self._names.get(node.id)
        return node if wanted is None else ast.parse(wanted, mode="eval").body


def _defined(node: ast.AST) -> dict[str, Any]:
    """Return what a statement of a class defines: methods, and annotations of attributes."""
    match node:
        case ast.FunctionDef(name="__init__"):
            given = {one.arg: one.annotation for one in [*node.args.args, *node.args.kwonlyargs]}
            return {
                name: annotation
                for statement in ast.walk(node)
                for name, annotation in _assigned(statement, given)
            }
        case ast.FunctionDef():
            return {node.name: node}
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
            if isinstance(value, ast.Constant) and ast.unparse(annotation) == "Final":
                return {name: ast.Name(type(value.value).__name__)}
            return {name: annotation}
    return {}


def _assigned(node: ast.AST, given: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the attributes that ``__init__`` assigns, as far as their types are stated."""
    match node:
        case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=annotation):
            return [(name, annotation)]
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Name(id=value)):
            if given.get(value) is not None:
                return [(name, given[value])]
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Call(func=ast.Name(id=kind))):
            if kind[0].isupper():
                return [(name, ast.Name(kind))]
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Constant(value=value)):
            return [(name, ast.Name(type(value).__name__))]
    if isinstance(node, ast.Assign) and not ast.unparse(node).startswith("self._"):
        target = ast.unparse(node.targets[0])
        if target.startswith("self."):
            raise LookupError(f"{target} has no type: annotate it")
    return []


def made() -> str:
    """Return the stub as it should be."""
    stub = Stub()
    for handle in ASYNC:
        stub.add_class(handle)
    stub.add_open()
    return stub.text()


def main() -> int:
    """Write the stub, or check it."""
    if "--check" in sys.argv:
        return int(STUB.read_text() != made())
    STUB.write_text(made())
    return 0


if __name__ == "__main__":
    sys.exit(main())
