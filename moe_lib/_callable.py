"""A module that can be called, where it shares its name with its chief function."""

import inspect
import sys
from types import ModuleType


def make_callable(module, function):
    """Let ``moe_lib.plan(...)`` be ``moe_lib.plan.plan(...)``, since both have one name.

    Parameters
    ----------
    module : str
        Its full name.
    function : callable

    >>> make_callable(__name__, abs)
    >>> sys.modules[__name__](-4)
    4
    """
    called = sys.modules[module]
    called.__class__ = type("CallableModule", (ModuleType,), {"__call__": staticmethod(function)})
    called.__signature__ = inspect.signature(function)  # what editors show
