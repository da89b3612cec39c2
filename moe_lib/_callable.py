"""A module that can be called, where it shares its name with its chief function."""

import sys
from types import ModuleType


def make_callable(module, function):
    """Let ``moe_lib.plan(...)`` be ``moe_lib.plan.plan(...)``, since both have one name.

    Parameters
    ----------
    module : str
        Its full name.
    function : callable

    >>> make_callable("moe_lib._callable", len)
    >>> sys.modules["moe_lib._callable"]("four")
    4
    """
    kind = type("CallableModule", (ModuleType,), {"__call__": staticmethod(function)})
    sys.modules[module].__class__ = kind
