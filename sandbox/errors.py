"""Errors in the shape of the Messages API: every refusal of the sandbox is an `ApiError` until the edge answers it."""

from http import HTTPStatus
from typing import NoReturn

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}

DEFAULT_MESSAGES = {
    400: "Your credit balance is too low to access the Anthropic API.",
    401: "API key is invalid.",
    404: "Not found",
    413: "Request exceeds the maximum size",
    429: "Rate limited",
    500: "Internal server error",
    504: "Request timed out",
    529: "Overloaded",
}


class ApiError(Exception):
    """A request that is answered with an HTTP status of 400 or more, and is not billed."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the status and the text that the error body shows."""
        super().__init__(message)
        self.status = status
        self.message = message


def refuse(message: str) -> NoReturn:
    """Refuse a request that breaks a rule of the API: raises `ApiError` with status 400."""
    raise ApiError(HTTPStatus.BAD_REQUEST, message)


def error_type(status: int) -> str:
    """Return the type that goes with a status."""
    return ERROR_TYPES.get(status, "api_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ERROR_TYPES[400])


def error_body(status: int, message: str | None, request_id: str) -> dict[str, object]:
    """Return the JSON body of an error; without a message, the one that is usual for the status."""
    kind = error_type(status)
    text = message if message is not None else DEFAULT_MESSAGES.get(status, kind)
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": request_id}
