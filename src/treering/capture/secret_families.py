"""Token families, recognized by their published prefix and the body after it.

The table is in secret_families.txt.
"""

import re
from pathlib import Path
from typing import Final

from treering.capture.secret_values import NOT_AFTER_MASK, NOT_BEFORE_MASK

# A short prefix counts only at the start of a word. A word also starts after an escaped newline
# (\n), after a terminal colour code (ESC[0m) and after a percent-encoded character (%3D).
START: Final = (
    rf"{NOT_AFTER_MASK}(?:(?<![A-Za-z0-9_-])|(?<=\\[nrtbf])|(?<=[0-9]m)|(?<=%[0-9A-F][0-9A-F]))"
)
# The same in canonical JSON or UTF-8 text, and also after any escape or terminal code.
START_IN_JSON: Final = (
    rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrtbf])|(?<=[0-9]m)|(?<=%[0-9A-F][0-9A-F])"
    rb"|(?<=\\u[0-9a-fA-F]{4})|(?<=\\u001[bB][@-Z_])|(?<=\x1b[@-Z_]))"
)
STOP: Final = rf"(?![A-Za-z0-9_-]){NOT_BEFORE_MASK}"

# A Base64 word that happens to start like a token continues with these.
_NO_BASE64: Final = rf"(?![+/=]){STOP}"

_TABLE: Final = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
_ROWS: Final = [
    re.split(" {2,}", line.replace("<end64>", _NO_BASE64).replace("<end>", STOP))
    for line in _TABLE.splitlines()
    if line and not line.startswith("# ")
]
FAMILIES: Final = tuple((row[0], row[1], row[2]) for row in _ROWS if len(row) == 3)
"""Name, prefixes, body after the prefix."""
USUAL: Final = {row[0]: row[1] for row in _ROWS if len(row) == 2}
"""The exact body of tokens as issued, by the first prefix of a family."""
