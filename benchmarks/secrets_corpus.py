"""Lines with secrets, lines without, and lines with personal details: made up, always the same.

Every token is put together when asked for, so that no file of this repository holds one.
"""

import base64
import json
import random
import string
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import clean_lines
import field_clean
import field_clean_code
import field_lines
import unseen_clean
import unseen_lines

SEED: Final = 20_260_305

_LOWER: Final = string.ascii_lowercase
_ALNUM: Final = string.ascii_letters + string.digits
_URLSAFE: Final = _ALNUM + "-_"
_BASE64: Final = _ALNUM + "+/"
_HEX: Final = "0123456789abcdef"
_BASE32: Final = string.ascii_uppercase + "234567"

Dice = random.Random


def positives() -> list[tuple[str, str]]:
    """Give lines that hold a secret, each with the secret."""
    dice = random.Random(SEED)
    lines = [*_tokens(dice), *_named(dice), *_headers(dice), *_urls(dice), *_private_keys(dice)]
    for line, template in (*field_lines.SHAPES, *field_lines.SECRETS):
        secret = _fill(dice, template)
        lines.append((line.replace("@@", secret, 1), secret))
    return list(dict.fromkeys(lines))


def negatives() -> list[str]:
    """Give lines that look busy, technical or secretive, and hold no secret."""
    dice = random.Random(SEED + 1)
    rounds = [_fill(dice, template) for _ in range(20) for template in clean_lines.VARYING]
    made = [make(dice) for make in _MADE for _ in range(24)]
    fields = (*field_clean.NO_SHAPES, *field_clean.CLEAN, *field_clean_code.MORE_CLEAN)
    seen = [_fill(dice, line) for line in fields]
    return list(dict.fromkeys([*clean_lines.FIXED, *rounds, *made, *seen]))


