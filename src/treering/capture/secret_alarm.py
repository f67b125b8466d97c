"""A quick check whether an event could contain a secret at all.

Nearly all events contain none, and each is checked as it is recorded. An automaton with all
keywords exceeds the processor's caches, so this one uses a few short pieces of them; where a piece
occurs, the keywords that contain it are compared in full.
"""

from collections.abc import Callable, Collection, Iterable
from operator import itemgetter
from typing import Final, TypeAlias

from ahocorasick_rs import BytesAhoCorasick, Implementation

from treering.lazy import lazy_pattern

Called: TypeAlias = Callable[[bytes, int], bool]
"""Returns whether the keyword ending here in canonical JSON could lead to a secret."""

Veto: TypeAlias = tuple[int, bytes]
"""The offset of a byte after a keyword, and the bytes there that rule out a secret."""
NO_VETO: Final = (0, b"")

_ASCII: Final = bytes(range(128))
_FOREIGN: Final = lazy_pattern(rb"[\x80-\xff]+")

# fmt: off
PIECES: Final = (
    " -a", " ay", "$5", "$7", "$a", "-word", "1$", "1//", "1/0", "1/1", "1/3", "1/5", "1/6",
    "1/7", "1/8", "2/0", "2/7", "2/8", "2/9", "6$", "6~", ":*:", "A c", "AIz", "AT-", "EARE",
    "EMO", "Nic", "O(", "PPE", 'Pw"', "Pwd", "QVN", "Q~", "RAL", "RKU", "RUE", "RYP", "S c",
    "SCO", "SG.", "SK4", "SKf", "SPX", "Set p", "T.", "T3x", "W'", "W:", "W\\", "a$", "agic",
    "aio_", "aka_", "arol", "aroo", "asen", "aslo", "assc", "asso", "at_", "ate-L", "ateK",
    "aten", "b[", "bcli", "bcp ", "be/", "bead", "bkaj", "bkc", "bkua", "bmap", "chav", "chia",
    "code=", "dapi", "e:t", "ec_", "eja", "erad", "erau", "erdp", "ertu", "eryf", "eslo", "ftt",
    "fw_", "gho_", "ghs_", "ghu", "glff", "glrt", "hr C", "i-A", "i_o", "ik_", "impd", "in is",
    "in/p", "inka", "lasa", "lasv", "lave", "lavr", "ldap", "li(", "lias", "lin_", "lx-", "ly-",
    "n tar", "n$", "na_", "napi", "net ", "ntoo", "oa(", "otre", "pmit", "pnb_", "pnu", "pt$",
    "ragm", "rar ", "ratc", 'rets"', "rg:", "rzp", "s my", "s.z", "sec1", "serm", "set/", "seta",
    "sib-", "sicA", "sig=", "sk'", "sk.", "sk:", "sk\\", "skey", "skod", "snm", "sntr", "sqlp",
    "t1.", "ultP", "uth'", "uth\\", "utty", "wco", "wine", "y$", "za ", "2/2", "AK-", "MDP",
    "Mdp", "NRI", "OG1", "SK0", "SKa", "SKd", "_v1", "au_", "b_s", "cfk", "ck_", "come", "erh",
    "fm2", "gow", "hr_", "hvb", "hvr", "hx_", "lal", "ldt", "lk_", "otd", "psc", "ptt", "rdm",
    "rpc", "se0", "seal", "sex", "sv2", "ul-", "w:", "xap", "zav", "AKC", "ATB", "CIP", "ET-",
    "EZT", "NRJ", "OJA", "OTP", "PIN", "RA-", "RAG", "RAS", "SAL", "SEE", "SK7", "SKe", "See",
    "YCM", "ata s", "bp_", "ca_", "cfu", "cmV", "co-", "commu", "ebh", "eriv", "fm1", "fp_",
    "gp_", "gu_", "invi", "li_", "llet", "oy2", "rap ", "rnd", "sms ", "sqa", "xai", "xpd",
    "y cod", "zpr", " -t ", "1/4", "1/9", "2/4", "2/5", "2/6", "RAM", "U ", "W ", "W=", "hf_",
    "hvs.", "io:", "ne-t", "nect(", "nemo", "net:", "pbk", "re=", "seed", "set-", "signI", "sk=",
    "sq0", 'uth"', "ALS", "CAJ", "EZA", "SK1", "SK2", "TAI", "as-", "ate/", "cr_", "dG9", "fo1",
    "gla", "glc", "hta", "jet", "lft", "od_", "pect ", "ps_", "r8_", "shS", "xox", "yct", "PSK",
    "RUd", "SIA", "SK8", "UTH", "cql", "ftp", "ntn", "re_", "sk_", "ugr", "uth ", "yJh", "ya2",
    "ypr", "SK6", "akm", "ci_", "dt0", "edn", "nts:", "ob-", "ECK", "gd_", "pk_", "swd", "ych",
    "$2", "2/1", "2/3", "=(", "SK9", "erne", "ess-", "raC", "ser/p", "v1.", "w'", "{P",
    '"do', "SKb", "SKc", "rk_", "squ", "tmq", "SK3", "gli", "gls", "sqp", "COO", "SK5", "pm_",
    "scor", "yge", "zip", "--l", "R13", "pt:", "iex", "2FA", "ghp_", "in: ", "ind:", "pt(", "dp.",
    "at-", "codi", "n cod", "ult o", "htw", "is-", "reS", "PI-", "PWD", "RED", "--c", "--o",
    "c co", "eric", "unl", "shp", "\x1b[", "in wi", "bw l", "sl.", "as th", "sh(", "ALL", "AKI",
    "as a ", "Cred", "sh_", "r cod", "y C", "cmd", "_de", "SET", "enss", "cp_", "xpr", "_au",
    "ret s", 'pw"', "liv", "z ", "--a", "pwd", "lan ", "link", "s y", "64 ", "NTI", "w(", "w co",
    ":A", "E K", "uff", "wt.", "logg", "ntifi", "s.s", " -b", "is th", "er lo", "ey-", "s = {",
    "word(", "{S", "ckup", "cho", 'sk"', "setu", "in to", "hra", "ldr", "cio", "w=", "re-", "<<",
    'W"', "-us", "curl", "er k", "n C", "lon", "set p", "643", "es (", "erif", "Ent", "w\\",
    "in d", "-u ", "RD ", "uthe", "ey(", "de:", 'ret"', "wort", "irm", "sic", "ALU", "enco",
    "fc-", "riza", "ess ", "s: {", "cred", "nt(", "ass:", "enh", "sk-", "in\\", "sern", "Coo",
    "c(", "EAA", "rer", "SES", "as p", "eden", "1/2", "in(", "ras", ":543", " de ", "ongo",
    "words", "r the", " mdp", "cook", "sql", "dk-", "com:", "pi-", "eyJ", "--B", "ECR", "uth:",
    "nect", "psk", "-pas", "gin ", "uth=", "Secr", "ret_", "TOKEN", "pw ", "Pass", "PASS", "KEY",
    "Token", ":/", "Key", "secr", "pass", "key", "pat", "token",
)
# fmt: on
"""Pieces that are rare in agents' logs and common to many keywords, rarest first.

A keyword without one is its own piece: this list affects the speed of the check, not its result.
"""


