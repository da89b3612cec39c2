"""Put on a kernel's PYTHONPATH: nothing but this machine can be reached, and torch cannot be imported."""

import socket
import sys

_connect = socket.socket.connect


def _local_only(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"no network in this test: {address}")
    return _connect(self, address)


def _no_lookup(host, *args, **kwargs):
    if host not in (None, "", "127.0.0.1", "::1", "localhost"):
        raise OSError(f"no network in this test: {host}")
    return _getaddrinfo(host, *args, **kwargs)


_getaddrinfo = socket.getaddrinfo
socket.getaddrinfo = _no_lookup
socket.socket.connect = _local_only
socket.socket.connect_ex = _local_only
sys.modules["torch"] = None  # `import torch` raises ModuleNotFoundError
