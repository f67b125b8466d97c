"""Posts JSON to an endpoint and reads its answer, within limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec

from treering.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint of a server."""

    url: str
    wanted: str
    """What an answer is, in a word: ``summary``."""
    api_key: str | None = None
    timeout_s: float
    answer_bytes_max: int

    def __post_init__(self) -> None:
        """Raise InvalidInput if the URL is not http or https."""
        if urlsplit(self.url).scheme not in {"http", "https"}:
            raise InvalidInput(
                f"invalid endpoint: {self.url}",
                hint="give a URL such as http://localhost:8080/v1",
            )

    def ask(self, body: Mapping[str, object], answer: type[T]) -> T:
        """Return the endpoint's answer. Raise Unavailable if it cannot be reached."""
        headers = {"Content-Type": "application/json"}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        request = Request(self.url, msgspec.json.encode(body), headers)  # noqa: S310  (checked)
        try:
            with urlopen(request, timeout=self.timeout_s) as response:  # noqa: S310
                return msgspec.json.decode(response.read(self.answer_bytes_max), type=answer)
        except HTTPError as error:
            error.close()
            raise self.unavailable(f"it answered {error.code}") from error
        except (URLError, OSError) as error:
            raise self.unavailable(str(getattr(error, "reason", error))) from error
        except msgspec.MsgspecError as error:
            raise self.unavailable(f"its answer is not a valid {self.wanted}") from error

    def unavailable(self, why: str) -> Unavailable:
        """Return the error that says why no answer came."""
        return Unavailable(
            f"no {self.wanted} from {self.url}: {why}",
            hint="check the address, the model and the key",
        )
