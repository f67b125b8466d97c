"""Secrets in sentences: passwords in many languages, accounts, one-time codes, wallet words.

A sentence proves less than a setting, so a password must look like one to be found here.
"""

from typing import Final

from treering.capture.secret_assignments import Span
from treering.capture.secret_values import (
    SEED_STOP_WORDS,
    has_digit,
    is_given,
    is_joined_phrase,
    is_jumbled,
    is_mixed,
    is_name_like,
    is_random,
    is_scrambled,
    without_stop,
)
from treering.lazy import lazy_pattern

BEFORE_CHARS_MAX: Final = 160

_PASSWORD: Final = r"[^\s\"'`«»“”‘’「」<>(),;\u0080-\U0010ffff]{5,128}"  # noqa: S105
_IS: Final = (
    r"(?:is|est|es|é|è|ist|lautet|lauten|это|e|to|jest|är|er|on|je|este|là|adalah|ialah|είναι"
    r"|yra|ir|olarak|are|sind|sont|son|sono|são|zijn)"
)
_LINK: Final = (
    rf"(?:[ ]?(?:[:：=]|—|–|->|→)|[ ]{_IS}[ ]?:?(?=[ ])|[是为為]|は|が|[는은가])[ ]{{0,2}}"
)

SPOKEN_PASSWORDS: Final = (
    "WLAN-Schlüssel|WLAN Schlüssel|Netzwerkschlüssel|wifi key|Wifi key"
    "|WiFi key|Wi-Fi key|wi-fi key|wlan key|WLAN key|wireless key"
    "|network key|Network key|network code|wifi code|Wi-Fi code"
    "|mot_de_passe|motdepasse|contrasena|haslo"
    "|Mot de passe|mot de passe|le mdp|mon mdp|, mdp|Mdp|MDP|contraseña|Contraseña"
    "|contrasenya|mi clave|tu clave"
    "|su clave|clave de acceso|la clave|La clave|Clave:|clave:|senha|Senha"
    "|palavra-passe|Palavra-passe"
    "|parola d'ordine|parola|Parola|Passwort|passwort|Kennwort|kennwort|wachtwoord|Wachtwoord"
    "|hasło|Hasło|hasła|Hasła|heslo|Heslo|lozinka|Lozinka|geslo|Geslo|lösenord|Lösenord|passord"
    "|Passord|adgangskode|Adgangskode|salasana|Salasana|lykilorð|Lykilorð|jelszó|Jelszó|jelszav"
    "|şifre|Şifre|пароль|Пароль|пароля|парола|Парола|лозинка|Лозинка|slaptažodis|Slaptažodis"
    "|parool|Parool|κωδικός|Κωδικός|κωδικος|كلمة المرور|كلمة السر|رمز عبور|گذرواژه|סיסמה|סיסמא"
    "|पासवर्ड|পাসওয়ার্ড|รหัสผ่าน|mật khẩu|Mật khẩu|kata sandi|Kata sandi|katalaluan|密码|密碼|口令"
    "|パスワード|暗証|비밀번호|암호"
)
_CHANGED: Final = (
    r"[ ](?:auf|a|en|por|para|na|su|in|naar|till|do|на|を|habe[ ]ich|hab[ ]ich)(?=[ ])[ ]"
)
_TOLD: Final = lazy_pattern(
    r"[a-zа-яäåæøéíőúışğčžýłęąò]{0,6}(?:\*\*)?[\"'`]?"
    rf"(?:(?:[ ][^\s:：=\"'`]{{1,24}}){{0,4}}?{_LINK}|(?P<weak>{_CHANGED}|を[ ]?)"
    r"|(?P<beside>[ ]))(?:\*\*)?[\"'`«“„「]?"
    rf"(?P<value>{_PASSWORD})"
)
_BESIDE_CHARS_MIN: Final = 6


def find_spoken_password(text: str, _start: int, end: int) -> Span | None:
    """Find a password next to the word for it, in one of many languages."""
    match = _TOLD.match(text, end)
    if match is None:
        return None
    value = without_stop(match["value"])
    if match["beside"] and len(value) < _BESIDE_CHARS_MIN:
        return None
    if match["weak"] and is_name_like(value):
        return None
    return _if_password(value, match.start("value"))


