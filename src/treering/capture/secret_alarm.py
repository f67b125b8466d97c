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
    "$2", "$5", "$6", "$7", "$a", "$p", "$y", "-AgE", "-BEG", "-Lin", "-U ", "-logi", "-time p",
    "1$", "2 wo", "2-wo", "24 w", "24-w", "2_sk", ":5432", ":6432", ":A", "A256", "ALLE", "A}",
    "CRUd", "Clav", "Client:", "Cohe", "E K", "EARE", "EPPE", "Elev", "F2}", "FA ", "FALS",
    "Fern", "Fras", "G9rO", "GetU", "K=", "KeyT", "MD5}", "Mnem", "OJAR", "PAT-", "PAT_", "PID=",
    "PIN-", "PW\\", "Paro", "Passo", "Passw", "Psk\\", "Pw\\", "RAM-", "RAUT", "RII-", "RIQ-",
    "RJS-", "RUE", "SECK", "SETU", "SK ", "SK'", "SK:", "SK\\", "Senh", "T.e", 'TH"', "TH'",
    "TH:", "TH=", "TH\\", "T}", "WS ", "YCAJ", "a256$", "a256~", "aik_", "alas", "alk_",
    "alues (", "appid", "auth=", "bcli", "bead", "bear", "bkct", "cceso", "ccess-", "cfat",
    "chta", "chtw", "clave", "cle:", "clon", "codic", "cret s", "cret_", "crets =", "crets\\",
    "cretsd", "crypt$", "crypt(", "crypt:", "cryptse", "cxik", "cy c", "dapa", "dapd", "dapm",
    "daps", "dapw", "dme_", "dnet", 'domain"', "domain\\", "dusa", "fm1a", "fm1r", "freer",
    "fy y", "fy-e", "gKey", "g_in", "gind", "glag", "glcb", "gldt", "glf", "glim", "gloa",
    "glpt", "glrt", "glsa", "gn-i", "gnIn", "gnto", "jabb", "jels", "k-an", "k.ey", "kSer",
    "k_pa", "k_tes", "ka_", "kaj_", "kata", "ken$", "kennw", "ker l", "keyc", "keyg", "keyp",
    "kmp ", "kua_", "mac(", "mac.N", "magi", "mc al", "mc co", "mcli", "mdGt", "mdke", "oggeg",
    "ogin C", "ogin d", "ogin i", "ogow", "on Cod", "on mdp", "on2.", "onfirm/", "oq(", "oxe-",
    "oxe.", "oxo-", "oxr-", "oxs-", "p.ct", "p.pt", "p.sa", "p.st", "packet", "paro", "passo",
    "pat-", "pat_", "pccl", "pcsk", "pin ", "pin:", "plx-", "pmit", "prod_", "proso", "ps_e",
    "psca", "psk\\", "pw(", "pw\\", "r_oa", "rabb", "radd", "ral(", "ram(", "rap to", "raut",
    "reSy", "red-k", "redis", "repas", "rm y", "rman ", "rmod", 'rname"', "rname/", "sdat",
    "se64 -", "seal K", "seal k", "sec1", "secou", "sena", "senh", "seny", "seta", "setus",
    "shSy", "shpc", "shps", "sl.u", "smbe", "smbm", "sms co", "snmp", "sntr", "sq0a", "sq0c",
    "sqlc", "sqll", "sqlp", "t de ", "t0c0", "t0s0", "t1.", "t_de_", "tdep", "tifia", "tivate/",
    "toa(", "tp -", "tp-b", "tps -", "tpsi", "tvly", "v(", "v1.", "ve AP", "ve da ", "ve de ",
    "verify/", "vite/", "w logi", "w unl", "wine", "wlan", "wmie", "yJhI", "yJhd", "ya29",
    "yarl", "ysib", "za ", "zink", "-time c", ".new(", "2_p", ":5433", "ALUE", "Auth(", "Auth\\",
    "Enter ", "GOC", "Ges", "PHR", "RAGM", "RAL", "T(", "THO", "app-", "asl", "au_", "auth(",
    "ccess C", "ccess c", "codeT", "cql", 'crets"', "fm2", "fsto", "glso", "gn in", "jina",
    "jwt.", "k.co", "kod", "m_ke", "mne", "o1_", "ogin/", "ongo", "oxa", "oxd", "oxp", "p.a",
    "p.sc", "pa_", "penss", "prag", "r/pa", "raC", "scord", "sec_", "seed", "sex", "shpa",
    "tiec", "ver k", "ygem", "zp_", "$g", "-u ", ".if", "A51", "AK-", "AKC", "Anm", "Cook",
    "EAAC", "EZT", "GOO", "GR1", "IFI", "ISC", "Iza", "Kat", "Ken", "Keys:", "MNE", "OKI",
    "Phra", "RA-", "RJ_", "RKU", "S c", "SECR", 'SK"', "T3x", "To-", "Wall", "a256:", "auth_",
    "co-", "commu", "crat", "cred", "crets:", "crypt.", "cryptj", "cxl", "cyj", "duff", "g_k",
    "gn_", "kup co", "my c", "my p", "og in ", "oxb", "pm_", "prv", 'rname\\"', "tuti", "wco",
    "TBB", "TH ", "apie", "ccounts", "gu_", "onnect(", "passwd", "ysq", "-otp", "IFY", "O(",
    "OTP", "QVN", "auth\\", "b64e", "ci_", "cook", "cr_", "gd_", "gp_", "jet", "r def", "tified",
    "tn_", "-pas", "-t ", "PI-", "ftp", "key-", "vr.", "ydra", "Authe", "api_", "covery ",
    "curl", "ob-", "v1_", "Bear", "Conn", "PAS", "com:", "scod", "verific", "TAI", "authe",
    "fp_", "phra", "set/", "vb.", "vs.", "Autho", "re cod", "auth ", "Buffer.", "auth:", "w cod",
    "ALT", "on_k", "Secr", "be/", "onK", "z ", "Cred", "reden", "pect ", "gin(", "authori",
    "curity ", "bhoo", "on cod", "-user", "onfirma", "re=", "r code", "passwo", "ai-", "ogin ",
    "api-", "ve_", "slo", "g=", "SESS", "mdp", "secr", "f_", "t use", "yJ", "pdp", "auth",
    "Code", "k-", "cho", "k_", ".A", ":ge", "EAP ", "IN}", "Key i", "PI K", "SID:", "Seri",
    "Token(", "WLAN", "Wi-Fi", "Wifi", "afe c", "afe(", "alar", "api k", "covery_", "createU",
    "create_", "gang", "gate c", "genk", "gin:", "gnUp", "gner", "k cod", "ken_b", "ken_h",
    'kty"', "kty\\", "kup_", "priv ", "pwge", "cense ", "vation ", '" . ', "rname:", "to log",
    "tzer", "wifi", "y reset",
    "gister(", "PI key", "the log", "key is", "o:", "ser:",
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
        self._find = finder(pieces)
        held: list[list[tuple[bytes, Called, Veto]]] = [[] for _ in pieces]
        for word, called, veto in by_word:
            held[places[word][0]].append((word, called, veto))
        self._calls = [
            (
                # A veto of one word must not apply to other words with the same piece.
                _encoded(words[0][2]) if [piece] == [word for word, _, _ in words] else (),
                [called for word, called, _ in words if word == piece],
                [
                    (word, places[word][1], len(word) - places[word][1], _encoded(veto), called)
                    for word, called, veto in words
                    if word != piece
                ],
            )
            for piece, words in zip(pieces, held, strict=True)
        ]
        """What must not follow a piece, whom it calls as a whole word, and the words around it."""
        self._foreign = sorted({word.encode() for word, _, _ in keywords if not word.isascii()})

    def raised_at(self, encoded: bytes, most: int) -> list[int]:
        """Return where ASCII keywords in ``encoded`` could lead to a secret.

        The search ends when ``most`` are found.
        """
        calls = self._calls
        raised: list[int] = []
        for piece, start, end in self._find(encoded, True):
            veto, whole, longer = calls[piece]
            if veto and encoded.startswith(veto, end):
                continue
            for is_called in whole:
                if is_called(encoded, end):
                    break
            else:
                for word, offset, rest, own_veto, is_called in longer:
                    # A negative start compares with the end of the text: at worst a false alarm.
                    if (
                        encoded.startswith(word, start - offset)
                        and not encoded.startswith(own_veto, start + rest)
                        and is_called(encoded, start + rest)
                    ):
                        break
                else:
                    continue
            raised.append(start)
            if len(raised) >= most:
                break
        return raised

    def is_foreign(self, encoded: bytes) -> bool:
        """Return whether ``encoded`` contains a keyword that is not ASCII."""
        letters = encoded.translate(None, _ASCII)
        return bool(self._find_letters(letters, True)) and bool(self._find_foreign(encoded, True))

    # Built when first needed: each takes as long as it takes to print a few titles.

    @cached_property
    def _find_letters(self) -> Find:
        # Few texts contain letters of these words, though many contain some non-ASCII character.
        return finder(sorted({_letters(word) for word in self._foreign}))

    @cached_property
    def _find_foreign(self) -> Find:
        return finder(self._foreign)


def finder(words: Iterable[bytes], built_as: Implementation = Implementation.DFA) -> Find:
    """Return what finds ``words``; it takes milliseconds to build."""
    return BytesAhoCorasick(list(words), implementation=built_as).find_matches_as_indexes


def _placed(words: list[bytes]) -> tuple[list[bytes], dict[bytes, tuple[int, int]]]:
    """Return the pieces that identify ``words``, and the piece and offset of each word."""
    pieces = [piece.encode() for piece in PIECES]
    find = finder(pieces, Implementation.NoncontiguousNFA)  # Slower, and built five times as fast.
    places: dict[bytes, tuple[int, int]] = {}
    for word in words:
        hits = find(word, True)
        if hits:
            places[word] = min(hits)[:2]
        else:
            places[word] = (len(pieces), 0)
            pieces.append(word)
    return pieces, places


def _encoded(veto: Veto) -> tuple[bytes, ...]:
    return tuple(map(str.encode, veto))


def _letters(word: bytes) -> bytes:
    """Return the longest run in ``word`` that is not ASCII."""
    runs: list[bytes] = _FOREIGN.findall(word)
    return max(runs, key=len)
