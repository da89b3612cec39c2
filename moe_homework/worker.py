"""The untrusted side: execute a notebook's cells, then call the functions it defined. Nothing here is secret.

Runs as a script of its own with `values.py` beside it. Requests come as lines of JSON on standard input, answers leave
on standard output; what the notebook prints goes nowhere.
"""

import ast
import builtins
import contextlib
import ctypes
import errno
import importlib.abc
import importlib.machinery
import os
import platform
import struct
import sys
import time
import traceback
from pathlib import Path
from unittest import mock

sys.path[:0] = [str(Path(__file__).parent), os.getcwd()]
from values import LONGEST_FAULT, decode, describe, encode, from_line, to_line  # noqa: E402

CHECKS = {"moe_homework"}  # always imitated: nobody reads here what a check says
PLOTTING = {"matplotlib", "mpl_toolkits", "seaborn", "plotly", "bokeh"}  # imitated where they are absent
CELL_FILE = "<ipython-input-"
SHORTEST_CELL = 0.2  # seconds that a cell may take when the notebook's time is over
MOST_FILES = 256  # that one process may have open
# System calls for memory of no process, by the machine and its number: memfd_create, shmget, mount, fsopen.
UNCOUNTED = {"x86_64": (0xC000003E, (319, 29, 165, 430)), "aarch64": (0xC00000B7, (279, 194, 40, 430))}
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class CellTimeout(BaseException):
    """Raised inside a cell that runs too long."""


def limit_resources(memory_bytes, file_bytes, processes):
    """Limits that the kernel keeps and nobody here can raise again. Windows has none."""
    with contextlib.suppress(ImportError):
        import resource

        limits = {
            resource.RLIMIT_AS: memory_bytes,
            resource.RLIMIT_FSIZE: file_bytes,
            resource.RLIMIT_NPROC: processes,
            resource.RLIMIT_NOFILE: MOST_FILES,
            resource.RLIMIT_CORE: 0,
        }
        for limit, value in limits.items():
            hard = resource.getrlimit(limit)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (value, value))


def refuse_uncounted_memory():
    """Let the kernel refuse, for good, to hand out memory that no limit and no watcher counts. Linux alone can."""
    if not sys.platform.startswith("linux") or platform.machine() not in UNCOUNTED:
        return
    machine, numbers = UNCOUNTED[platform.machine()]
    load, equal, answer = 0x20, 0x15, 0x06  # instructions of a BPF program
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.ENOSYS
    program = [(load, 0, 0, 4), (equal, 1, 0, machine), (answer, 0, 0, refuse), (load, 0, 0, 0)]
    for number in numbers:
        program += [(equal, 0, 1, number), (answer, 0, 0, refuse)]
    program.append((answer, 0, 0, allow))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in program))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    prctl(22, 2, ctypes.addressof(head), 0, 0)  # PR_SET_SECCOMP with a filter


class Imitations(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for packages that grading does not need."""

    def __init__(self, packages):
        self.packages = packages

    def find_spec(self, name, path=None, target=None):
        known = name.split(".")[0] in self.packages
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec):
        module = mock.MagicMock(name=spec.name, __spec__=spec, __path__=[], __file__=None)
        module.subplots.return_value = (mock.MagicMock(), mock.MagicMock())
        return module

    def exec_module(self, module):
        """An imitation runs nothing."""


def shell():
    """An IPython shell, so that magics and shell lines work as they did for the student."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    quiet = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}})
    shell = InteractiveShell.instance(config=quiet)
    shell.showtraceback = shell.showsyntaxerror = lambda *args, **kwargs: None
    shell.register_magic_function(lambda line: None, magic_name="matplotlib")
    return shell


def run_cell(shell, source, seconds):
    """Run one cell within a time limit; returns its exception, or None."""
    import signal

    def end(number, frame):
        raise CellTimeout(f"took more than {seconds:g} s")

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        result = shell.run_cell(source, store_history=False)
        return result.error_before_exec or result.error_in_exec
    except BaseException as error:
        return error
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)


