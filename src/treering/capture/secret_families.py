"""Token families, recognized by their published prefix and the body after it."""

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
_DOPPLER: Final = r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}"
_OPENAI: Final = (
    r"(?!ant-)(?:(?:proj|svcacct|admin|service|None|or-v1|lf)-[A-Za-z0-9_-]{16,1024}"
    r"|(?:[a-z0-9]{2,12}-)?[A-Za-z0-9]{20,1024})"
)

# Rule, keywords, body after the keyword; "^" requires the start of a word.
FAMILIES: Final = (
    ("anthropic", "sk-ant-", r"[A-Za-z0-9_-]{10,1024}"),
    ("openai", "^ sk-", _OPENAI),
    ("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{20,1024}(?:_[A-Za-z0-9_.-]{20,1024})?"),
    ("github", "github_pat_", r"[A-Za-z0-9_]{20,1024}"),
    (
        "gitlab",
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct-",
        r"[A-Za-z0-9_-]{20,1024}(?:\.[A-Za-z0-9]{2}\.[A-Za-z0-9]{9})?",
    ),
    ("aws", "^ AKIA ASIA", rf"[A-Z0-9]{{16}}{STOP}"),
    ("google", "^ AIza", rf"[A-Za-z0-9_-]{{35}}{STOP}"),
    ("google", "ya29.", r"[A-Za-z0-9_-]{20,2048}"),
    ("google", "GOCSPX-", r"[A-Za-z0-9_-]{20,64}"),
    ("google", "^ 1//0", r"[A-Za-z0-9_-]{40,512}"),
    ("slack", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.", r"[A-Za-z0-9.-]{10,512}"),
    ("slack", "xoxd-", r"[A-Za-z0-9%+/=_-]{20,512}"),
    ("slack", "xapp-", r"[0-9]-[A-Za-z0-9-]{10,512}"),
    ("slack", "hooks.slack.com/", r"(?:services|workflows|triggers)/([A-Za-z0-9_/+-]{16,256})"),
    ("stripe", "sk_live_ sk_test_ rk_live_ rk_test_", r"[A-Za-z0-9]{10,512}"),
    ("stripe", "whsec_", r"[A-Za-z0-9+/]{20,512}={0,2}"),
    ("npm", "^ npm_", rf"[A-Za-z0-9]{{36,128}}{STOP}"),
    ("pypi", "pypi-AgE", r"[A-Za-z0-9_-]{32,1024}"),
    ("huggingface", "^ hf_ api_org_", r"[A-Za-z0-9]{30,128}"),
    ("sendgrid", "^ SG.", r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    (
        "twilio",
        f"^ {' '.join('SK' + digit for digit in '0123456789abcdef')}",
        rf"[0-9a-f]{{31}}{STOP}",
    ),
    ("digitalocean", "dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{32,128}"),
    ("databricks", "^ dapi", rf"[a-f0-9]{{32}}(?:-[0-9])?{STOP}"),
    ("shopify", "shpat_ shpca_ shppa_ shpss_", r"[a-fA-F0-9]{32,64}"),
    ("linear", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{32,128}"),
    ("tavily", "tvly-", r"[A-Za-z0-9-]{16,128}"),
    ("groq", "^ gsk_", r"[A-Za-z0-9]{32,128}"),
    ("xai", "^ xai-", r"[A-Za-z0-9_-]{32,256}"),
    ("replicate", "^ r8_", rf"[A-Za-z0-9]{{36,40}}{STOP}"),
    ("perplexity", "pplx-", r"[A-Za-z0-9]{32,128}"),
    ("nvidia", "nvapi-", r"[A-Za-z0-9_-]{32,128}"),
    ("openai-like", "^ csk- pcsk_ lsv2_pt_ lsv2_sk_ tgp_v1_", r"[A-Za-z0-9_-]{24,256}"),
    ("notion", "ntn_", r"[A-Za-z0-9]{40,64}"),
    ("figma", "figd_ figu_", r"[A-Za-z0-9_-]{32,128}"),
    ("vault", "^ hvs. hvb. hvr.", r"[A-Za-z0-9_-]{20,512}"),
    ("grafana", "glsa_ glc_", r"[A-Za-z0-9_+/=-]{32,512}"),
    ("sentry", "sntrys_ sntryu_", r"[A-Za-z0-9_+/=-]{32,512}"),
    ("supabase", "sbp_ sb_secret_", r"[A-Za-z0-9_-]{20,128}"),
    ("docker", "dckr_pat_ dckr_oat_", r"[A-Za-z0-9_-]{20,128}"),
    ("atlassian", "ATATT3x ATCTT3x", r"[A-Za-z0-9_=-]{32,512}"),
    ("mailgun", "^ key-", rf"[a-f0-9]{{32}}{STOP}"),
    ("newrelic", "NRAK- NRII- NRRA- NRJS- NRIQ-", r"[A-Za-z0-9_-]{19,64}"),
    ("age", "AGE-SECRET-KEY-1", r"[A-Z0-9]{40,128}"),
    ("azure", "^ sig=", r"([A-Za-z0-9+/]{40,64}(?:=|%3D)|[A-Za-z0-9%]{43,90}%3D)"),
    ("adafruit", "^ aio_", rf"[A-Za-z0-9]{{28}}{STOP}"),
    ("alibaba", "^ LTAI", rf"[A-Za-z0-9]{{17,21}}{STOP}"),
    ("artifactory", "^ AKCp", rf"[A-Za-z0-9]{{60,80}}{_NO_BASE64}"),
    ("artifactory", "^ cmVmdGtu", r"[A-Za-z0-9]{40,80}"),
    (
        "asana",
        " ".join(("^", *(f"{kind}/{digit}" for kind in (1, 2) for digit in range(10)))),
        r"[0-9]{12,15}(?:/[0-9]{13,16}){0,2}:[a-f0-9]{32}",
    ),
    ("astra", "AstraCS:", r"[A-Za-z0-9]{16,64}:[a-f0-9]{40,80}"),
    ("bitbucket", "^ ATBB", rf"[A-Za-z0-9]{{32}}{STOP}"),
    ("brevo", "xkeysib- xsmtpsib-", r"[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    ("buildkite", "^ bkua_ bkaj_ bkct_ bkpat_", r"[A-Za-z0-9]{32,64}"),
    ("circleci", "CCIPAT_ CCIPRJ_", r"[A-Za-z0-9]{16,32}_[a-f0-9]{40}"),
    ("clojars", "CLOJARS_", r"[a-f0-9]{40,80}"),
    ("cloudflare", "^ cfk_ cfut_ cfat_", r"[A-Za-z0-9]{40,64}"),
    ("cloudflare", "^ v1.0-", r"[a-f0-9]{24}-[a-f0-9]{100,200}"),
    ("contentful", "CFPAT-", r"[A-Za-z0-9_-]{43}"),
    ("doppler", "^ dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", _DOPPLER),
    ("dropbox", "^ sl.B sl.u.", r"[A-Za-z0-9_-]{100,2048}"),
    ("duffel", "duffel_live_ duffel_test_", r"[A-Za-z0-9_-]{40,64}"),
    ("dynatrace", "^ dt0c01. dt0s01.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("easypost", "^ EZAK EZTK", rf"[A-Za-z0-9]{{54,58}}{STOP}"),
    ("facebook", "^ EAAB EAAC EAAG EAAM", rf"[A-Za-z0-9]{{100,512}}{_NO_BASE64}"),
    ("facebook", "EAACEdEose0cBA", r"[A-Za-z0-9]{20,512}"),
    ("firecrawl", "^ fc-", rf"[a-f0-9]{{32}}{STOP}"),
    ("fireworks", "^ fw_", rf"[A-Za-z0-9]{{20,64}}{STOP}"),
    ("flutterwave", "FLWSECK- FLWSECK_TEST-", r"[A-Za-z0-9-]{12,80}"),
    ("fly", "^ fo1_", r"[A-Za-z0-9_-]{40,64}"),
    ("fly", "^ fm1a_ fm1r_ fm2_", r"[A-Za-z0-9+/_-]{40,4096}={0,3}"),
    ("gitlab", "GR1348941", r"[A-Za-z0-9_-]{20,64}"),
    ("heroku", "HRKU-", r"[A-Za-z0-9_-]{36,80}"),
    ("honeycomb", "^ hcaik_ hcxik_ hcalk_ hcxlk_", r"[a-z0-9]{40,80}"),
    ("hubspot", "^ pat-na1- pat-eu1- pat-na2-", r"[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}"),
    ("infracost", "^ ico-", rf"[A-Za-z0-9]{{32}}{STOP}"),
    ("jina", "^ jina_", r"[A-Za-z0-9_-]{40,96}"),
    ("mapbox", "^ sk.eyJ", r"[A-Za-z0-9_-]{20,512}\.[A-Za-z0-9_-]{16,64}"),
    ("neon", "^ napi_", r"[a-z0-9]{40,80}"),
    ("netlify", "^ nfp_", rf"[A-Za-z0-9]{{36,64}}{STOP}"),
    ("notion", "^ secret_", rf"[A-Za-z0-9]{{43}}{STOP}"),
    ("nuget", "^ oy2", rf"[a-z0-9]{{43}}{STOP}"),
    ("octopus", "^ API-", rf"[A-Z0-9]{{25,32}}{STOP}"),
    ("onepassword", "^ ops_eyJ", r"[A-Za-z0-9_+/-]{100,4096}={0,2}"),
    ("openshift", "^ sha256~", r"[A-Za-z0-9_-]{43}"),
    (
        "plaid",
        "access-sandbox- access-development- access-production-",
        r"[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",
    ),
    ("planetscale", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9_.=-]{32,64}"),
    ("posthog", "^ phx_", r"[A-Za-z0-9_-]{32,64}"),
    ("postman", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    ("prefect", "^ pnu_ pnb_", rf"[A-Za-z0-9]{{36}}{STOP}"),
    ("pulumi", "^ pul-", rf"[a-f0-9]{{40}}{STOP}"),
    ("readme", "^ rdme_", r"[a-z0-9]{60,80}"),
    ("render", "^ rnd_", rf"[A-Za-z0-9]{{24,40}}{STOP}"),
    ("rubygems", "rubygems_", r"[a-f0-9]{48}"),
    ("sonar", "^ sqp_ squ_ sqa_", rf"[a-f0-9]{{40}}{STOP}"),
    ("sourcegraph", "^ sgp_", r"(?:[a-z0-9]{5,16}_)?[a-f0-9]{40}"),
    ("segment", "^ sgp_", rf"[A-Za-z0-9]{{64}}{STOP}"),
    ("square", "sq0atp- sq0csp-", r"[A-Za-z0-9_-]{22,64}"),
    ("square", "^ EAAA", rf"[A-Za-z0-9_-]{{56,64}}{_NO_BASE64}"),
    ("tailscale", "tskey-auth- tskey-api- tskey-client-", r"[A-Za-z0-9]{8,32}-[A-Za-z0-9]{20,64}"),
    (
        "launchdarkly",
        "^ sdk- mob- api-",
        rf"[a-f0-9]{{8}}(?:-[a-f0-9]{{4}}){{3}}-[a-f0-9]{{12}}{STOP}",
    ),
    (
        "paypal",
        "access_token$production$ access_token$sandbox$",
        r"([a-z0-9]{8,32}\$[a-f0-9]{16,64})",
    ),
    ("typeform", "^ tfp_", r"[A-Za-z0-9_-]{40,80}"),
    ("vercel", "^ vcp_ vck_ vci_ vca_ vcr_", r"[A-Za-z0-9]{24,128}"),
    ("vercel", "^ vercel_blob_rw_", r"[A-Za-z0-9]{8,32}_[A-Za-z0-9]{24,64}"),
    ("wakatime", "^ waka_", r"[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}"),
    ("xata", "^ xau_", r"[A-Za-z0-9]{24,64}"),
    ("yandex", "^ t1.9 AQVN YCAJE YCM", r"[A-Za-z0-9_.=-]{32,512}"),
    ("wallet", "^ xprv yprv zprv", rf"[0-9A-Za-z]{{100,112}}{STOP}"),
    ("cloudflare", "^ eyJhIjoi", r"[A-Za-z0-9_+/-]{80,512}={0,2}"),
    ("clickup", "^ pk_", rf"[0-9]{{6,10}}_[A-Z0-9]{{32}}{STOP}"),
    ("crates", "^ cio", rf"(?=[A-Za-z]{{0,31}}[0-9])[A-Za-z0-9]{{32}}{STOP}"),
    ("elevenlabs", "^ sk_", rf"[a-f0-9]{{48}}{STOP}"),
    ("intercom", "^ dG9rO", r"[A-Za-z0-9+/]{40,80}={0,2}"),
    ("nostr", "^ nsec1", rf"[a-z0-9]{{58}}{STOP}"),
    ("razorpay", "rzp_live_ rzp_test_", r"[A-Za-z0-9]{14,32}"),
    ("resend", "^ re_", rf"[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{20,40}}{STOP}"),
    ("zapier", "hooks.zapier.com/", r"hooks/catch/[0-9]{4,12}/([A-Za-z0-9]{5,32})"),
    (
        "ifttt",
        "maker.ifttt.com/",
        r"trigger/[\w{}-]{1,64}(?:/json)?/with/key/([A-Za-z0-9_-]{20,64})",
    ),
    ("docker", "eyJhdXRocyI6", r"[A-Za-z0-9+/=]{16,4096}"),
    # How a private key of any kind begins in Base64, but not a certificate.
    (
        "private-key",
        "LS0tLS1CRUdJTi",
        r"B(?:QUklWQVRF|SU0EgUFJJVkFU|FQyBQUklWQVRF|PUEVOU1NIIFBS|FTkNSWVBURUQg|EU0EgUFJJVkFU|QR1AgUFJJVkFU)[A-Za-z0-9+/=]{20,16384}",
    ),
    # Password hashes as servers store them, which allow guessing offline.
    (
        "password-hash",
        "$apr1$ $1$ $5$ $6$",
        r"(?:rounds=[0-9]{1,9}\$)?[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{22,86}",
    ),
    ("password-hash", "$2a$ $2b$ $2y$", r"[0-9]{2}\$[A-Za-z0-9./]{53}"),
    (
        "password-hash",
        "$y$ $7$ $gy$",
        r"[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{1,86}\$[A-Za-z0-9./]{43}",
    ),
    ("password-hash", "$argon2", r"(?:id|i|d)\$[^\s\"']{16,256}"),
    ("password-hash", "$scrypt$ $pbkdf2- scrypt:", r"[^\s\"']{40,256}"),
    (
        "password-hash",
        "pbkdf2_sha256$ pbkdf2_sha1$ pbkdf2:sha256: bcrypt_sha256$",
        r"[^\s\"']{30,256}",
    ),
    ("password-hash", "SCRAM-SHA-256$ SCRAM-SHA-512$", r"[0-9]{3,7}:[A-Za-z0-9+/=$:]{60,256}"),
    (
        "password-hash",
        "{SSHA} {SHA} {SMD5} {SSHA256} {SSHA512} {SHA256} {SHA512} {CRYPT} {PBKDF2}",
        r"[^\s\"']{20,256}",
    ),
    (
        "jwt",
        "^ eyJ",
        r"[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{8,16384}(?:\.[A-Za-z0-9_-]{0,4096})?",
    ),
)

USUAL: Final = {
    "sk-ant-": r"[a-z]{3,6}[0-9]{2}-[A-Za-z0-9_-]{95}",
    "sk-": r"(?!ant-)(?:[A-Za-z0-9]{48}|or-v1-[a-f0-9]{64}"
    r"|(?:proj|svcacct|admin|service|None)"
    r"-(?:[A-Za-z0-9_-]{48}|[A-Za-z0-9_-]{124}|[A-Za-z0-9_-]{156}))",
    "ghp_": r"[A-Za-z0-9]{36}",
    "github_pat_": r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}",
    "glpat-": r"[A-Za-z0-9_-]{20}|[A-Za-z0-9_-]{27}\.[a-z0-9]{2}\.[a-z0-9]{9}",
    "GOCSPX-": r"[A-Za-z0-9_-]{28}",
    "xoxa-": r"[0-9]{10,13}-[0-9]{10,13}-[A-Za-z0-9]{24}|(?:[0-9]{10,13}-){3}[a-f0-9]{32}",
    "xapp-": r"[0-9]-[A-Z0-9]{9,12}-[0-9]{12,14}-[a-f0-9]{64}",
    "sk_live_": r"[A-Za-z0-9]{24}|[A-Za-z0-9]{99}",
    "whsec_": r"[A-Za-z0-9+/]{32}",
    "npm_": r"[A-Za-z0-9]{36}",
    "hf_": r"[A-Za-z0-9]{34}",
    "SG.": r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
    "dop_v1_": r"[a-f0-9]{64}",
    "shpat_": r"[a-fA-F0-9]{32}",
    "lin_api_": r"[A-Za-z0-9]{40}",
    "gsk_": r"[A-Za-z0-9]{52}",
    "xai-": r"[A-Za-z0-9_-]{80}",
    "r8_": r"[A-Za-z0-9]{37}",
    "pplx-": r"[A-Za-z0-9]{48}",
    "nvapi-": r"[A-Za-z0-9_-]{64}",
    "figd_": r"[A-Za-z0-9_-]{40}",
    "glsa_": r"[A-Za-z0-9]{32}_[a-f0-9]{8}",
    "dckr_pat_": r"[A-Za-z0-9_-]{27}",
    "tvly-": r"[A-Za-z0-9-]{32}",
    # Signed with SHA-2 of any length, an elliptic curve or RSA.
    "eyJ": r"[A-Za-z0-9_-]{8,4096}\.eyJ[A-Za-z0-9_-]{8,16384}"
    r"\.(?:[A-Za-z0-9_-]{43}|[A-Za-z0-9_-]{64}|[A-Za-z0-9_-]{86}|[A-Za-z0-9_-]{128}"
    r"|[A-Za-z0-9_-]{342}|[A-Za-z0-9_-]{512}|[A-Za-z0-9_-]{683})",
}
"""The exact body of tokens as issued, by the first keyword of a family.

A family also matches longer or shorter bodies; at a line break, this decides whether the token
continues.
"""
