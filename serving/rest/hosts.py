"""Decides by which names clients may call the server, as a protection against DNS rebinding.

The owner of a domain name can make it point to this machine after a browser has loaded their page. The
browser then believes that our answers come from the page's own server, and lets the page read them. But it
sends the name.
"""

import functools
import ipaddress
import re

# A name or an address, optionally a port, and nothing else.
_HOST = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?")
# A name that may be listed has neither a scheme nor a port, and no * in it.
_NAME = re.compile(r"\.?[^\s.:/*\[\]]+(?:\.[^\s.:/*\[\]]+)*")


class AllowedHosts:
    """The names that requests may give as their Host.

    Addresses, and names without a dot such as localhost or a container's name, belong to nobody in the DNS.
    These are always allowed, and so are names that end in .localhost, and requests without a Host.

    Args:
        names: iterable of str. Further names; ".example.com" allows example.com and all names that end in
            .example.com.
    """

    def __init__(self, names=()):
        names = [name.lower().strip() for name in names]
        self._names = {name.removeprefix(".") for name in names}
        self._endings = (".localhost", *(name for name in names if name.startswith(".")))
        self._is_allowed = functools.lru_cache(256)(self._check)

    def refused(self, headers):
        """Looks for a name that is not allowed.

        Args:
            headers: iterable of pairs of bytes. The headers in the ASGI scope.

        Returns:
            str or None. The first Host that is not allowed.
        """
        for name, value in headers:
            if name == b"host" and not self._is_allowed(value):
                return value.decode("latin-1")
        return None

    def _check(self, value):
        match = _HOST.fullmatch(value.decode("latin-1").strip().lower())
        if not match or match["v6"]:
            return bool(match) and _is_address(match["v6"])
        name = (match["name"] or "").removesuffix(".")
        return "." not in name or name in self._names or name.endswith(self._endings) or _is_address(name)


def allowed_hosts(names, address):
    """Makes `AllowedHosts` from the user's flags.

    Args:
        names: list of str or None. The allowed names; "*" allows any name. None also allows any name, unless
            only this machine can reach the server.
        address: str. The numeric address on which the server listens, whatever the user calls it.

    Returns:
        `AllowedHosts`, or None if everything is allowed.
    """
    if names is None:
        return AllowedHosts() if _is_loopback(address) else None
    return None if "*" in names else AllowedHosts(names)


def check_names(names):
    """Raises ValueError if a name could never be that of a request, such as a URL, or one with a port."""
    for name in map(str.strip, names):
        if name != "*" and not _NAME.fullmatch(name) and not _is_address(name):
            raise ValueError(
                "--allowed_hosts must be names such as a.example, .example for all that end in it, or *."
                f" Received: {name!r}"
            )


def _is_loopback(address):
    found = ipaddress.ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def _is_address(name):
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
