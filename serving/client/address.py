"""Checks the addresses of servers before anything is sent."""

import contextlib
import ipaddress
import math
import socket
import urllib.parse

_LONGEST_TIMEOUT_SECONDS = 86400  # socket.settimeout overflows far above it


def parse_url(url, schemes):
    """Returns the parts of a server's address.

    Args:
        url: str. SCHEME://HOST:PORT, optionally with the path at which the server is.
        schemes: tuple of str. The schemes that the caller speaks.

    Returns:
        urllib.parse.SplitResult.

    Raises:
        ValueError: if the address is wrong; the message names it.
    """
    rule = " or ".join(f"{scheme}://HOST:PORT" for scheme in schemes)
    try:
        parts = urllib.parse.urlsplit(url)
        has_port = parts.port is not None  # raises if it is not a port
        host = (parts.hostname or "").encode("idna")
    except ValueError as error:  # UnicodeError is one
        raise ValueError(f"`url` must be {rule}. Received: {url!r} ({error})") from error
    is_plain = url.isascii() and url.isprintable() and " " not in url
    has_more = parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in schemes or not host or parts.port == 0 or has_more or not is_plain:
        raise ValueError(f"`url` must be {rule}. Received: {url!r}")
    if "grpc" in schemes and (parts.path or not has_port):
        raise ValueError(f"`url` must be {rule}, with a port and without a path. Received: {url!r}")
    return parts


def is_loopback(host):
    """Whether a host is this machine, which needs no proxy."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        mapped = getattr(address, "ipv4_mapped", None) or address
        return mapped.is_loopback or mapped.is_unspecified
    with contextlib.suppress(OSError):  # short forms, such as 127.1
        return ipaddress.ip_address(socket.inet_aton(host)).is_loopback
    return False


def check_timeout(timeout_seconds):
    """Raises ValueError if a time-out is out of range."""
    if not (math.isfinite(timeout_seconds) and 0 < timeout_seconds <= _LONGEST_TIMEOUT_SECONDS):
        raise ValueError(
            f"`timeout_seconds` must be in (0, {_LONGEST_TIMEOUT_SECONDS}]. Received: {timeout_seconds}"
        )
