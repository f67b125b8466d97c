"""Secrets recognized by their context: arguments of commands and calls, SQL, cookies, prose.

No name is next to them. Each phrase defines the text between its keyword and the secret.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from treering.capture.secret_assignments import Span
from treering.capture.secret_names import named
from treering.capture.secret_values import (
    is_dummy,
    is_given,
    is_joined_phrase,
    is_jumbled,
    is_mixed,
    is_name_like,
    is_random,
    is_tangled,
)
from treering.lazy import lazy_pattern

Check: TypeAlias = Callable[[str], bool]

PHRASE_CHARS_MAX: Final = 128
BARE_GROUP: Final = 3
COOKIES_MAX: Final = 64
COOKIE_CHARS_MIN: Final = 16
COOKIE_RECORD_CHARS_MAX: Final = 4_400
COLUMNS_CHARS_MAX: Final = 320

# Up to the flag of a command, on the same line.
_ON: Final = r"[^\n]{0,256}?[\s\"']"
_FIRST_OF_TWO: Final = r"\s{0,4}[\"'][^\"'\n]{1,64}[\"'],\s{0,4}"
_LAST_OF_SOME: Final = rf"[^\n]{{0,{PHRASE_CHARS_MAX}}}?,\s{{0,4}}"
_ACCOUNT: Final = r"[^\n]{0,64}?[ :][\w$#.-]{1,32}/"
_WORD: Final = r"[^\s\"'$<\\-](?:[^\s\"'\\]|\\(?![nrt\"'\\])){2,127}"
_LITERAL: Final = (
    r"[bBrR]?(?:\"(?P<double>[^\"\n]{3,512})\"|'(?P<single>[^'\n]{3,512})'"
    r"|\\{1,3}\"(?P<escaped>[^\"\\\n]{3,512})\\)"
)
_NEXT_LINE: Final = (
    r"(?:[^\n\\\"]|\\(?![nr])|\"(?!,)){0,200}+"
    r"(?:(?:\r|\\r)?(?:\n|\\n)|\",\s{0,8}\"(?:output|stdout|result|content)\"\s?:\s?(?=\"))"
)
_PUBLIC_FIELD: Final = (
    r"(?:field[=s ]{1,2}|-a[ ]|op://[^\n]{1,80}/)"
    r"(?:url|host|hostname|user|username|login|email|port|endpoint|address|id|name)\b"
)
_READS: Final = r"\b(?:cat|bat|head|tail|less|more|type|Get-Content|gc|gh|glab|gcloud|az|fly)[ ]"
_ALONE: Final = r"[^\s\"'`<>\\]{6,4096}(?=[ \t]{0,8}(?:[\r\n\"]|\\[nr]|\Z))"
_QUOTE: Final = r"[\"']"
_ARGUMENT: Final = r"\\{0,3}[\"'],\s{0,4}"


class Phrase(NamedTuple):
    """A keyword, the text between it and the secret, and the secret's pattern."""

    keywords: str
    between: str
    check: Check = is_given
    bare: str = _WORD
    """The pattern of a secret without quotes; empty if quotes are required."""
    bare_check: Check | None = None
    before: str = ""
    """The pattern of what must be before the keyword on its line."""


def is_no_port(value: str) -> bool:
    """Return whether ``value`` looks like a password, not like ports or an address."""
    return is_mixed(value) and re.match(r"[0-9.]{1,15}(?::|/|\Z)", value) is None


def is_drawn(value: str) -> bool:
    """Return whether ``value`` is a random mix of letters and digits or a random UUID."""
    return is_tangled(value) or _UUID.fullmatch(value) is not None


def is_printed(value: str) -> bool:
    """Return whether a word that is alone on its line looks like a password or a key."""
    if value.endswith((":", ",")) or is_name_like(value) or _DATE.match(value) is not None:
        return False
    return is_mixed(value) or is_jumbled(value) or is_joined_phrase(value)


def is_grouped(value: str) -> bool:
    """Return whether ``value`` has the groups of capitals and digits that software is sold with."""
    return _GROUPED.fullmatch(value) is not None and not is_dummy(value)


_GROUPED: Final = lazy_pattern(r"(?=[A-Z-]{0,40}[0-9])(?:[A-Z0-9]{4,8}-){3,7}[A-Z0-9]{4,8}")
_DATE: Final = lazy_pattern(r"[0-9]{4}-[0-9]{2}-")
_UUID: Final = lazy_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RANDOM_WORD: Final = r"[A-Za-z0-9_+/=~.-]{20,512}(?![\w:(])"