class Alarm:
    """Finds keywords in canonical JSON or UTF-8 text that could lead to a secret there."""

    def __init__(self, keywords: Collection[tuple[str, Called, Veto]]) -> None:
        known = {keyword for keyword in keywords if keyword[0].isascii()}
        # JSON escapes a quote with a backslash.
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
            # A veto of one word must not apply to other words with the same piece.
            is_alone = len(checks) == 1 and word == pieces[piece]
            self._vetoes[piece] = veto if is_alone else NO_VETO
        foreign = sorted({word.encode() for word, _, _ in keywords if not word.isascii()})
        # Few texts contain letters of these words, though many contain some non-ASCII character.
        self._find_letters = _finder(sorted({_letters(word) for word in foreign}))
        self._find_foreign = _finder(foreign)

    def is_raised(self, encoded: bytes) -> bool:
        """Return whether ``encoded`` contains a keyword that could lead to a secret."""
        vetoes, checks = self._vetoes, self._checks
        try:
            for index, start, end in self._find(encoded, True):
                at, refused = vetoes[index]
                if refused and encoded[end + at] in refused:
                    continue
                for word, offset, length, is_called in checks[index]:
                    # A negative start compares with the end of the text: at worst a false alarm.
                    if encoded.startswith(word, start - offset) and is_called(
                        encoded, start + length
                    ):
                        return True
        except IndexError:
            # The text ends before the byte that could have ruled out its last keyword.
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
    """Return the pieces that identify ``words``, and the piece and offset of each word."""
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
    """Return the longest run in ``word`` that is not ASCII."""
    runs: list[bytes] = _FOREIGN.findall(word)
    return max(runs, key=len)
