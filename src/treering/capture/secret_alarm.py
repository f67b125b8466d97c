"""A quick check whether an event could contain a secret at all.

Nearly all events contain none, and each is checked as it is recorded. An automaton with all
keywords exceeds the processor's caches, so this one uses a few short pieces of them; where a piece
occurs, the keywords that contain it are compared in full.
"""

from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

from ahocorasick_rs import BytesAhoCorasick, Implementation

from treering.lazy import lazy_pattern

Called: TypeAlias = Callable[[bytes, int], bool]
"""Returns whether the keyword ending here in canonical JSON could lead to a secret."""

Find: TypeAlias = Callable[[bytes, bool], list[tuple[int, int, int]]]
"""Returns which words occur in a text, and where."""

Veto: TypeAlias = tuple[str, ...]
"""How the text after a keyword may begin, if that rules out a secret."""
NO_VETO: Final = ()

_ASCII: Final = bytes(range(128))
_FOREIGN: Final = lazy_pattern(rb"[\x80-\xff]+")

# fmt: off
PIECES: Final = (
    "\x1b[", " -t ", " KE", " ay", " de ", " mdp", " pw", '"dom', '"usern', "$2", "$5", "$7",
    "$a", "$p", "--au", "--ot", "-Lin", "-log", "-pas", "-word", ".de:", ".io:", "/mag", "/uns",
    "/veri", "1$", "2$", "24 w", "2:s", "432:", "433:", "6$", "6~", ":*:", ":A", "<<<", "API-",
    "AT-", "CCIP", "CL ", "CS:", "Conn", "EAAB", "EMO", "FA ", "Fi.", "GMA", "HRK", "In(", "LLE",
    "Nic", 'PW"', "Passw", 'Pw"', "Pw:", "Pw=", "Pw\\", "Pwd", "Q~", "RUE", "S c", "SALT", "SCO",
    "SEED", "SG.", "SK4", "Secr", "Seed", "Senh", "T(", "ToSt", "T}", "W ", "W'", "W:", "W=",
    "W\\", "Wall", "_liv", "_test_", "_v1_", "aio_", "alas", "arol", "aroo", "asso", "atie",
    "bcp ", "bw ", "cess-", "chav", "ckup ", "code(", "d-ke", "dapi", "daten", "dice", "dis-",
    "dock", "dp.", "e64 ", "er k", "erau", "ertu", "eslo", "fer.f", "fian", "figd", "fy y",
    "gin d", "gin i", "glag", "glf", "gloa", "gn i", "hash(", "hf_", "hr ", "irm/", "ite/",
    "k.c", "ka_", "key-", "lave", "ldap", "mc ", "mob-", "n Cod", "ncia", "ne-t", "nect(",
    "nemo", "nsea", "nter c", "nvap", "oAc", "oa(", "og in", "okie", "oots", "p k", "pat-",
    "pat_", "pin ", "pin:", "pw ", 'pw"', "pw(", "pw:", "pw=", "pw\\", "radd", "rar ", "rase",
    "re=", "reds", "ret ", "rets", "rg:", "rmod", "roco", "scry", "sec1", "seed", "senh", "sig=",
    "sk\\", "sl.", "sqp_", "t1.", "ts: [", "tt.", "ty C", "ues (", 'uth"', "uth=", "utty", "uw ",
    "v(", "v1.", "vb.", "vcp_", "vr.", "vs.", "w'", "wine", "wort", "wt.", "x$", "xai-", "ypt(",
    "ys:", "za ", "{P", "{S", " -u", ".z", "0tL", "1/0", "2/6", "2/9", "2_p", "ARS", "EAAM",
    "EGI", "GOC", "Gtu", "Mdp", "NRI", "O(", "OG1", "PHR", "PSK", "RAL", "RER", "SK0", "SK8",
    "SKa", "SKf", "SWO", "U ", "_pas", "ac(", "asl", "au_", "bbi", "cht", "cql", "crat", "dne",
    "enz", "eyc", "fat", "fik", "fm2", "ghp", "ho_", "hr_", "hx_", "i-A", "k'", "kat", "kod",
    "lk_", "lx-", "m y", "mys", "ngo", "nia", "nmp", "o1_", "otd", "pdp", "pnu", "qu_", "rtn",
    "scor", "sex", "sza", "tified", "tt-", "ugr", "ul-", "ung", "uth(", "vcr", "whs", " -a",
    "1/4", "2FA", "AJE", "AK-", "AKC", "CRE", "EAAC", "EZT", "GR1", "Iza", "Kat", "LTA", "NRJ",
    "OKI", "RA-", "SK9", "T3x", "TIF", "YCM", "_au", "_oa", "a k", "acl", "aj_", "bp_", "co-",
    "cred", "dke", "erd", "ew(", "fk_", "fw_", "ghu", "gld", "gn_", "gnt", "hia", "ib-", "ik_",
    "ipm", "kub", "man ", "na_", "net ", "otr", "pi_", "pk_", "pm_", "prv", "rdm", "sgp", "smb",
    "ss C", "vca", "wco", "wla", "wmi", "xap", "y$", "//0", "1/3", "1/6", "2 w", "2/2", "9rO",
    "ALU", "ATB", "AUTH", "FAL", "FLW", "Fer", "PPE", "SK1", "SK3", "SK5", "SK7", "SKd", "TOKEN",
    "ZAK", "arer", "bkc", "curl", "dyc", "eyJ", "glr", "gn-", "gu_", "imt", "kua", "nb_", "net:",
    "od_", "og_", "ozi", "plin", "qa_", "rnd", "sk_", "snt", "sq0", "swd", "vci", "ya2", "zip",
    " login ", "/pas", "1/1", "1/5", "2/0", "AAG", "OTP", "QVN", "SIA", "SK2", "cfu", "ck_",
    "ebh", "gev", "hs_", "jet", "lt on", "ly-", "m_k", "ode=", "pcc", "pwd", "r8_", "rcl",
    "rds ", "ret_", "shS", "ssl", "tn_", "tp-", "wall", "yge", "2/3", "2/5", "2/7", "MDP", "PIN",
    "SKc", "ftp", "gin c", "h'", "psc", "psk", "shp", "uth\\", "xox", "xpect ", "1/9", "2/1",
    "PWD", "SKe", "glc", "gls", " passw", "1/8", "2/8", "AKI", "com:", "oy2", "reS", "scod",
    "Psk", "SK6", "SKb", "dt0", "fp_", "set/", "sk-", "-us", "2/4", "Ente", "gin w", "ur c",
    "y cod", "/act", "1/7", "fm1", "auth ", "hent", "ns = {", "Pass", "sql", "Client(", "s cod",
    "uth:", "z ", "gin(", "Cred", "eden", "ens:", "cio", "riza", "secr", "SSI", "fc-", "EAAA",
    "on cod", "echo", "1/2", "api-", "dk-", "KEY", "re_", "\\u", "pass", ":/", "key", "Key",
    "Token", "PASS", "pat", "token",
)
# fmt: on
"""Pieces that are rare in agents' logs and common to many keywords, rarest first.

``scripts/choose_alarm_pieces.py`` chooses them. A keyword without one is its own piece: this list
affects the speed of the check, not its result.
"""