PHRASES: Final = (
    # Commands, by the flag for a password.
    Phrase("curl", rf"{_ON}(?:-u|--user)(?:[ =]|[\"'],\s{{0,4}})?[\"']?[^\s:\"'$<]{{1,64}}:"),
    # What a build is told to hide from its log.
    Phrase("::add-mask::", "", bare=r"[^\s\"'$<{*][^\s\"']{3,511}"),
    Phrase(
        "issecret=true|isSecret=true",
        r"[^\]\n]{0,64}\]",
        bare=r"[^\s\"'$<{*][^\s\"']{3,511}",
    ),
    Phrase("sshpass", rf"{_ON}-p ?"),
    Phrase("sshpass", rf"{_ON}-f ?<\((?:echo|printf)[ ]", bare=r"[^\s\"'$<)-][^\s\"')]{2,127}"),
    Phrase("docker login", rf"{_ON}-p[ =]"),
    Phrase("redis-cli", rf"{_ON}-a "),
    Phrase("sqlcmd|bcp |ipmitool", rf"{_ON}-P ?"),
    Phrase("zip", rf"{_ON}-P ?", is_mixed),
    Phrase("mysql", rf"{_ON}-p"),
    Phrase("7z |7za ", rf"{_ON}-p", is_mixed),
    Phrase("az login", rf"{_ON}(?:-p|--password)[ =]"),
    Phrase("ldapsearch|ldapadd|ldapmodify|ldappasswd|ldapwhoami|ldapdelete", rf"{_ON}-w ?"),
    Phrase("ConvertTo-SecureString", rf"{_ON}(?:-String )?", bare=""),
    Phrase("smbclient", rf"{_ON}-U ?[\"']?[^\s%\"']{{1,64}}%"),
    Phrase("mongo|cqlsh|psexec|twine", rf"{_ON}-p[ =]"),
    Phrase("snmp", rf"{_ON}-[AX] "),
    Phrase("openssl", rf"{_ON}(?:-k |-pass(?:in|out)? [\"']?pass:)"),
    Phrase("freerdp|cmdkey", rf"{_ON}/p(?:ass)?:"),
    Phrase(
        "mkpasswd",
        r"(?:[ ]-{1,2}\S{1,24}(?:[ =](?:sha|md5|bcrypt|yescrypt)\S{0,8})?){0,4}[ ]",
        is_mixed,
    ),
    Phrase("rabbitmqctl", r"[ ](?:[\w-]{1,32}[ ]){0,3}(?:add_user|change_password)[ ]\S{1,64}[ ]"),
    Phrase("ejabberdctl|prosodyctl", rf"{_ON}\S{{1,64}}[ ]\S{{1,64}}[ ]", is_mixed),
    Phrase("schtasks", rf"{_ON}/(?:rp|RP)[ ]"),
    Phrase("signtool|certutil", rf"{_ON}[/-]p[ ]", is_mixed),
    Phrase("plink|pscp|psftp|putty", rf"{_ON}-pw[ ]"),
    Phrase("winexe|rpcclient|smbmap|wmiexec", rf"{_ON}-U ?[\"']?[^\s%\"']{{1,64}}%"),
    Phrase("unlock-keychain|import-keychain", rf"{_ON}-p[ ]"),
    Phrase("add-generic-password|add-internet-password", rf"{_ON}-w[ ]"),
    Phrase("lftp", rf"{_ON}-u[ ][\"']?[^\s,\"']{{1,64}},"),
    Phrase("mc alias set|mc config host add", r"[ ]\S{1,64}[ ]\S{1,128}[ ]\S{1,64}[ ]"),
    Phrase("wpa_passphrase", r"[ ](?:\"[^\"\n]{1,64}\"|'[^'\n]{1,64}'|[^\s\"']{1,64})[ ]"),
    Phrase("setairportnetwork", r"[ ]\S{1,16}[ ](?:\"[^\"\n]{1,64}\"|\S{1,64})[ ]"),
    Phrase("rar x|rar a|rar e", rf"{_ON}-h?p", is_mixed),
    Phrase("-pass|-pass:", r"[ =:]?[\"']?pass:"),
    Phrase("gh secret set", rf"{_ON}(?:-b|--body)[ =]?"),
    Phrase("kubeadm", rf"{_ON}--token[ =]", bare=r"[a-z0-9]{6}\.[a-z0-9]{16}"),
    Phrase("ootstrap token", r":?[ ]{1,2}", bare=r"[a-z0-9]{6}\.[a-z0-9]{16}"),
    Phrase("nseal Key|nseal key", r"[ ]?[0-9]{0,2}[ ]?[:=][ ]{0,4}", is_random, _RANDOM_WORD),
    Phrase("PASSWORD ", r"[a-z_]{2,32}[ ]=[ ]", is_mixed),
    Phrase("--user|--auth|--creds|--login", r"[ =][\"']?[^\s:\"'$/<]{1,64}:", is_no_port),
    Phrase("_auth=", r"[\"']?[^\s:\"'$/]{1,64}:", is_no_port),
    Phrase("ssh-keygen", rf"{_ON}-[NP][ ]"),
    Phrase("bw unlock|bw login", r"[ ](?:\S{1,64}@\S{1,64}[ ])?", is_mixed),
    Phrase("rclone", rf"{_ON}pass[ =]", is_mixed),
    Phrase("rclone obscure", r"[ ]", is_mixed),
    Phrase("SSWS ", r"", is_random, r"00[\w-]{38,48}(?![\w-])"),
    Phrase("appid=|APPID=", r"", is_random, r"[0-9a-f]{32}(?![0-9a-f])"),
    Phrase(
        "routing_key|routingKey|integration_key|integrationKey",
        r"[\"']?\s?[:=]\s?",
        is_random,
        r"[A-Za-z0-9]{32}(?!\w)",
    ),
    Phrase(
        "creds|Creds|credentials",
        r"[ ]?(?:->|=>|[:=])[ ]?[\w.-]{1,64}(?::|[ ]:[ ])",
        is_no_port,
        r"[^\s\"'$<@/{(-][^\s\"'@/]{5,63}",
    ),
    Phrase("snmp-server community|snmp community|rocommunity|rwcommunity", r"[ ]", is_mixed),
    Phrase(
        "isakmp key|server key|pre-shared-key",
        r"(?:[ ](?:[0-9]|address|local|remote))?[ ]",
        is_mixed,
    ),
    Phrase("enable secret|enable password", r"[ ](?:[0-9][ ])?", is_mixed),
    Phrase(" : EAP | : XAUTH ", "", bare=""),
    Phrase(" secret | password ", r"[0-9]{1,2}[ ]", is_mixed),
    Phrase("openssl rand|pwgen", _NEXT_LINE, is_random, _RANDOM_WORD),
    # What managers of secrets print.
    Phrase(
        "pass show |gopass |$ pass |op read |op item get|bw get |rbw get |lpass show|vault kv get"
        "|keepassxc-cli|get-secret-value|versions access|keyvault secret show|initial-password"
        "|--with-decryption|doppler secrets|infisical secrets|credstash get|keyring get"
        "|get-login-password|genkey|genpsk|makepasswd|mkpasswd|whoami -t|systemd-creds",
        rf"(?![^\n]{{0,160}}{_PUBLIC_FIELD}){_NEXT_LINE}",
        is_printed,
        _ALONE,
    ),
    # Files of a password, or of an account and its password.
    Phrase(
        "auth.txt|auth.conf|creds.txt|redentials.txt|login.txt|login.conf|userpass|user-pass"
        "|pass.txt|up.txt|vpn.txt|vault_pass|vault-pass|initialAdminPassword|root_password"
        "|ecret.key|auth token|access-token",
        rf"{_NEXT_LINE}(?:[\w.@+-]{{1,64}}(?:\n|\\n))?",
        is_printed,
        _ALONE,
        before=_READS,
    ),
    Phrase(
        "chap-secrets|pap-secrets",
        rf"{_NEXT_LINE}(?:#[^\n]{{0,80}}\n)?"
        r"[\"']?[\w.@+-]{1,64}[\"']?[ \t]{1,8}\S{1,64}[ \t]{1,8}",
        is_mixed,
    ),
    Phrase("ftp> user ", r"\S{1,64}[ ]", is_mixed),
    # Pairs of Lisp.
    Phrase(
        'pass" . |password" . |passwd" . |pwd" . |pw" . |secret" . |token" . |key" . |'
        "(password . |(passwd . |(pass . |(secret . |(token . |-password . |-pass . |-secret . ",
        "",
        is_mixed,
        "",
    ),
    Phrase(
        "roduct key|roduct Key|ctivation key|ctivation Key|icense key|icense Key|erial key",
        r"(?:[ ]for[ ][\w .]{1,24})?(?:[ ]is|[ ]?[:=])?[ ]{1,2}",
        is_grouped,
        r"[A-Z0-9-]{19,71}(?![\w-])",
    ),
    # What a code to join a wireless network says.
    Phrase(
        "WIFI:",
        r"(?:[A-Z][A-Z0-9]?:(?:[^;\n\\]|\\.){0,64};){0,4}?P:",
        bare=r"[^\s;\"'](?:[^;\s\"\\]|\\{1,2}[;,:]){3,63}(?=;)",
    ),
    Phrase(
        "token_urlsafe(|token_hex(|token_bytes(|rails secret|key:generate|secret_key())"
        "|/dev/urandom|randomBytes(|phx.gen.secret|hex(32)",
        _NEXT_LINE,
        is_random,
        rf"(?:base64:)?{_RANDOM_WORD}",
    ),
    Phrase(
        "secret-tool|find-generic-password|find-internet-password", _NEXT_LINE, is_printed, _ALONE
    ),
    Phrase("key is |Key is ", "", is_tangled, _RANDOM_WORD),
    Phrase("successfully reset", r"[^\n]{0,8}\n\s{0,4}New value:[ ]", is_mixed),
    Phrase("{PLAIN}|{CLEARTEXT}", "", bare=r"[^\s\"'$<:]{3,128}"),
    Phrase("auth sha|auth md5|priv aes|priv des", r"(?:[ ][0-9]{2,3})?[ ]", is_mixed),
    Phrase("<auth-user-pass>", r"\s{1,8}[^\n]{1,64}\n\s{0,8}", bare=r"[^\s<]{3,128}"),
    Phrase('"kty"', r"[^{}]{0,600}?\"(?:d|k)\"\s?:\s?", is_random, ""),
    Phrase("addauth digest", r"[ ][\w.-]{1,64}:"),
    Phrase("ACL SETUSER|acl setuser|user default on", r"[^\n]{0,64}?[ ]>"),
    Phrase(
        "NickServ|IDENTIFY", r"[ :]{1,2}(?:IDENTIFY[ ]|identify[ ])?(?:[\w-]{1,32}[ ])?", is_mixed
    ),
    Phrase("hostednetwork|wlan add", rf"{_ON}key="),
    Phrase("DefaultPassword", r"[^\n]{0,40}?/d[ ]"),
    Phrase("PRAGMA key|pragma key|PRAGMA rekey", r"[ ]?=[ ]?", bare=""),
    Phrase("oauth:", r"", is_random, r"[a-z0-9]{30}(?![\w-])"),
    Phrase("http -a|https -a", r"[ =]?[\"']?[^\s:\"'$]{1,64}:"),
    Phrase("htpasswd", rf"{_ON}-[a-zA-Z]{{0,3}}b[a-zA-Z]{{0,3}}\s\S{{1,128}}\s\S{{1,64}}\s"),
    Phrase("net use", rf"(?:r[ ]\S{{1,64}}[ ]|{_ON}/user:\S{{1,64}}[ ])", is_mixed),
    Phrase(
        "net use", r"[ ](?:\S{1,8}[ ])?\\\\\S{1,128}[ ]", is_mixed, r"[^\s\"'$<*/-][^\s\"']{2,127}"
    ),
    Phrase("cryptsetup", rf"{_ON}<<< ?", is_mixed),
    Phrase("hydra|medusa", rf"{_ON}-p ", is_mixed),
    Phrase(
        "passphrase-fd",
        r"[^\n]{0,32}?<\((?:echo|printf)[ ]",
        is_mixed,
        r"[^\s\"'$<)-][^\s\"')]{2,127}",
    ),
    Phrase("storepass|keypass", r"(?:wd|word)?[ ](?:pass:)?", is_mixed),
    Phrase("nmcli", rf"{_ON}(?:password|wifi-sec\.psk)[ ]"),
    Phrase(
        "impacket|secretsdump|psexec|smbexec|wmiexec|GetUserSPNs",
        r"[^\n]{0,128}?[ '\"](?:[\w.-]{1,64}/)?[\w.$-]{1,64}:",
        is_mixed,
        r"[^\s\"'$<@/-][^\s\"'@]{2,127}(?=@)",
    ),
    Phrase("iwconfig", rf"{_ON}key (?:s:)?"),
    Phrase("useradd|usermod", rf"{_ON}-p ", bare=r"\$?[^\s\"'<-][^\s\"']{2,127}", check=is_mixed),
    Phrase(
        "sqlplus|impdp|expdp|sqlldr|rman target",
        _ACCOUNT,
        is_mixed,
        r"[^\s\"'$<@/-][^\s\"'@]{2,127}",
    ),
    Phrase("sqlplus|impdp|expdp", _ACCOUNT, is_given, r"[^\s\"'$<@/-][^\s\"'@]{2,127}(?=@)"),
    Phrase("http-basic.", r"\S{1,100} \S{1,64} ", is_mixed, r"[^\s\"'$<\\-][^\s\"']{2,127}"),
    Phrase(
        "bundle config",
        r"(?:[ ](?:set|--\w{1,16})){0,2}[ ][\w-]{1,64}(?:\.[\w-]{1,32}){1,4}[ ]",
        is_mixed,
        r"[\w.@-]{1,64}:[^\s\"'$<{/]{4,128}",
    ),
    # IMAP, which needs no quotes.
    Phrase(
        " LOGIN ",
        r"(?:\"[^\"\n]{1,64}\"|[\w.+-]{1,64}@[\w.-]{1,64})[ ]",
        is_mixed,
        r"[^\s\"'$<{=-][^\s\"'=]{3,127}(?=\s{0,8}(?:[\r\n\\]|\Z))",
    ),
    Phrase(
        "the key for |your key for |my key for |our key for ",
        r"[\w .-]{0,40}?\b(?i:api|sdk)(?::|[ ]is)[ ]{1,2}",
        is_random,
        r"[A-Za-z0-9_-]{20,512}(?![\w:/.(-])",
    ),
    Phrase("oracle:thin:", r"[\w$#.-]{1,32}/", bare=r"[^\s\"'$<@/-][^\s\"'@]{2,127}"),
    # A user followed by a password, as most commands accept them.
    Phrase(" -u | -U ", r"\S{1,64}[^\n]{0,64}?\s-[pPwW] ?", is_no_port),
    Phrase(" auth | login ", r"(?:--?[\w-]{1,24}[ =])?", is_random, _RANDOM_WORD),
    Phrase(" -t | --auth", r"[ =]?", is_drawn, r"[A-Za-z0-9_-]{24,512}(?![\w:/.(])"),
    Phrase("AUTH ", r"(?:[\w.-]{1,32} )?", is_random, _RANDOM_WORD),
    # SQL.
    Phrase(
        "identified|IDENTIFIED|Identified",
        r"\s{1,4}(?i:with\s\S{1,40}\s)?(?i:by)\s{1,4}(?i:password\s)?",
        bare=r"[^\s\"'`:@;,$<(-][^\s\"'`;,]{2,127}",
        bare_check=is_mixed,
    ),
    Phrase(
        "SET PASSWORD|Set password|set password", r"[^\n=]{0,80}=\s{0,4}(?i:password\()?", bare=""
    ),
    Phrase(
        "login(|Client(|Client::new(|connect(|Deepgram(|ElevenLabs(|Mistral(|Groq(|Cohere(",
        r"\s{0,4}",
        is_random,
        "",
    ),
    Phrase("Client(|Client::new(|.new(", _FIRST_OF_TWO, is_random, ""),
    # Calls whose argument is a password or a key.
    Phrase(
        "HTTPBasicAuth(|redential(|redentials(|Authentication(|nticationToken(",
        _FIRST_OF_TWO,
        bare="",
    ),
    Phrase(
        "btoa(|b64encode(|Buffer.from(|encodeToString(",
        r"b?[\"'`][\w.@+-]{1,64}:",
        is_mixed,
        bare=r"[^\s\"'`$:{}]{5,128}(?=[\"'`])",
    ),
    Phrase(
        "password_hash(|bcrypt.hash(|bcryptjs.hash(|hashpw(|argon2.hash(|hashSync(|compareSync("
        "|make_password(|hash_password(|check_password(|verify_password(|hashPassword(|crypt(",
        r"\s{0,4}",
        is_mixed,
        "",
    ),
    Phrase("check_password_hash(|checkpw(", r"[^,\n]{1,64},\s{0,4}", is_mixed, ""),
    Phrase(
        "pgp_sym_encrypt(|pgp_sym_decrypt(|AES_ENCRYPT(|AES_DECRYPT(", _LAST_OF_SOME, is_mixed, ""
    ),
    Phrase(
        "EmailAndPassword(|create_superuser(|create_user(|createUser(|sign_up(|signUp(|register(",
        r"[^\n]{0,64}?[\"'][^\"'\n]{1,64}@[^\"'\n]{1,64}[\"'],\s{0,4}",
        bare="",
    ),
    Phrase("Wallet(|privateKeyToAccount(|from_key(|accounts: [", r"\s{0,4}", is_random, ""),
    Phrase(
        'secrets = {|secrets: {|secrets": {|credentials = {|credentials: {|credentials": {'
        "|tokens = {|tokens: {|api_keys = {|apiKeys: {|passwords = {",
        r"\s{0,16}[\"']?[\w./@-]{1,64}[\"']?\s{0,2}(?:=>|[:=])\s{0,2}",
        is_random,
        "",
    ),
    Phrase('"username"', r"\s?:\s?\"[^\"\n]{1,64}\",\s{0,8}\"key\"\s?:\s?", is_random, ""),
    Phrase("auth=(|auth = (|auth: (|auth: [", _FIRST_OF_TWO, bare=""),
    Phrase("basic_auth(|basicAuth(|SetBasicAuth(|setBasicAuth(", _FIRST_OF_TWO, bare=""),
    Phrase("login(|Login(|log_in(|sign_in(|signIn(|authenticate(", _FIRST_OF_TWO, bare=""),
    Phrase("WiFi.begin(", _FIRST_OF_TWO, bare=""),
    Phrase("connect(", rf"{_FIRST_OF_TWO}{_FIRST_OF_TWO}", is_mixed, bare=""),
    Phrase("Signer(|Serializer(", r"\s{0,4}", is_random, ""),
    Phrase("PDO(|mysqli(|mysqli_connect(", rf"{_FIRST_OF_TWO}{_FIRST_OF_TWO}", bare=""),
    Phrase("getConnection(", r"[^,\n]{1,128},\s{0,4}[\"'][^\"'\n]{1,64}[\"'],\s{0,4}", bare=""),
    Phrase(
        "jwt.sign(|jwt.encode(|jwt.verify(|jwt.decode(|JWT.encode(", _LAST_OF_SOME, is_mixed, ""
    ),
    Phrase("createHmac(|createCipheriv(|hash_hmac(", _LAST_OF_SOME, is_mixed, ""),
    Phrase("hmac.new(|AES.new(|Fernet(|SecretKeySpec(|hmac.New(", r"[^,\n]{0,32}?", is_mixed, ""),
)


