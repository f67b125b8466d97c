"""The Chromium that tests, benchmarks and pictures drive: one that is there, or a pinned one.

Run as a program (``make setup`` does), it fetches the pinned one unless there is another: the npm
package @sparticuz/chromium, whose tarball holds a Chromium for x86-64 Linux with the libraries and
fonts that it needs. TREERING_CHROMIUM names a browser that goes before all others.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import IO, Any, Final

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / ".venv" / "browser"
VERSION: Final = "153.0.0"
SHA512: Final = (
    "8e2196a92bcf31dbb8f8ff538a562a011ef21063c41c8371fa50af13f36a34ef"
    "c41d8cc5ff1d615222394fa8a8548b7b744cbb9fcf1bcb24f4be4f9d9ec810c0"
)
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MACOS: Final = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
_PARTS: Final = ("al2023.tar.br", "fonts.tar.br", "swiftshader.tar.br")


def find_browser() -> str | None:
    """Return the path of a Chromium; None if there is none."""
    named = os.environ.get("TREERING_CHROMIUM")
    if named:
        return named
    installed = next(filter(None, map(shutil.which, NAMES)), None)
    kept = (MACOS, FOLDER / "chromium")
    return installed or next((str(path) for path in kept if path.exists()), None)


def launch_options() -> dict[str, Any]:
    """Return the arguments of Playwright's ``launch``. Raise LookupError without a browser."""
    path = find_browser()
    if path is None:
        raise LookupError("no Chromium: run python scripts/browsers.py, or set TREERING_CHROMIUM")
    options: dict[str, Any] = {
        "executable_path": path,
        # The pages are ours, and a sandbox needs rights that containers and root lack.
        "args": ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
    }
    if Path(path).parent == FOLDER:
        options["env"] = {
            **os.environ,
            "LD_LIBRARY_PATH": str(FOLDER / "lib"),
            "FONTCONFIG_PATH": str(FOLDER),
        }
    return options


def fetch() -> None:
    """Fetch the pinned browser into its folder, whole or not at all."""
    import brotli  # noqa: PLC0415  (only here, and only for development)

    url = f"{_registry()}/@sparticuz/chromium/-/chromium-{VERSION}.tgz"
    with urllib.request.urlopen(url, timeout=600) as answer:  # noqa: S310  (a registry of npm)
        tarball = answer.read()
    if hashlib.sha512(tarball).hexdigest() != SHA512:
        sys.exit(f"the tarball of @sparticuz/chromium {VERSION} is not the one that was pinned")
    FOLDER.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent) as name:
        draft = Path(name) / "browser"
        draft.mkdir()
        with tarfile.open(fileobj=io.BytesIO(tarball)) as package:
            for part in _PARTS:
                with tarfile.open(fileobj=io.BytesIO(_unpacked(package, part, brotli))) as inner:
                    # Before 3.11.4 Python knows no filters; the digest says whose files they are.
                    inner.extraction_filter = getattr(tarfile, "data_filter", None)
                    inner.extractall(draft)  # noqa: S202
            program = draft / "chromium"
            program.write_bytes(_unpacked(package, "chromium.br", brotli))
        program.chmod(0o755)
        config = draft / "fonts.conf"
        # It names the folder of another machine: without fonts, no text would have a size.
        folders = f"<dir>{FOLDER / 'fonts'}</dir><dir>/usr/share/fonts</dir>"
        text = re.sub(r"<dir>.*</dir>", folders, config.read_text(), flags=re.DOTALL)
        config.write_text(text.replace("/tmp/fonts-cache", str(FOLDER / "cache")))  # noqa: S108
        shutil.rmtree(FOLDER, ignore_errors=True)
        draft.rename(FOLDER)


def _unpacked(package: tarfile.TarFile, name: str, brotli: Any) -> bytes:
    stream: IO[bytes] | None = package.extractfile(f"package/bin/{name}")
    if stream is None:
        raise LookupError(f"the package has no {name}")
    unpacked: bytes = brotli.decompress(stream.read())
    return unpacked


def _registry() -> str:
    """Return the registry that npm is set up for, or npm's own."""
    npm = shutil.which("npm")
    if npm is not None:
        asked = subprocess.run(
            [npm, "config", "get", "registry"], capture_output=True, text=True, check=False
        )
        if asked.stdout.startswith("http"):
            return asked.stdout.strip().rstrip("/")
    return os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/")


def main() -> None:
    """Fetch the pinned browser, unless there is one or this machine could not run it."""
    if find_browser() is not None:
        return
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print("no Chromium found: install one, or set TREERING_CHROMIUM; browser tests need it")
        return
    print(f"fetching Chromium {VERSION} for the tests of the viewer ...")
    try:
        fetch()
    except OSError as error:  # Whoever is offline can work on all the rest.
        print(f"no Chromium could be fetched ({error}): browser tests need one")


if __name__ == "__main__":
    main()
