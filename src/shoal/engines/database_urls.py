"""Connection strings of databases, such as ``postgresql://steward@host/clinic``. They never contain a password."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from shoal.errors import PolicyError

SCHEMES = ("postgresql://", "postgres://")
SECRETS = ("password", "sslpassword")  # keys of a connection string
REFUSED = (
    "the connection string contains a password, which other users of this machine can read in the list of processes and in "
    "the history of the shell. Remove it, and change the password. Set the environment variable PGPASSWORD, add a line to the "
    "file ~/.pgpass, or name a service of a service file: 'postgresql:///?service=NAME'."
)


def is_database_url(data: Any) -> bool:
    """Whether data are a connection string of PostgreSQL."""
    return isinstance(data, str) and data.lower().startswith(SCHEMES)


def refuse_password(url: str) -> None:
    """Raise an error for a connection string that contains a password; the error does not quote the string.

    >>> refuse_password("postgresql://ann:hunter2@host/clinic")
    Traceback (most recent call last):
    shoal.errors.PolicyError: the connection string contains a password, which ...
    >>> refuse_password("postgresql://ann@host:5432/clinic?sslmode=verify-full")
    """
    address, _, query = url.partition("://")[2].partition("?")
    login = address.rpartition("@")[0]  # a password may contain a slash
    keys = [unquote(pair.partition("=")[0]).lower() for pair in query.split("&")]
    if ":" in login or any(key in SECRETS for key in keys):
        raise PolicyError(REFUSED)