def _anywhere(between: str) -> str:
    """Return ``between`` for strings within JSON too, and for a command given as a list."""
    if between.startswith(_ON):
        for gap in (" ?", "[ ]", "[ =]", " "):
            if between.endswith(gap):
                optional = "?" if gap[-1] == "?" else ""
                between = f"{between.removesuffix(gap)}(?:[ =]|{_ARGUMENT}){optional}"
                break
    return between.replace(_QUOTE, rf"\\{{0,3}}{_QUOTE}")


def find_phrase(phrase: Phrase) -> Callable[[str, int, int], Span | None]:
    """Return the function that finds the secret of ``phrase`` after its keyword."""
    bare = f"|(?P<bare>{phrase.bare})" if phrase.bare else ""
    pattern = lazy_pattern(f"{_anywhere(phrase.between)}(?:{_LITERAL}{bare})")
    bare_check = phrase.bare_check or phrase.check
    before = lazy_pattern(rf"{phrase.before}[^\n]{{0,{PHRASE_CHARS_MAX}}}\Z")

    def locate(text: str, start: int, end: int) -> Span | None:
        match = pattern.match(text, end)
        if match is None or match.lastgroup is None:
            return None
        first = max(0, start - PHRASE_CHARS_MAX)
        if phrase.before and before.search(text, first, start) is None:
            return None
        check = bare_check if match.lastgroup == "bare" else phrase.check
        value = match[match.lastgroup]
        return ("password", *match.span(match.lastgroup)) if check(value) else None

    return locate