SPOKEN_KEYS: Final = (
    "clé API|clé d'API|clé secrète|clave API|clave de API|clave secreta|chave API|chave de API"
    "|chave da API|chiave API|API-Schlüssel|API Schlüssel|API-sleutel|klucz API|API-klucz|klíč API"
    "|API-nyckel|API-nøgle|API anahtarı|ключ API|API-ключ|API ключ|секретный ключ|API密钥|密钥|金鑰"
    "|令牌|APIキー|トークン|API 키|API키|토큰|токен|Токен|jeton|Zugriffstoken|token de acceso"
)
_KEY_TOLD: Final = lazy_pattern(
    rf"[a-zа-я]{{0,4}}(?:[ ][^\s:：=\"'`]{{1,24}}){{0,3}}?{_LINK}[\"'`«“„「]?"
    r"(?P<value>[A-Za-z0-9_+/=.~-]{16,512})"
)


def find_spoken_key(text: str, _start: int, end: int) -> Span | None:
    """Find a key or token next to the word for it in a language other than English."""
    match = _KEY_TOLD.match(text, end)
    return ("token", *match.span("value")) if match and is_random(match["value"]) else None


PAIRS: Final = (
    "user:|User:|sername:|ogin:|wifi:|Wifi:|WiFi:|Wi-Fi:|WLAN:|SSID:|enutzer:|suario:"
    "|admin / |root / |Admin / |administrator / "
)
_PAIR: Final = lazy_pattern(
    rf"(?:(?<=:)[ ]?[\w.@+-]{{1,64}}[ ]/[ ]|(?<=[ ]/[ ]))(?P<value>{_PASSWORD})"
)


def find_paired(text: str, _start: int, end: int) -> Span | None:
    """Find the password after an account and a slash: ``user: admin / …``."""
    match = _PAIR.match(text, end)
    value = without_stop(match["value"]) if match else ""
    return _if_password(value, match.start("value")) if match and not is_name_like(value) else None


USED: Final = (
    "is the password|is my password|is your password|for the password|ist das Passwort"
    "|est le mot de passe|es la contraseña|è la password|é a senha|is het wachtwoord|to hasło"
    "|as the password|as password|as the new password|as your password|as my password|as pw"
    "|as the root password|as the admin password|as a password|as credentials|as creds"
    "|als Passwort|als Kennwort"
    "|comme mot de passe|como contraseña|como senha|come password|als wachtwoord|jako hasło"
    "|в качестве пароля|olarak ayarla|şifresiyle|を入力|作为密码|로 설정"
)
_USED: Final = lazy_pattern(rf"(?<![^\s\"'`«“「])({_PASSWORD})[\"'`»”」]?[ ]?\Z")


def find_used(text: str, start: int, _end: int) -> Span | None:
    """Find the word before ``as the password``."""
    match = _USED.search(text, max(0, start - BEFORE_CHARS_MAX), start)
    return _if_password(match[1], match.start(1)) if match and not is_name_like(match[1]) else None


LOGINS: Final = "to log in|to sign in|to login|is the login|are the creds"
_LOGIN: Final = lazy_pattern(
    rf"(?<![^\s\"'`«“「])[A-Za-z][\w.@-]{{0,32}}[:/]({_PASSWORD})[\"'`]?[ ]?\Z"
)


def find_login(text: str, start: int, _end: int) -> Span | None:
    """Find the password of an account before what it is for: ``admin:… to log in``."""
    match = _LOGIN.search(text, max(0, start - BEFORE_CHARS_MAX), start)
    return _if_password(match[1], match.start(1)) if match and not is_name_like(match[1]) else None