def unseen_positives() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Give the lines of unseen_lines in halves: those the rules were mended with, and the rest."""
    dice = random.Random(SEED + 5)
    lines = []
    for family in unseen_lines.SECRETS.values():
        for line, template in family:
            secret = _fill(dice, template)
            lines.append((_fill(dice, line).replace("@@", secret, 1), secret))
    return lines[::2], lines[1::2]


def unseen_negatives() -> list[str]:
    """Give the lines of unseen_clean, which hold no secret."""
    dice = random.Random(SEED + 6)
    rounds = [_fill(dice, line) for _ in range(12) for line in unseen_clean.VARYING]
    return list(dict.fromkeys([*unseen_clean.FIXED, *rounds]))


def personal_positives() -> list[tuple[str, str]]:
    """Give lines that hold an e-mail address or a phone number, each with it."""
    dice = random.Random(SEED + 2)
    emails = [_email(dice) for _ in range(40)]
    phones = [_phone(dice) for _ in range(40)]
    lines = [(dice.choice(clean_lines.EMAIL_LINES).replace("@@", email), email) for email in emails]
    lines += [
        (dice.choice(clean_lines.PHONE_LINES).replace("@@", phone), phone) for phone in phones
    ]
    lines += [(line.replace("@@", number), number) for line, number in clean_lines.SAID_NUMBERS]
    return lines


def personal_negatives() -> list[str]:
    """Give lines that look personal and are not: dates, sizes, remotes, packages, positions."""
    dice = random.Random(SEED + 3)
    return list(
        dict.fromkeys(
            [_fill(dice, line) for _ in range(12) for line in clean_lines.NOT_PERSONAL]
            + negatives()
        )
    )


def mixed_text(size: int) -> str:
    """Give a log of about ``size`` characters in which one line of fifty holds a secret."""
    dice = random.Random(SEED + 4)
    clean, dirty = negatives(), [line for line, _ in positives()]
    lines: list[str] = []
    length = 0
    while length < size:
        line = dice.choice(dirty if dice.random() < 0.02 else clean)
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)


def covered(spans: list[tuple[int, int]], line: str, secret: str) -> bool:
    """Say whether the ``spans`` found in ``line`` hide all of ``secret``."""
    return secret in line and any(secret in line[start:end] for start, end in spans)


def _pick(dice: Dice, alphabet: str, count: int) -> str:
    return "".join(dice.choices(alphabet, k=count))


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _jwt(dice: Dice) -> str:
    header = _encoded({"alg": dice.choice(("HS256", "RS256", "ES256")), "typ": "JWT"})
    claims = _encoded({"sub": _pick(dice, string.digits, 10), "iat": dice.randrange(10**9)})
    return f"{header}.{claims}.{_pick(dice, _URLSAFE, dice.choice((43, 86, 342)))}"


def _discord(dice: Dice) -> str:
    account = base64.b64encode(_pick(dice, string.digits, 18).encode()).decode()
    return f"{account}.{_pick(dice, _ALNUM, 6)}.{_pick(dice, _URLSAFE, 38)}"


_FAMILIES: Final[dict[str, Callable[[Dice], str]]] = {
    "anthropic": lambda d: "sk-ant-api03-" + _pick(d, _URLSAFE, 93) + "AA",
    "anthropic oauth": lambda d: "sk-ant-oat01-" + _pick(d, _URLSAFE, 86),
    "openai legacy": lambda d: "sk-" + _pick(d, _ALNUM, 20) + "T3BlbkFJ" + _pick(d, _ALNUM, 20),
    "openai project": lambda d: "sk-proj-" + _pick(d, _URLSAFE, 156),
    "openai account": lambda d: "sk-svcacct-" + _pick(d, _URLSAFE, 150),
    "openrouter": lambda d: "sk-or-v1-" + _pick(d, _HEX, 64),
    "deepseek": lambda d: "sk-" + _pick(d, _HEX, 32),
    "github classic": lambda d: "ghp_" + _pick(d, _ALNUM, 36),
    "github oauth": lambda d: "gho_" + _pick(d, _ALNUM, 36),
    "github user": lambda d: "ghu_" + _pick(d, _ALNUM, 36),
    "github server": lambda d: "ghs_" + _pick(d, _ALNUM, 36),
    "github refresh": lambda d: "ghr_" + _pick(d, _ALNUM, 76),
    "github fine": lambda d: f"github_pat_{_pick(d, _ALNUM, 22)}_{_pick(d, _ALNUM, 59)}",
    "gitlab": lambda d: "glpat-" + _pick(d, _URLSAFE, 20),
    "gitlab routed": lambda d: f"glpat-{_pick(d, _URLSAFE, 27)}.01.{_pick(d, _ALNUM, 9).lower()}",
    "gitlab runner": lambda d: "glrt-" + _pick(d, _URLSAFE, 20),
    "gitlab deploy": lambda d: "gldt-" + _pick(d, _URLSAFE, 20),
    "aws id": lambda d: "AKIA" + _pick(d, _BASE32, 16),
    "aws session id": lambda d: "ASIA" + _pick(d, _BASE32, 16),
    "google key": lambda d: "AIza" + _pick(d, _URLSAFE, 34) + _pick(d, _ALNUM, 1),
    "google access": lambda d: "ya29." + _pick(d, _URLSAFE, 180),
    "google client": lambda d: "GOCSPX-" + _pick(d, _URLSAFE, 28),
    "google refresh": lambda d: "1//0" + _pick(d, _URLSAFE, 99),
    "slack bot": lambda d: (
        f"xoxb-{d.randrange(10**12)}-{d.randrange(10**13)}-{_pick(d, _ALNUM, 24)}"
    ),
    "slack user": lambda d: (
        f"xoxp-{d.randrange(10**11)}-{d.randrange(10**11)}-{_pick(d, _HEX, 32)}"
    ),
    "slack app": lambda d: (
        f"xapp-1-A{_pick(d, _BASE32, 10)}-{d.randrange(10**13)}-{_pick(d, _HEX, 64)}"
    ),
    "stripe live": lambda d: "sk_live_" + _pick(d, _ALNUM, 24),
    "stripe long": lambda d: "sk_live_51" + _pick(d, _ALNUM, 97),
    "stripe test": lambda d: "sk_test_" + _pick(d, _ALNUM, 24),
    "stripe restricted": lambda d: "rk_live_" + _pick(d, _ALNUM, 99),
    "stripe webhook": lambda d: "whsec_" + _pick(d, _ALNUM, 32),
    "npm": lambda d: "npm_" + _pick(d, _ALNUM, 36),
    "pypi": lambda d: "pypi-AgEIcHlwaS5vcmc" + _pick(d, _URLSAFE, 150),
    "hugging face": lambda d: "hf_" + _pick(d, string.ascii_letters, 34),
    "sendgrid": lambda d: f"SG.{_pick(d, _URLSAFE, 22)}.{_pick(d, _URLSAFE, 43)}",
    "twilio": lambda d: "SK" + _pick(d, _HEX, 32),
    "telegram": lambda d: f"{d.randrange(10**8, 10**10)}:AA{_pick(d, _URLSAFE, 33)}",
    "digitalocean": lambda d: "dop_v1_" + _pick(d, _HEX, 64),
    "databricks": lambda d: "dapi" + _pick(d, _HEX, 32),
    "shopify": lambda d: "shpat_" + _pick(d, _HEX, 32),
    "linear": lambda d: "lin_api_" + _pick(d, _ALNUM, 40),
    "tavily": lambda d: "tvly-" + _pick(d, _ALNUM, 32),
    "tavily dev": lambda d: "tvly-dev-" + _pick(d, _ALNUM, 32),
    "groq": lambda d: "gsk_" + _pick(d, _ALNUM, 52),
    "xai": lambda d: "xai-" + _pick(d, _ALNUM, 80),
    "replicate": lambda d: "r8_" + _pick(d, _ALNUM, 37),
    "perplexity": lambda d: "pplx-" + _pick(d, _ALNUM, 48),
    "jwt": _jwt,
    "age": lambda d: "AGE-SECRET-KEY-1" + _pick(d, _BASE32, 58),
    "vault": lambda d: "hvs." + _pick(d, _URLSAFE, 90),
    "azure client": lambda d: f"{_pick(d, _ALNUM, 3)}8Q~{_pick(d, _ALNUM + '_~.-', 34)}",
}

_TOKEN_LINES: Final = (
    "@@",
    "export OPENAI_API_KEY=@@",
    'client = Client(api_key="@@", timeout=30)',
    '{"jsonrpc":"2.0","method":"login","params":{"credential":"@@"}}',
    "2026-03-05T10:22:31Z DEBUG http: sending header x-custom: @@ (attempt 2)",
    "I pasted it here, please use @@, and tell me when it works.",
    '"stdout": "Logged in\\n@@\\nDone"',
    "\x1b[32m@@\x1b[0m",
    "curl https://api.example.com/v1/things?auth=@@&page=2",
    "-   value: @@",
    "<item>@@</item>",
    "git diff: +    return login('@@')",
    "`@@` is what I get",
    '{\\"result\\": \\"@@\\"}',
    "設定値は@@です",
    "echo @@ | tool login --stdin",
    "| prod | @@ | rotated |",
    "hook=https%3A%2F%2Fx%2F%3Fq%3D@@",
    "fatal: could not read from '@@': bad",
    "(@@)",
)


def _tokens(dice: Dice) -> list[tuple[str, str]]:
    lines = []
    for make in _FAMILIES.values():
        for line in dice.sample(_TOKEN_LINES, k=5):
            token = make(dice)
            lines.append((line.replace("@@", token), token))
    for line in ("DISCORD_TOKEN=@@", "discord bot logged in with @@", 'discord.run("@@")'):
        token = _discord(dice)
        lines.append((line.replace("@@", token), token))
    for _ in range(3):
        path = f"T{_pick(dice, _BASE32, 10)}/B{_pick(dice, _BASE32, 10)}/{_pick(dice, _ALNUM, 24)}"
        lines.append((f"curl -X POST https://hooks.slack.com/services/{path}", path))
    return lines


_PASSWORDS: Final = (
    "hunter2",
    "Tr0ub4dor&3",
    "correct-horse-battery-staple",
    "p@ssw0rd!",
    "S3cr3t#2024",
    "qwerty123",
    "Winter2025!",
    "letmein99",
    "aB3$kLm9",
    "n0t-a-real-one",
    "Zx81+Spectrum",
    "1q2w3e4r5t",
)
_PASSWORD_LINES: Final = (
    '{"user":"bob","password":"@@"}',
    '{"username": "bob", "passwd": "@@", "remember": true}',
    '{\\"login\\":{\\"password\\":\\"@@\\"}}',
    "DB_PASSWORD=@@",
    "export PGPASSWORD='@@'",
    'MYSQL_ROOT_PASSWORD="@@"',
    "password: @@",
    "    password: '@@'",
    "spring.datasource.password=@@",
    'db = connect(host="db", user="app", password="@@")',
    "const password = '@@';",
    "password := `@@`",
    "config['password'] = '@@'",
    "$ mysqldump --user=root --password=@@ shop > shop.sql",
    "psql --username app --password @@ -h db",
    "Server=db;Database=shop;User Id=sa;Password=@@;Encrypt=true",
    "my password is @@, keep it safe",
    "The admin password was @@.",
    "<password>@@</password>",
    "passphrase = '@@'",
    "CREATE USER bob WITH PASSWORD '@@';",
    '- name: DB_PASSWORD\n  value: "@@"',
    '{"name":"SMTP_PASSWORD","value":"@@"}',
    '["psql", "--password", "@@"]',
    "stdout: user=bob pwd=@@ host=db",
    'dbPassword: "@@",',
    'private static final String PASSWORD = "@@";',
    "ADMIN_PASS=@@",
    "docker run -e POSTGRES_PASSWORD=@@ postgres:16",
    "ENV REDIS_PASSWORD=@@",
    "set SMTP_PWD=@@",
    "user_password='@@'",
    "Login with bob / password: @@",
    "curl -u admin:@@ https://jenkins.example.com/job/build",
    'os.environ["DB_PASSWORD"] = "@@"',
    '"wifiPassword" : "@@"',
)
_OPAQUE_LINES: Final = (
    '{"api_key":"@@"}',
    '{"apiKey": "@@", "model": "small"}',
    "API_KEY=@@",
    "ACME_API_KEY: @@",
    "x-api-key: @@",
    "-H 'X-Api-Key: @@'",
    "client_secret=@@&grant_type=client_credentials",
    '"clientSecret": "@@"',
    "SECRET_KEY = '@@'",
    "SECRET_KEY_BASE=@@",
    "access_token=@@",
    '{"access_token":"@@","token_type":"bearer","expires_in":3600}',
    '"refresh_token" : "@@"',
    "GITHUB_TOKEN=@@",
    "export TAVILY_TOKEN='@@'",
    "WEBHOOK_SECRET=@@",
    "my_secret=@@",
    "aws_secret_access_key = @@",
    "AWS_SECRET_ACCESS_KEY=@@",
    '"SecretAccessKey": "@@"',
    '"SessionToken": "@@"',
    "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=@@;EndpointSuffix=x",
    "//registry.npmjs.org/:_authToken=@@",
    "tool deploy --token @@ --yes",
    "tool deploy --api-key=@@",
    "https://api.example.com/v2/search?q=x&api_key=@@",
    "auth_token: @@",
    'signing_key: "@@"',
    "let apiKey = '@@'",
    "const API_TOKEN: string = '@@';",
    "api_key: str = '@@'",
    "TWILIO_AUTH_TOKEN=@@",
    "ENCRYPTION_KEY=@@",
    "private_key = '@@'",
    "\\nSTRIPE_KEY=@@\\nDEBUG=1",
    "the api key is @@",
    '{"key":"SLACK_SIGNING_SECRET","value":"@@"}',
    "credentials: {accessToken: '@@'}",
    "X-Auth-Token: @@",
    "session_token=@@; path=/",
)


def _named(dice: Dice) -> list[tuple[str, str]]:
    lines = [
        (line.replace("@@", password), password)
        for line in _PASSWORD_LINES
        for password in dice.sample(_PASSWORDS, k=4)
    ]
    for line in _OPAQUE_LINES:
        values = (
            _pick(dice, _HEX, 32),
            _pick(dice, _BASE64, 39) + "a",
            _pick(dice, _URLSAFE, 23) + "7",
        )
        lines += [(line.replace("@@", value), value) for value in values if value[0] not in "-/+"]
    lines += [
        ('{"password": "correct horse battery staple"}', "correct horse battery staple"),
        ('{"password": 48151623}', "48151623"),
        ("PASSWORD=x", "x"),
        ("sshpass -p 'Gr33nTea!' ssh root@10.0.0.1", "Gr33nTea!"),
        ("mysql -uroot -pGr33nTea shop", "Gr33nTea"),
        ("machine api.example.com login bob password Gr33nTea9", "Gr33nTea9"),
        ("Pwd=Gr33n;Uid=sa", "Gr33n"),
        ("requirepass Gr33nTea99", "Gr33nTea99"),
        ('wifi psk="Gr33nTea9"', "Gr33nTea9"),
        ("The password for the staging box is Gr33nTea9", "Gr33nTea9"),
        ("X-Vault-Token: s.abcDEF123456ghiJKL", "s.abcDEF123456ghiJKL"),
        ("passwordConfirm: 'Gr33nTea'", "Gr33nTea"),
        ("redis-cli -a Gr33nTea9 ping", "Gr33nTea9"),
        ("password\tGr33nTea9", "Gr33nTea9"),
        ("Password for bob: Gr33nTea9", "Gr33nTea9"),
        ("docker login -u bob -p Gr33nTea9 registry.example.com", "Gr33nTea9"),
        ("net user bob Gr33nTea9 /add", "Gr33nTea9"),
        ("set_secret('db', 'Gr33nTea9x7y6z5w')", "Gr33nTea9x7y6z5w"),
        ("JWT_SECRET=supersecretvalue", "supersecretvalue"),
        ("Cookie: auth_token=9f86d081884c7d65; Path=/", "9f86d081884c7d65"),
        ("DB_PASSWORD=letmein", "letmein"),
        ("password: letmein", "letmein"),
        ('{"api_key":"abc"}', "abc"),
        ('{"secret": "xyzzy"}', "xyzzy"),
        ('password = "hunt', "hunt"),
    ]
    return lines


_HEADER_LINES: Final = (
    "Authorization: Bearer @@",
    "authorization: bearer @@",
    "> Authorization: Bearer @@",
    '{"Authorization": "Bearer @@"}',
    "{'Authorization': 'Bearer @@', 'Accept': '*/*'}",
    "curl -H 'Authorization: Bearer @@' https://api.example.com/me",
    'curl -s --header "authorization: Token @@" https://api.example.com',
    '{\\"headers\\":{\\"Authorization\\":\\"Bearer @@\\"}}',
    'req.Header.Set("Authorization", "Bearer @@")',
    "Proxy-Authorization: Basic @@",
    "AUTHORIZATION=Bearer @@",
    "sent Bearer @@ and got 401",
    "headers.authorization = `Bearer @@`",
    "Authorization: Basic @@",
    "Authorization: token @@",
    "Authorization: ApiKey @@",
)


def _headers(dice: Dice) -> list[tuple[str, str]]:
    lines = []
    for line in _HEADER_LINES:
        pair = f"{_pick(dice, _LOWER, 6)}:{_pick(dice, _ALNUM, 12)}"
        values = [_pick(dice, _ALNUM, 40), _pick(dice, _HEX, 32), _jwt(dice)]
        if "Basic" in line:
            values = [base64.b64encode(pair.encode()).decode()]
        lines += [(line.replace("@@", value), value) for value in values]
    return lines


_URL_LINES: Final = (
    "postgres://app:@@@db.internal:5432/shop",
    "postgresql+psycopg://app:@@@db/shop?sslmode=require",
    "redis://:@@@cache:6379/0",
    "rediss://default:@@@eu1.example.com:6380",
    "mongodb+srv://root:@@@cluster0.abcde.mongodb.net/test",
    "amqp://guest:@@@rabbit:5672/%2f",
    "mysql://root:@@@127.0.0.1/shop",
    "git clone https://bob:@@@git.example.com/team/repo.git",
    "https://oauth2:@@@gitlab.example.com/a/b.git",
    "ftp://bob:@@@files.example.com/in/",
    '"DATABASE_URL": "postgres://app:@@@db/shop"',
    "DATABASE_URL=postgres://app:@@@[::1]:5432/shop",
    "connecting to smtp://mailer:@@@mail.example.com:587 ...",
    "http_proxy=http://bob:@@@proxy.corp.example:3128",
    "sqlalchemy.url = mssql+pyodbc://sa:@@@sql/shop?driver=x",
)


def _urls(dice: Dice) -> list[tuple[str, str]]:
    passwords = ("p", "hunter2", "s3cr3t%40x", "Winter2025!", "pa$$w0rd", "a-b_c.d~e", "pass")
    return [
        (line.replace("@@", password, 1), password)
        for line in _URL_LINES
        for password in (*dice.sample(passwords, k=3), _pick(dice, _ALNUM, 20))
    ]


def _private_keys(dice: Dice) -> list[tuple[str, str]]:
    lines = []
    for kind in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED "):
        body = [_pick(dice, _BASE64, 64) for _ in range(6)] + [_pick(dice, _BASE64, 22) + "=="]
        begin, end = f"-----BEGIN {kind}PRIVATE KEY-----", f"-----END {kind}PRIVATE KEY-----"
        whole = "\n".join([begin, *body, end])
        escaped = whole.replace("\n", "\\n")
        cut = whole[:250]
        indented = whole.replace("\n", "\n    ")
        lines += [
            (f"cat key.pem\n{whole}\n$ ", whole),
            (f'{{"private_key": "{escaped}\\n"}}', escaped),
            (cut, cut),
            (f"tls:\n  key: |\n    {indented}\n", indented),
        ]
    headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF\n"
    block = "\n".join(_pick(dice, _BASE64, 64) for _ in range(4))
    legacy = f"-----BEGIN RSA PRIVATE KEY-----\n{headers}\n{block}"
    kind = "PGP PRIVATE KEY BLOCK-----"
    pgp = f"-----BEGIN {kind}\n\n{block}\n=aB3d\n-----END {kind}"
    return [*lines, (legacy, legacy), (pgp, pgp)]


_NOUNS: Final = (
    "order user cart invoice worker queue batch shard index ledger session report cache parser"
    " widget router login billing search export import metric alert schema tenant profile"
)


def _fill(dice: Dice, template: str) -> str:
    """Replace each «word» of ``template`` with something new of its kind."""
    parts = template.split("«")
    line = parts[0]
    for part in parts[1:]:
        kind, rest = part.split("»", 1)
        line += filling(dice, kind) + rest
    return line


def filling(dice: Dice, kind: str) -> str:
    noun = dice.choice(_NOUNS.split())
    simple: dict[str, Callable[[], str]] = {
        "word": lambda: noun,
        "Word": noun.capitalize,
        "WORD": noun.upper,
        "d": lambda: str(dice.randrange(1, 10)),
        "nn": lambda: str(dice.randrange(10, 60)),
        "n": lambda: str(dice.randrange(100, 9_999)),
        "ms": lambda: str(dice.randrange(1_600_000_000_000, 1_800_000_000_000)),
        "date": lambda: f"2026-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}",
        "iso": lambda: f"2026-03-{dice.randrange(1, 29):02}T10:22:31.{dice.randrange(100, 999)}Z",
        "ver": lambda: ".".join(str(dice.randrange(30)) for _ in range(3)),
        "ip": lambda: ".".join(str(dice.randrange(1, 255)) for _ in range(4)),
        "uuid": lambda: "-".join(_pick(dice, _HEX, size) for size in (8, 4, 4, 4, 12)),
    }
    if kind in simple:
        return simple[kind]()
    name = kind.rstrip(string.digits)
    alphabet = {
        "hex": _HEX,
        "alnum": _ALNUM,
        "b64x": _BASE64,
        "b32x": _BASE32,
        "upper": string.ascii_uppercase + string.digits,
        "lower": _LOWER,
        "digits": string.digits,
    }[name]
    return _pick(dice, alphabet, int(kind[len(name) :]))


def _email(dice: Dice) -> str:
    name = dice.choice(("bob", "alice.smith", "j_doe+news", "x", "maria-jose", "o.neil99"))
    host = dice.choice(("example.com", "mail.example.org", "b.co", "uni-bonn.de", "acme.co.uk"))
    return f"{name}@{host}"


def _phone(dice: Dice) -> str:
    area, exchange = dice.randrange(201, 989), dice.randrange(201, 989)
    line = dice.randrange(1_000, 9_999)
    shape = dice.choice(
        (
            "({a}) {b}-{c}",
            "{a}-{b}-{c}",
            "{a}.{b}.{c}",
            "+1 {a} {b} {c}",
            "+1-{a}-{b}-{c}",
            "+1{a}{b}{c}",
            "+49 151 {b}{c}1",
            "+44 20 7946 {c}",
            "+33 1 {a} {b} 12",
            "+49{a}{b}{c}",
            "+1 ({a}) {b}-{c}",
            "1-{a}-{b}-{c}",
        )
    )
    return shape.format(a=area, b=exchange, c=line)


def _minified(dice: Dice) -> str:
    """Give minified code full of names such as token, key and secret."""
    letters = [dice.choice(_LOWER) for _ in range(12)]
    words = ("token", "key", "secret", "password", "apiKey", "auth")
    parts = [
        f"{left}.{dice.choice(words)}={right}.{dice.choice(words)}"
        for left, right in pairwise(letters)
    ]
    return f"function {letters[0]}({','.join(letters[1:4])}){{{';'.join(parts)}}}"


def _event(dice: Dice) -> str:
    """Give an event of an agent as JSON, with digests, counts and times."""
    event = {
        "kind": dice.choice(("tool.call", "tool.result", "message")),
        "session": filling(dice, "uuid"),
        "ts": int(filling(dice, "ms")),
        "usage": {"input_tokens": dice.randrange(9_999), "output_tokens": dice.randrange(999)},
        "refs": [{"path": f"/src/{filling(dice, 'word')}.py", "sha256": _pick(dice, _HEX, 64)}],
        "summary": f"{filling(dice, 'word')} passed; the token budget is {dice.randrange(9_999)}",
    }
    return json.dumps(event, separators=dice.choice(((",", ":"), (", ", ": "))))


def _escaped_event(dice: Dice) -> str:
    return json.dumps({"output": _event(dice) + "\nkey: ok\n"})


def _base64_block(dice: Dice) -> str:
    return "\n".join(_pick(dice, _BASE64, 76) for _ in range(4)) + "=="


def _certificate(dice: Dice) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{_base64_block(dice)}\n-----END CERTIFICATE-----"


def _table(dice: Dice) -> str:
    return "  ".join(filling(dice, kind) for kind in ("word", "n", "hex7", "date", "ver", "n"))


_MADE: Final = (_minified, _event, _escaped_event, _base64_block, _certificate, _table)