_COOKIES: Final = lazy_pattern(r"[\"'`]?\]?[ ]{0,2}(?:[:=,]|(?<=[ -]b))?[ ]{0,2}\\{0,7}[\"'`]?")
_COOKIE: Final = lazy_pattern(
    r"[{, \"']{0,4}(?P<name>[\w.$!#%*+^-]{1,96})(?:=|[\"'][ ]?:[ ]?[\"'])"
    r"(?P<value>[^\s;,\"'`\\<>]{0,4096}+)(?:;[ ]?|[\"'],|(?P<end>))"
)
_SESSION: Final = lazy_pattern(r"(?i:sess|sid\b|auth|token|jwt|remember)")
_STORED: Final = lazy_pattern(
    r"\t/[^\t\n]{0,128}\t(?:TRUE|FALSE)\t[0-9]{1,16}\t[^\t\n]{1,96}\t(\S{16,4096})"
)


def find_cookie(text: str, start: int, end: int) -> Span | None:
    """Find the machine-generated values in a ``Cookie`` header, first to last."""
    opened = _COOKIES.match(text, end)
    at = end if opened is None else opened.end()
    if at == end and start:
        return None
    first, last = 0, 0
    for _ in range(COOKIES_MAX):
        cookie = _COOKIE.match(text, at)
        if cookie is None:
            break
        value = cookie["value"]
        if len(value) >= COOKIE_CHARS_MIN and _opens_session(cookie["name"], value):
            first, last = first or cookie.start("value"), cookie.end("value")
        at = cookie.end()
        if cookie["end"] is not None:
            break
    return ("cookie", first, last) if last else None