def execute(shell, task, say):
    """Run the cells in order; those that lacked a name once more after the others. Returns {cell: fault}.

    When the notebook's time is over, what is left has hardly any. Of a cell that ended an earlier process only the
    imports and definitions are taken, and nothing if they ended one too.
    """
    cells, faults, end = task["cells"], {}, time.monotonic() + task["notebook_seconds"]
    waiting = [number for number in range(len(cells)) if number not in task["skip"]]
    while waiting:
        lacking = []
        for number in waiting:
            say({"cell": number})
            if number in task["bare"]:
                define(shell, cells[number])
                continue
            left = max(end - time.monotonic(), SHORTEST_CELL)
            error = run_cell(shell, cells[number], min(task["cell_seconds"], left))
            faults.pop(number, None)
            if error is not None:
                faults[number] = describe_in_cell(error)
                frames = traceback.extract_tb(error.__traceback__)
                where = [(frame.lineno, frame.filename) for frame in frames if frame.filename.startswith(CELL_FILE)]
                define(shell, cells[number], *(where[0] if where else ()))
                if isinstance(error, NameError):
                    lacking.append(number)
        waiting = lacking if len(lacking) < len(waiting) and time.monotonic() < end else []
    return faults


def define(shell, source, after=0, file="<cell>"):
    """Do the imports and definitions of a cell below the line `after`, whatever else of it failed."""
    with contextlib.suppress(SyntaxError, ValueError):
        for node in ast.parse(shell.transform_cell(source)).body:
            if isinstance(node, DEFINITIONS) and node.lineno > after:
                with contextlib.suppress(BaseException):
                    exec(compile(ast.Module([node], type_ignores=[]), file, "exec"), shell.user_ns)


def describe_in_cell(error):
    """What went wrong in a cell: also that it took too long, or the line that is not Python."""
    with contextlib.suppress(BaseException):  # where an exception is not what it seems
        if type(error) is CellTimeout:
            return str(error)[:LONGEST_FAULT]
        if type(error) in (SyntaxError, IndentationError, TabError) and error.filename.startswith(CELL_FILE):
            where = f"line {error.lineno} of the cell: {error.text.strip()}"
            return f"{type(error).__name__}: {error.msg} ({where})"[:LONGEST_FAULT]
    return describe(error)


def answer(namespace, request):
    """What a call gave: its value and the arguments as they are afterwards, or what is wrong with it."""
    name, arguments, named = request["call"], decode(request["arguments"]), decode(request["named"])
    if name not in namespace:
        return {"undefined": name}
    function = namespace[name]
    if not callable(function):
        return {"fault": f"it is not a function: the notebook sets it to a value of type {type(function).__name__}"}
    try:
        value = function(*arguments, **named)
    except BaseException as error:
        return {"fault": f"raised {describe(error, of=function)}"}
    try:
        return {"value": encode(value), "after": encode(arguments)}
    except (TypeError, ValueError) as error:
        return {"fault": str(error)[:LONGEST_FAULT]}
    except BaseException as error:
        return {"fault": f"its value cannot be graded: {describe(error)}"}


def main():
    """Read the notebook, run it, then answer calls until there are no more."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)

    def say(message):
        try:
            line = to_line(message)
        except ValueError as error:
            line = to_line({"fault": str(error), "number": message.get("number")})
        answers.write(line)
        answers.flush()

    task = from_line(requests.readline())
    limit_resources(task["memory_bytes"], task["file_bytes"], task["processes"])
    refuse_uncounted_memory()
    builtins.input = lambda prompt="": ""
    sys.meta_path[:] = [Imitations(CHECKS), *sys.meta_path, Imitations(PLOTTING)]
    ipython = shell()
    faults = execute(ipython, task, say)
    say({"ready": {str(number): fault for number, fault in faults.items()}})
    for line in requests:
        request = from_line(line)
        say(answer(ipython.user_ns, request) | {"number": request["number"]})


if __name__ == "__main__":
    main()