ACCOUNTS: Final = (
    "og in with|ogin with|ign in with|og in using|ign in using|ugang"
    "|ogged in as|ogin as|og in as"
    "|redentials|creds|Creds|ogin is|ogin details"
    "|Zugangsdaten|Anmeldedaten|ogindaten|dentifiants|redenciales|redenziali|redenciais"
    "|nloggegevens|ane logowania|четные данные|чётные данные|огин|账号|帳號|アカウント|계정"
    "|sername/password|ser/pass|ogin/password"
)
_ACCOUNT: Final = lazy_pattern(
    rf"(?:[ ](?:for|to|für|pour|para|per)[ ][^\n:]{{1,40}}?)?(?:[ ]{_IS})?[ ]?[:：]?[ ]{{0,2}}"
    r"(?:\n[ ]{0,8}(?![\"'`]))?[\"'`(]?[\w.@+-]{1,64}[\"'`]?"
    r"(?:[ ]/[ ]|[ ]?\n[ ]{0,8}(?=\S{5,128}\s{0,8}(?:\n|\Z))|:[ ]?|,[ ]"
    r"|[ ](?:and|und|et|y|e|with|mit)[ ])"
    rf"[\"'`]?(?P<value>(?![/$@]){_PASSWORD})"
)


def find_account(text: str, _start: int, end: int) -> Span | None:
    """Find the password of an account: ``log in with admin / …``."""
    match = _ACCOUNT.match(text, end)
    if match is None or "://" in match[0]:
        return None
    return _if_password(match["value"].rstrip(".)"), match.start("value"))


PLACES: Final = (
    "og in to|og into|og in at|ign in to|ign into|ign in at|og on to|ogin for|redentials for"
)
_ACCOUNT_THERE: Final = lazy_pattern(
    r"[ ][^\n]{1,80}?(?:[ ](?:with|using|as|is)|:)[ ][\"'`(]?[\w.@+-]{1,64}(?:[ ]/[ ]|:(?=[^\s/]))"
    rf"(?P<value>(?![/$@]){_PASSWORD})"
)


def find_account_there(text: str, _start: int, end: int) -> Span | None:
    """Find the password of an account after its place: ``log in to the panel with admin / …``."""
    match = _ACCOUNT_THERE.match(text, end)
    value = without_stop(match["value"]) if match else ""
    return _if_password(value, match.start("value")) if match and not is_name_like(value) else None


CODES: Final = (
    "your code|Your code|my code|oor code|gate code|alarm code|ugangscode|lock code|safe code"
    "|sms code|SMS code|ein Code|hr Code|otre code|u código|uw code"
    "|wój kod|uo codice|аш код|код:|的验证码|verify your|confirm your|sign in to|log in to"
    "|erification code|ecurity code|ogin code|uthentication code|ccess code|onfirmation code"
    "|erification Code|ecurity Code|ogin Code|uthentication Code|ccess Code|onfirmation Code"
    "|ign-in code|asscode|ne-time code"
    "|ne-time password|Enter code|Enter the code|enter code|OTP|--otp|2FA code"
    "|MFA code|TOTP code|2FA|PIN:|PIN |PIN=|pin: |pin is|PIN-Code|PIN code|PIN Code"
    "|estätigungscode|erifizierungscode"
    "|icherheitscode|ode de vérification|ode de confirmation|ódigo de verificación"
    "|ódigo de seguridad"
    "|ódigo de verificação|ódigo de confirmação|odice di verifica|erificatiecode|od weryfikacyjny"
    "|oğrulama kodu|од подтверждения|од из СМС|ověřovací kód|erifieringskod|验证码|驗證碼"
    "|認証コード|確認コード|인증번호|인증 코드|mã xác"
)
_CODE: Final = lazy_pattern(
    rf"(?:[ ](?:minh|code|PIN))?(?:[ ]?(?:for|für|pour|para|per|of)[ ][\w -]{{1,32}}?)?"
    rf"(?:[ ]?[:：=]|[ ]?{_IS}\b:?|[是为為]|は|는|은|[ ][—–-])?"
    r"[ ]{0,2}[\"'`]?(?:G-)?"
    r"([0-9]{3}[ -][0-9]{3}|[0-9]{4,8})(?![\w%]|[.,:/-][0-9])"
)
_CODE_BEFORE: Final = lazy_pattern(
    r"(?<![\w.:/#-])(?:G-)?([0-9]{3}[ -][0-9]{3}|[0-9]{4,8})"
    r"[ ](?:(?:is|as|to|ist|est|es|è|é|als|come|como|comme|jako)[ ][^\n0-9]{0,40})?\Z"
)