def _opens_session(name: str, value: str) -> bool:
    """Return whether a cookie identifies a session rather than counting visitors."""
    if name.startswith("_ga"):
        return False
    letters = _SESSION.search(name) is not None and value.isalnum() and not is_dummy(value)
    return letters or is_random(value.replace("%", ""))


def find_stored_cookie(text: str, _start: int, end: int) -> Span | None:
    """Find the value in a line of a cookie file, whose fields are separated by tabs."""
    match = _STORED.match(text, end)
    return ("cookie", *match.span(1)) if match and is_random(match[1]) else None


def is_before_tab(encoded: bytes, end: int) -> bool:
    """Return whether there is a tab at ``end``, plain or escaped as in JSON."""
    return encoded[end : end + 1] == b"\t" or encoded[end : end + 2] == b"\\t"


_OPENED: Final = lazy_pattern(r"\s{0,8}\(?")
_COLUMNS: Final = lazy_pattern(r"\(([^()]{1,300})\)\s{0,8}\Z")
_VALUE: Final = lazy_pattern(
    r"\s{0,8}(?:'([^'\n]{0,512})'|\"([^\"\n]{0,512})\"|([^,()'\"]{1,128}))\s{0,8}[,)]"
)


def find_inserted(text: str, start: int, end: int) -> Span | None:
    """Find the value of a password column in ``INSERT INTO … (name, password) VALUES (…)``."""
    if text[max(0, start - 8) : start].rstrip()[-1:] != ")":
        return None
    columns = _COLUMNS.search(text, max(0, start - COLUMNS_CHARS_MAX), start)
    opened = _OPENED.match(text, end)
    if columns is None or opened is None:
        return None
    at = opened.end()
    for column in columns[1].split(","):
        value = _VALUE.match(text, at)
        if value is None or value.lastindex is None:
            return None
        promise = named(column.strip(" \n\t`\"'[]")[-48:])
        literal = value[value.lastindex]
        is_literal = value.lastindex < BARE_GROUP and is_given(literal)
        if promise and is_literal and (promise.rule == "password" or is_random(literal)):
            return promise.rule, *value.span(value.lastindex)
        at = value.end()
    return None


