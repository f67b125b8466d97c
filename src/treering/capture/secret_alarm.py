"""The first look at an event, which says whether it could hold a secret at all.

Nearly every event holds none, and each is looked at as it is recorded. An automaton that knows all
keywords outgrows the caches of a processor, so this one knows a few short pieces of them; where a
piece stands, the keywords that it is a piece of are compared in full.
"""

import re
from collections.abc import Callable, Collection, Iterable
from operator import itemgetter
from typing import Final, TypeAlias

from ahocorasick_rs import BytesAhoCorasick, Implementation

Called: TypeAlias = Callable[[bytes, int], bool]
"""Says whether the keyword that ends here in canonical JSON could lead to a secret."""

Veto: TypeAlias = tuple[int, bytes]
"""How far behind a keyword a byte stands, and which bytes there lead to no secret."""
NO_VETO: Final = (0, b"")

_ASCII: Final = bytes(range(128))
_FOREIGN: Final = re.compile(rb"[\x80-\xff]+")

# fmt: off
PIECES: Final = (
    " -a", "$5", "$7", "$a", "-word", "1$", "2$", "6$", "6~", ":*:", "AGM", "AIz", "AT-", "EARE",
    "EMO", "Nic", "O(", "PPE", 'Pw"', "Pwd", "QVN", "Q~", "RKU", "RUE", "RYP", "SCO", "SG.",
    "SPX", "T3x", "a$", "agic", "aio_", "aroo", "as y", "asan", "aslo", "assc", "asso", "at_",
    "ate-L", "ateK", "aten", "b[", "bcp ", "be/", "bead", "dapi", "de_p", "depa", "ec_", "ed-k",
    "erdp", "ertu", "eslo", 'ets"', "ftt", "fw_", "gho_", "ghs_", "ghu", "glff", "glrt", "hr C",
    "ig ho", "in is", "in/p", "inka", "ldap", "lias", "lx-", "ly-", "n tar", "n$", "net ", "net(",
    "ntoo", "o1_", "oa(", "pmit", "pnb_", "pnu", "pt$", "rar ", "rg:", "rzp", "s my", "sec1",
    "sera", "serm", "set/", "seta", "snm", "sntr", "t1.", "ultP", "wco", "wine", "y$", "za ",
    "AK-", "MDP", "Mdp", "OG1", "PHR", "_v1", "au_", "b_s", "come", "dGt", "erh", "gow", "hvb",
    "hvr", "hx_", "kac", "kat", "kmp", "ldt", "psc", "pss", "ptt", "rau", "rdm", "rpc", "seal",
    "sex", "ul-", "w:", "xap", "zav", "1r_", "AKC", "ATB", "CIP", "EZT", "OJA", "OTP", "PIN",
    "Psk", "SAL", "SEE", "See", "YCM", "ata s", "bp_", "cfu", "co-", "commu", "ct_", "ebh",
    "eriv", "fp_", "ghr", "gp_", "gu_", "ib-", "invi", "llet", "oy2", "p-b", "rap ", "rnd", "xai",
    "U ", "hf_", "hvs.", "ignI", "io:", "k'", "ne-t", "nemo", "net:", "pbk", "re=", "seed", "sq0",
    "ALS", "CAJ", "EZA", "TAI", "as-", "ate/", "cr_", "dG9", "gla", "glc", "hta", "ig=", "kaj",
    "lft", "od_", "pect ", "r8_", "xox", "RUd", "SIA", "UTH", "cql", "ftp", "kod", "ntn", "re_",
    "ugr", "ya2", "ci_", "dt0", "edn", "nts:", "ob-", "AGE", "ECK", "swd", "$2", "ess-", "raC",
    "ser/p", "v1.", "w'", "{P", '"do', "deT", "squ", "tty", "gli", "sqp", "COO", "echo", "pm_",
    "scor", "yge", "zip", "--l", "R13", "pt:", "iex", "2FA", "ghp_", "ign(", "pt(", "dp.", "at-",
    "ult o", "htw", "is-", "PI-", "hpa", "RED", "--o", "igd", "unl", "\x1b[", "bw l", "sl.",
    "as th", "ALL", "AKI", "as a ", "Cred", "y C", "cmd", "SET", "enss", "cp_", 'pw"', "liv",
    "z ", "pwd", "pra", "s C", "link", "s y", "64 ", "NTI", "w(", ":A", "uff", "logg", " -b",
    "is th", "er lo", "ey-", "s = {", "word(", "{S", "setu", "in to", "cio", "w=", "gh s", "<<",
    "-us", "curl", "er k", "n ad", "n C", "lon", "ks.", "643", "es (", "erif", "w\\", "in d",
    "-u ", "RD ", "eyc", "ola", "ey(", "de:", "wort", "irm", " -t", "ALU", "in w", "fc-", "s: {",
    "cred", "de(", "nt(", "enh", "sk-", "de=", "in\\", "ntif", "sern", "c(", "arer", "EAA", "SES",
    "as p", "ctl", "eden", "or th", "eto", "in(", "ras", ":543", " de ", "ongo", "words", " mdp",
    "et p", "h(", "sql", "pdp", "dk-", "com:", "ave", "prv", "pi-", "eyJ", "--B", "ECR", "nect",
    "in:", "2_", "k_", "Aut", "psk", "gin ", "okie", "pi_", "NR", "smb", "ret_", "-pa", "a_",
    "Sec", "PW", "SK", " cod", "2/", "1/", "TOKEN", "pw ", "Pass", "PASS", "KEY", "auth", "Token",
    ":/", "Key", "secr", "pass", "key", "pat", "token",
)
# fmt: on
"""Pieces that are rare in logs of agents and common to many keywords, the rarest first.

A keyword without one is its own piece: this list decides how fast the look is, not what it sees.
"""


