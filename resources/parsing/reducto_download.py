"""Links that Reducto gives: results are fetched from them and large documents put there, never with our key."""

from __future__ import annotations

import ssl
import time
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import urlsplit

import httpx

MOST_RESULT_BYTES = 256_000_000
FETCH_S = 20.0
"""In total; a sensor's tick has 60 s, and the link is asked for anew by the next look."""


@lru_cache(maxsize=1)
def trusted() -> ssl.SSLContext:
    """Return whom we trust: loading that takes longer than a look at a job."""
    return httpx.create_ssl_context()


class LinkFailed(Exception):  # noqa: N818 - an outcome, handled where the link was given
    """Nothing could be had from a link. ``too_large``: it leads to more than is taken."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


class Links:
    """Follows links, one hop, over HTTPS.

    Args:
        timeout: per read.
        plain_http: whether HTTP is good enough: a server of one's own that is itself reached that way.
        most_bytes: the largest result that is taken.
        seconds: the longest a fetch may take in total.
    """

    def __init__(
        self,
        timeout: httpx.Timeout,
        *,
        plain_http: bool = False,
        most_bytes: int = MOST_RESULT_BYTES,
        seconds: float = FETCH_S,
    ) -> None:
        self._client = httpx.Client(verify=trusted(), timeout=timeout, follow_redirects=False)
        self._schemes = frozenset({"https", "http"} if plain_http else {"https"})
        self._most_bytes, self._seconds = most_bytes, seconds

    def get(self, url: str) -> bytes:
        """Fetch what a link leads to.

        Raises:
            LinkFailed: it leads to nothing, too slowly, or to too much.
        """
        self._check(url)
        deadline = time.monotonic() + self._seconds
        data = bytearray()
        try:
            with self._client.stream("GET", url) as response:
                if response.status_code != HTTPStatus.OK:
                    msg = f"the link to the result answers HTTP {response.status_code}"
                    raise LinkFailed(msg)
                for part in response.iter_bytes():
                    data += part
                    if len(data) > self._most_bytes:
                        msg = f"the result is larger than {self._most_bytes} bytes"
                        raise LinkFailed(msg, too_large=True)
                    if time.monotonic() > deadline:
                        msg = f"the result was not there after {self._seconds:g} s"
                        raise LinkFailed(msg)
        except httpx.HTTPError as error:
            msg = f"the link to the result broke: {type(error).__name__}"
            raise LinkFailed(msg) from error
        return bytes(data)

    def put(self, url: str, data: bytes) -> None:
        """Put bytes where a link says.

        Raises:
            LinkFailed: they did not get there.
            httpx.HTTPError: the same.
        """
        self._check(url)
        answered = self._client.put(url, content=data)
        if not answered.is_success:
            msg = f"the address for the upload answers HTTP {answered.status_code}"
            raise LinkFailed(msg)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _check(self, url: str) -> None:
        scheme = urlsplit(url).scheme
        if scheme not in self._schemes:
            msg = f"the service gave a link over {scheme or 'nothing'}, which is not followed"
            raise LinkFailed(msg)