_PIPED: Final = lazy_pattern(
    r"(?:[ ]-n|[ ][\"']%s(?:\\n)?[\"'])?[ ]"
    r"(?:\"([^\"\n$]{3,256})\"|'([^'\n]{3,256})'|([^\s\"'$|<>()]{3,256}))"
    r"(?:\s{0,4}\|[^\n|]{0,80}?"
    r"(?:sudo[ ](?:-\w{1,16}[ ]){0,3}-S|stdin|passwd|login|secrets?[ ]|kinit)"
    r"|\s{0,4}>{1,2}[ ]?[\w./~-]{0,80}?(?:pass|secret|token|cred)|(?P<inner>))"
)
_INNER: Final = lazy_pattern(r"(?i:pass|key|token|secret)[\w-]{0,24}[ =]{1,2}(?:[\"']|<\()\Z")
_HERE: Final = lazy_pattern(
    r"[ ]?(?:\"([^\"\n$]{3,256})\"|'([^'\n]{3,256})'|([^\s\"'$|<>()]{3,256}))"
)
_TAKES_SECRET: Final = lazy_pattern(
    r"(?i:passw|login|token|kinit|auth|secret|sudo|pass |_key)[^\n]{0,60}\Z"
)


def find_echoed(text: str, start: int, end: int) -> Span | None:
    """Find the text piped into a command that asks for a password: ``echo … | sudo -S``."""
    match = _PIPED.match(text, end)
    if match is None:
        return None
    group = next(index for index in (1, 2, 3) if match[index] is not None)
    if match["inner"] is not None and not _INNER.search(text, max(0, start - 40), start):
        return None
    value = match[group].rpartition(":")[2]
    return (
        ("password", match.end(group) - len(value), match.end(group)) if is_mixed(value) else None
    )