def find_one_time_code(text: str, start: int, end: int) -> Span | None:
    """Find the digits of a one-time code or a PIN, after or before the word for it."""
    if text[start].isupper() and text[start - 1 : start].isalnum():
        return None
    match = _CODE.match(text, end) or _CODE_BEFORE.search(
        text, max(0, start - BEFORE_CHARS_MAX), start
    )
    return ("password", *match.span(1)) if match else None


RECOVERY: Final = (
    "ecovery key|ecovery Key|ecovery_key|ecoveryKey"
    "|ackup Code|ecovery Code"
    "|ecovery code|ackup code|ecovery_code|ackup_code|ecoveryCode|ackupCode"
    "|cratch code|mergency code|iederherstellungscode|odes de secours"
    "|ódigos de respaldo|ódigo de recuperación|恢复代码|备用码|バックアップコード"
)
_RECOVERY_CODE: Final = (
    r"(?:(?:[A-Z0-9]{4,6}-){5,7}[A-Z0-9]{4,6}"
    r"|(?=[A-Za-z-]{0,40}[0-9])[A-Za-z0-9]{4,10}(?:-[A-Za-z0-9]{4,10}){1,7}|[0-9]{4}[ ][0-9]{4}"
    r"|(?=[a-z]{0,9}[0-9])[a-z0-9]{8,10}|[0-9]{8})"
)
_NUMBER: Final = r"(?:[0-9]{1,2}[.)][ ]{1,2})?"
_RECOVERY: Final = lazy_pattern(
    r"s?(?:[ ](?:for|of|to)[ ][\w .@'-]{1,40}?(?=:|[ ](?:is|are|=)[ :]))?"
    r"(?:[ ](?:is|are)|[ ]?[:：=])?[\s\"'`\[:-]{0,6}"
    rf"{_NUMBER}({_RECOVERY_CODE}(?:[\s,\"'`]{{1,8}}{_NUMBER}{_RECOVERY_CODE}){{0,20}})(?![\w-])"
)


def find_recovery_codes(text: str, _start: int, end: int) -> Span | None:
    """Find the recovery codes of an account, first to last."""
    match = _RECOVERY.match(text, end)
    return ("password", *match.span(1)) if match and is_given(match[1]) else None


SEEDS: Final = (
    "mnemonic|Mnemonic|MNEMONIC|phrase|Phrase|PHRASE|wallet|Wallet|WALLET|12 words|24 words"
    "|12-word|24-word|seed|Seed|SEED"
    "|助记词|助記詞|シードフレーズ|니모닉|frase|Frase|сид-фраз|Сид-фраз|seed-фраз"
)
_SEED: Final = lazy_pattern(
    r"[^\n]{0,40}?(?:[\s:=\"'`：]|:\s{2,4}|\s{2})"
    r"((?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8}|(?:[0-9]{1,2}[.):]?[ ]?[a-z]{3,8}[,;]?\s{0,2}){12,24})"
    r"(?![a-z])"
)


def find_seed(text: str, _start: int, end: int) -> Span | None:
    """Find the twelve or more words that open a wallet."""
    match = _SEED.match(text, end)
    if match is None or not SEED_STOP_WORDS.isdisjoint(match[1].split()):
        return None
    return "seed", *match.span(1)


def _if_password(value: str, start: int) -> Span | None:
    looks_secret = (
        (has_digit(value) and is_mixed(value)) or is_jumbled(value) or is_scrambled(value)
    )
    looks_secret = looks_secret or is_joined_phrase(value)
    return ("password", start, start + len(value)) if looks_secret and is_given(value) else None


SPOKEN: Final = (
    ("told", SPOKEN_PASSWORDS, find_spoken_password),
    ("told", SPOKEN_KEYS, find_spoken_key),
    ("used", USED, find_used),
    ("account", ACCOUNTS, find_account),
    ("account", PLACES, find_account_there),
    ("account", PAIRS, find_paired),
    ("account", LOGINS, find_login),
    ("code", CODES, find_one_time_code),
    ("code", RECOVERY, find_recovery_codes),
    ("seed", SEEDS, find_seed),
)
"""The name of a rule, its keywords, and the function that finds the secret."""