class Alarm:
    """Looks for keywords in canonical JSON or UTF-8 text, and at what each leads to there."""

    def __init__(self, keywords: Collection[tuple[str, Called, Veto]]) -> None:
        known = {keyword for keyword in keywords if keyword[0].isascii()}
        # JSON writes a quote with a backslash.
        known |= {(word.replace('"', '\\"'), called, veto) for word, called, veto in known}
        pieces, places = _placed(sorted({word.encode() for word, _, _ in known}))
        self._find = _finder(pieces)
        self._vetoes: list[Veto] = [NO_VETO] * len(pieces)
        self._checks: list[list[tuple[bytes, int, int, Called]]] = [[] for _ in pieces]
        for text, called, veto in sorted(known, key=itemgetter(0)):
            word = text.encode()
            piece, offset = places[word]
            checks = self._checks[piece]
            checks.append((word, offset, len(word) - offset, called))
            # Of a piece of several words none may speak for the others.
            is_alone = len(checks) == 1 and word == pieces[piece]
            self._vetoes[piece] = veto if is_alone else NO_VETO
        foreign = sorted({word.encode() for word, _, _ in keywords if not word.isascii()})
        # Few texts have letters of these words, though many have some character beyond ASCII.
        self._find_letters = _finder(sorted({_letters(word) for word in foreign}))
        self._find_foreign = _finder(foreign)

    def is_raised(self, encoded: bytes) -> bool:
        """Say whether a keyword stands in ``encoded`` where it could lead to a secret."""
        vetoes, checks = self._vetoes, self._checks
        try:
            for index, start, end in self._find(encoded, True):
                at, refused = vetoes[index]
                if refused and encoded[end + at] in refused:
                    continue
                for word, offset, length, is_called in checks[index]:
                    # Before the start of the text this compares its end: at most too much is found.
                    if encoded.startswith(word, start - offset) and is_called(
                        encoded, start + length
                    ):
                        return True
        except IndexError:
            # The text ends before the byte that could have refused its last keyword.
            return True
        return (
            not encoded.isascii()
            and bool(self._find_letters(encoded.translate(None, _ASCII), True))
            and bool(self._find_foreign(encoded, True))
        )


def _finder(words: Iterable[bytes]) -> Callable[[bytes, bool], list[tuple[int, int, int]]]:
    automaton = BytesAhoCorasick(list(words), implementation=Implementation.DFA)
    return automaton.find_matches_as_indexes


def _placed(words: list[bytes]) -> tuple[list[bytes], dict[bytes, tuple[int, int]]]:
    """Give the pieces that ``words`` are found by, and of each word which one it is and where."""
    pieces = [piece.encode() for piece in PIECES]
    find = _finder(pieces)
    places: dict[bytes, tuple[int, int]] = {}
    for word in words:
        found = find(word, True)
        if found:
            places[word] = min(found)[:2]
        else:
            places[word] = (len(pieces), 0)
            pieces.append(word)
    return pieces, places


def _letters(word: bytes) -> bytes:
    """Give the longest run in ``word`` that is not ASCII."""
    runs: list[bytes] = _FOREIGN.findall(word)
    return max(runs, key=len)