def find_here_string(text: str, start: int, end: int) -> Span | None:
    """Find the here-string for a command that asks for a password."""
    match = _HERE.match(text, end)
    if match is None or not _TAKES_SECRET.search(text, max(0, start - PHRASE_CHARS_MAX), start):
        return None
    value = match[match.lastindex or 0].rpartition(":")[2]
    stop = match.end(match.lastindex or 0)
    return ("password", stop - len(value), stop) if is_mixed(value) else None


_EXPECTED: Final = lazy_pattern(
    r"[^\n]{0,40}(?i:p?assword)[^\n]{0,24}[\n;{]\s{0,8}send(?:[ ]--)?[ ]\"([^\"\\\n$]{3,128})"
)


def find_expected(text: str, _start: int, end: int) -> Span | None:
    """Find what an ``expect`` script types at a password prompt."""
    match = _EXPECTED.match(text, end)
    return ("password", *match.span(1)) if match and is_given(match[1]) else None


_PGPASS: Final = lazy_pattern(
    r"(?:^|\n|\\n)[\w.*-]{1,128}:(?:[0-9]{2,5}|\*):[\w*.-]{1,64}:[\w*.-]{1,64}:([^\s:\"']{3,128})(?=\s|\\|\Z)"
)


def find_pgpass(text: str, start: int, end: int) -> Span | None:
    """Find the last field in a line of a ``.pgpass`` file."""
    match = _PGPASS.search(text, max(0, start - PHRASE_CHARS_MAX), end + 4 * PHRASE_CHARS_MAX)
    return ("password", *match.span(1)) if match and is_given(match[1]) else None


_WEBHOOK: Final = lazy_pattern(r"(?:s|b2)?/((?:[A-Za-z0-9_-]{0,64}/)?[A-Za-z0-9@/_-]{32,512})")
_SIGNATURE: Final = lazy_pattern(r"[A-Za-z0-9%+/=_-]{24,1024}")


def find_webhook(text: str, _start: int, end: int) -> Span | None:
    """Find the path of a webhook, which is all that a sender needs."""
    match = _WEBHOOK.match(text, end)
    return ("webhook", *match.span(1)) if match and is_random(match[1]) else None