class Alarm:
    """Finds keywords in canonical JSON or UTF-8 text that could lead to a secret there."""

    def __init__(self, keywords: Collection[tuple[str, Called, Veto]]) -> None:
        ascii_keywords = {
            (word.encode(), called, veto) for word, called, veto in keywords if word.isascii()
        }
        # JSON escapes a quote with a backslash.
        ascii_keywords |= {
            (word.replace(b'"', b'\\"'), called, veto)
            for word, called, veto in ascii_keywords
            if b'"' in word
        }
        by_word = sorted(ascii_keywords, key=itemgetter(0))
        pieces, places = _placed([word for word, _ in groupby(by_word, key=itemgetter(0))])
        self._find = _finder(pieces)
        self._vetoes: list[tuple[bytes, ...]] = [()] * len(pieces)
        self._checks: list[list[tuple[bytes, int, int, Called]]] = [[] for _ in pieces]
        for word, called, veto in by_word:
            piece, offset = places[word]
            checks = self._checks[piece]
            checks.append((word, offset, len(word) - offset, called))
            # A veto of one word must not apply to other words with the same piece.
            is_alone = len(checks) == 1 and word == pieces[piece]
            self._vetoes[piece] = tuple(map(str.encode, veto)) if is_alone else ()
        self._foreign = sorted({word.encode() for word, _, _ in keywords if not word.isascii()})

    def is_raised(self, encoded: bytes) -> bool:
        """Return whether ``encoded`` contains a keyword that could lead to a secret."""
        vetoes, checks = self._vetoes, self._checks
        for index, start, end in self._find(encoded, True):
            refused = vetoes[index]
            if refused and encoded.startswith(refused, end):
                continue
            for word, offset, length, is_called in checks[index]:
                # A negative start compares with the end of the text: at worst a false alarm.
                if encoded.startswith(word, start - offset) and is_called(encoded, start + length):
                    return True
        return not encoded.isascii() and self.is_foreign(encoded)

    def is_foreign(self, encoded: bytes) -> bool:
        """Return whether ``encoded`` contains a keyword that is not ASCII."""
        letters = encoded.translate(None, _ASCII)
        return bool(self._find_letters(letters, True)) and bool(self._find_foreign(encoded, True))

    # Built when first needed: each takes as long as it takes to print a few titles.

    @cached_property
    def _find_letters(self) -> Find:
        # Few texts contain letters of these words, though many contain some non-ASCII character.
        return _finder(sorted({_letters(word) for word in self._foreign}))

    @cached_property
    def _find_foreign(self) -> Find:
        return _finder(self._foreign)


def _finder(words: Iterable[bytes], built_as: Implementation = Implementation.DFA) -> Find:
    return BytesAhoCorasick(list(words), implementation=built_as).find_matches_as_indexes


def _placed(words: list[bytes]) -> tuple[list[bytes], dict[bytes, tuple[int, int]]]:
    """Return the pieces that identify ``words``, and the piece and offset of each word."""
    pieces = [piece.encode() for piece in PIECES]
    find = _finder(pieces, Implementation.NoncontiguousNFA)  # Slower, and built five times as fast.
    places: dict[bytes, tuple[int, int]] = {}
    for word in words:
        hits = find(word, True)
        if hits:
            places[word] = min(hits)[:2]
        else:
            places[word] = (len(pieces), 0)
            pieces.append(word)
    return pieces, places


def _letters(word: bytes) -> bytes:
    """Return the longest run in ``word`` that is not ASCII."""
    runs: list[bytes] = _FOREIGN.findall(word)
    return max(runs, key=len)
