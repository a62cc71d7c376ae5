"""Who asks: the headers that every request to the API needs."""

from http import HTTPStatus

from aiohttp import web

from sandbox.errors import ApiError, refuse

REFUSED_KEY = "invalid"
VERSIONS = ("2023-01-01", "2023-06-01", "2026-10-21")


def check_access(request: web.Request) -> str:
    """Return the `anthropic-version` of a request with a key.

    Raises:
        ApiError: 401 without a key or with the refused one, 400 without a version or with an unknown one.

    """
    key = api_key(request)
    if key is None:
        raise ApiError(HTTPStatus.UNAUTHORIZED, "x-api-key header is required")
    if key == REFUSED_KEY:
        raise ApiError(HTTPStatus.UNAUTHORIZED, "API key is invalid.")
    version = request.headers.get("anthropic-version")
    if version is None:
        refuse("anthropic-version: header is required")
    if version not in VERSIONS:
        refuse(f'anthropic-version: "{version}" is not a valid version')
    return version


def api_key(request: web.Request) -> str | None:
    """Return the key, sent as a bearer token or as `x-api-key`."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return request.headers.get("x-api-key") or None