def find_signature(text: str, _start: int, end: int) -> Span | None:
    """Find the signature of a URL, which grants access to it."""
    match = _SIGNATURE.match(text, end)
    return ("token", *match.span()) if match and is_random(match[0]) else None


_CODE: Final = lazy_pattern(r"[A-Za-z0-9_/%.+=-]{30,1024}")


def find_code(text: str, start: int, end: int) -> Span | None:
    """Find a key or a grant that a URL carries as its ``code``."""
    if start and text[start - 1] not in "?& \n\"'":
        return None
    match = _CODE.match(text, end)
    return ("token", *match.span()) if match and is_random(match[0]) else None


_MANIFEST: Final = lazy_pattern(
    r"(?:\n|\\n|\A)(?:data|stringData):[ ]{0,2}"
    r"((?:(?:\n|\\n)[ ]{1,8}[\w.-]{1,128}:[ ]{1,2}[^\n\\]{1,8192}){1,32})"
    r"|\"(?:data|stringData)\":\s{0,4}\{([^{}]{1,8192})\}"
)
_ENTRY: Final = lazy_pattern(r":\s{0,4}[\"']?([A-Za-z0-9+/_=-]{8,8192})(?=[\"'\s\\,]|\Z)")
MANIFEST_CHARS_MAX: Final = 4_096


def find_manifest(text: str, start: int, end: int) -> Span | None:
    """Find the values of a Kubernetes ``Secret``, from the first to the last."""
    match = _MANIFEST.search(text, end, end + MANIFEST_CHARS_MAX) or _MANIFEST.search(
        text, max(0, start - MANIFEST_CHARS_MAX), start
    )
    if match is None or match.lastindex is None:
        return None
    entries = _ENTRY.finditer(text, *match.span(match.lastindex))
    values = [entry.span(1) for entry in entries if is_mixed(entry[1])]
    return ("secret", values[0][0], values[-1][1]) if values else None


_PATH_TOKEN: Final = lazy_pattern(r"[A-Za-z0-9_-]{20,512}(?![\w.-])")


def find_path_token(text: str, _start: int, end: int) -> Span | None:
    """Find the token at the end of a mailed URL that opens an account."""
    match = _PATH_TOKEN.match(text, end)
    return ("token", *match.span()) if match and is_random(match[0]) else None


_COOKIE_RECORD: Final = lazy_pattern(
    r"\"name\":\s{0,2}\"([^\"\n]{1,96})\",\s{0,16}\"value\":\s{0,2}\"([^\"\n]{16,4096})\",\s{0,16}\Z"
)


def find_cookie_record(text: str, start: int, _end: int) -> Span | None:
    """Find the value of a cookie as exported by a browser, before its ``domain``."""
    match = _COOKIE_RECORD.search(text, max(0, start - COOKIE_RECORD_CHARS_MAX), start)
    return ("cookie", *match.span(2)) if match and _opens_session(match[1], match[2]) else None


_DECODED: Final = lazy_pattern(r"[^\n]{0,16}\n([^\s\"'`$<>]{5,256})(?=\s|\Z)")
_DECODES_SECRET: Final = lazy_pattern(r"(?i:secret|passw|token|credential)[^\n]{0,120}\Z")


def find_decoded(text: str, start: int, end: int) -> Span | None:
    """Find the output of a command that decodes a secret: ``… .data.password | base64 -d``."""
    match = _DECODED.match(text, end)
    if match is None or not _DECODES_SECRET.search(text, max(0, start - PHRASE_CHARS_MAX), start):
        return None
    return ("password", *match.span(1)) if is_mixed(match[1]) else None


_MAILBOX: Final = lazy_pattern(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,32}){0,3}\Z")
_AFTER_MAILBOX: Final = lazy_pattern(r"[^\s\"'`,;/<>()\[\]{}|]{6,64}(?=[\s\"',]|\Z)")


def find_mailbox(text: str, start: int, end: int) -> Span | None:
    """Find the password in ``bob@example.com:…``, as listed by leaks and mail servers."""
    match = _AFTER_MAILBOX.match(text, end)
    if match is None or not _MAILBOX.search(text, max(0, start - PHRASE_CHARS_MAX), start):
        return None
    digit = any(character.isdigit() for character in match[0])
    return ("password", *match.span()) if digit and is_no_port(match[0]) else None


_DSN: Final = lazy_pattern(r"(?<![\w/])[\w.+-]{1,64}:(?![$%{<])([^\s\"'`<>]{3,128})\Z")


def find_dsn(text: str, start: int, _end: int) -> Span | None:
    """Find the password in ``app:…@tcp(db:3306)/shop``, as drivers of Go take it."""
    match = _DSN.search(text, max(0, start - PHRASE_CHARS_MAX), start)
    return ("password", *match.span(1)) if match and is_given(match[1]) else None
