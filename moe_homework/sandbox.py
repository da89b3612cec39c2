"""A process that executed a student's notebook, out of reach of everything else, and proxies for its functions.

The worker (`worker.py`) lives in bubblewrap: no network, a read-only system, a home of its own that is gone afterwards,
and no sight of the tests, the reference solutions, other submissions, or the grader's files and processes. What it says
is checked here, in the process that never runs a student's code.
"""

import contextlib
import functools
import math
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

import moe_lib

from .expect import CALL_SECONDS, Stopped, Wrong, answering, one_line, too_slow
from .values import MOST_BYTES, decode, encode, from_line, to_line

INSIDE = Path("/homework")  # where the sandbox sees the worker and moe_lib
HOME = Path("/home/student")  # a folder of the sandbox alone
SYSTEM = ("/bin", "/lib", "/lib32", "/lib64", "/sbin")  # links into /usr on most systems
SETTINGS = ("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types")
APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")  # 1 on Ubuntu from 24.04 on
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
LONGEST_START = 40  # characters of a cell's first line that are told
MOST_LOST_CELLS = 5  # cells that may end the process before only definitions are taken of all; twice as many end it
START_SECONDS = 60.0  # for Python to start, before anything of the student's runs
WATCH_SECONDS = 0.05  # between two looks at a worker

WAY_OUT = (
    "Submissions run strangers' code, so nothing was graded. Grade on Linux with bubblewrap (apt install bubblewrap,"
    " dnf install bubblewrap) or in a container (the page on grading says how), or pass --trust to run them without"
    " isolation, with your files and network in their reach."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a submission may use. Times are by the clock."""

    call_seconds: float = CALL_SECONDS
    cell_seconds: float = 20.0
    notebook_seconds: float = 60.0
    submission_seconds: float = 300.0
    memory_bytes: int = 2 << 30
    file_bytes: int = 32 << 20
    processes: int = 64


class Undefined(Wrong):
    """A function that the notebook does not define."""


class Unavailable(RuntimeError):
    """This machine cannot isolate a submission; the text says why and what to do."""


def check_isolation(command, user=""):
    """Raise `Unavailable` unless a worker starts on this machine, runs a cell and answers.

    Parameters
    ----------
    command : list of str
        What isolates it: `bubblewrap(...)`, or [] to trust it.
    user : str
        Whom it runs as, "" for the caller.
    """
    try:
        trial = Submission(["def one():\n    return 1"], Limits(), command, user)
        try:
            works = trial.function("one")() == 1
        finally:
            trial.close()
    except (OSError, Wrong) as error:
        said = subprocess.run([*command, "true"], capture_output=True, text=True, timeout=60).stderr if command else ""
        what = f"bubblewrap does not work here: {said}" if said else f"no worker starts here: {error}"
        if said and APPARMOR.is_file() and APPARMOR.read_text().strip() == "1":
            what += " (AppArmor may forbid it until it has a profile, which the page on grading shows)"
        raise Unavailable(f"{one_line(what)}. {WAY_OUT}") from None
    assert works


def bubblewrap(hidden=()):
    """The command that starts a process in isolation; parents are mounted before what lies in them.

    Parameters
    ----------
    hidden : sequence of paths
        Folders that are covered by empty ones where they would be in sight.

    Raises
    ------
    Unavailable
        If it is not installed.
    """
    if not shutil.which("bwrap"):
        raise Unavailable(f"bubblewrap (bwrap) is not installed. {WAY_OUT}")
    mounts = dict.fromkeys([Path("/usr"), Path(sys.prefix), Path(sys.base_prefix)], "--ro-bind")
    project = Path(__file__).resolve().parent
    covered = [project, Path.home(), *(Path(path).resolve() for path in hidden)]
    covered += [project.parent] if (project.parent / "pyproject.toml").is_file() else []
    # What is not below a mounted folder is out of sight without a cover.
    covers = [path for path in covered if path not in mounts and not mounts.keys().isdisjoint(path.parents)]
    mounts |= dict.fromkeys([*covers, Path("/tmp"), HOME], "--tmpfs")
    size = ["--size", str(64 << 20)] if "--size" in _options() else []  # of a file system in memory, from 0.7 on
    options = ["--unshare-all", "--die-with-parent", "--new-session", "--hostname", "homework", "--cap-drop", "ALL"]
    options += ["--unshare-user", "--disable-userns"] if "--disable-userns" in _options() else []  # from 0.8 on
    for path, kind in sorted(mounts.items(), key=lambda mount: len(mount[0].parts)):
        options += [*size, kind, path] if kind == "--tmpfs" else [kind, path, path]
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), path]
        elif path.is_dir():
            options += ["--ro-bind", path, path]
    for path in SETTINGS:
        options += ["--ro-bind-try", path, path]
    for name in ("worker.py", "values.py"):
        options += ["--ro-bind", project / name, INSIDE / name]
    library = Path(moe_lib.__file__).resolve().parent
    options += ["--ro-bind", library, INSIDE / "moe_lib", "--proc", "/proc", "--dev", "/dev"]
    options += [*size, "--tmpfs", "/dev/shm"]
    for path in (*covers, "/dev", "/proc", "/"):  # in /proc lie settings of the machine that root could write
        options += ["--remount-ro", path]
    options += ["--chdir", HOME]
    return ["bwrap", *map(str, options)]


@functools.cache
def _options():
    """What this bubblewrap says of its options."""
    known = subprocess.run(["bwrap", "--help"], capture_output=True, text=True)
    return known.stdout + known.stderr


class Worker:
    """One process that executed the cells of a notebook and calls its functions.

    Parameters
    ----------
    cells : list of str
        Sources of the code cells.
    limits : Limits
    command : list of str
        What isolates it: `bubblewrap(...)`, or [] to trust it.
    user : str
        Whom it runs as, "" for the caller; only root may choose.
    lost : dict
        {number of a cell: how often it ended the process}. Of a cell that did so once only the definitions are taken.

    Attributes
    ----------
    faults : dict
        {number of a cell: what went wrong in it}.
    cell : int or None
        The cell that was running last, None once all have run.
    """

    def __init__(self, cells, limits, command, user="", lost=()):
        self.cells, self.limits, self.lost = cells, limits, dict(lost)
        self.reason, self.deadline, self.cell, self.faults, self.calls = "", math.inf, None, {}, 0
        self.lines, self.closed = queue.Queue(maxsize=1), False  # no more is read than was asked for
        self.folder = None if command else _folder_for_anyone()
        script = (INSIDE if command else Path(self.folder.name)) / "worker.py"
        environment = {name: "1" for name in THREADS} | {"MPLBACKEND": "Agg", "PIP_NO_INDEX": "1", "LANG": "C.UTF-8"}
        environment |= {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
        environment |= {"HOME": str(HOME) if command else self.folder.name}
        change = {"user": user, "group": user_group(user), "extra_groups": []} if user else {}
        self.process = subprocess.Popen(
            [*command, sys.executable, "-I", str(script)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment, cwd=environment["HOME"] if self.folder else None, start_new_session=True, **change,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    def execute(self):
        """Run the cells of the notebook.

        Raises
        ------
        Stopped
            If it does not come to its end; `cell` then says where.
        """
        limits = self.limits
        task = {"cells": list(self.cells), "memory_bytes": limits.memory_bytes, "file_bytes": limits.file_bytes}
        task |= {"cell_seconds": limits.cell_seconds, "notebook_seconds": limits.notebook_seconds}
        task |= {"bare": [number for number, times in self.lost.items() if times == 1]}
        task |= {"skip": [number for number, times in self.lost.items() if times > 1]}
        self._send(task | {"processes": 8 * limits.processes}, START_SECONDS)
        message, end = self._receive(START_SECONDS, "did not start"), time.monotonic() + 1.5 * limits.notebook_seconds
        while True:
            match message:
                case {"cell": int(number)} if 0 <= number < len(self.cells):
                    self.cell = int(number)  # True is one, too
                case {"ready": dict(faults)}:
                    numbers = range(len(self.cells))
                    self.faults = {n: one_line(str(faults[str(n)])) for n in numbers if str(n) in faults}
                    self.cell = None
                    return
                case _:
                    raise Stopped("spoke out of turn")
            message = self._receive(min(limits.cell_seconds + 1, end - time.monotonic()), "ran for too long")

    def call(self, name, arguments, named):
        """What the function `name` of the notebook gives, and the arguments as it left them.

        Raises
        ------
        Wrong
            If it raised, or gave what cannot be graded.
        Stopped
            If the process did not come back; the worker is then of no more use.
        """
        self.calls, seconds = self.calls + 1, self.limits.call_seconds
        request = {"call": name, "arguments": encode(arguments), "named": encode(named), "number": self.calls}
        self._send(request, seconds)
        match self._receive(seconds, too_slow(seconds), self.calls):
            case {"value": value, "after": after}:
                try:
                    return decode(value), decode(after)
                except ValueError as error:
                    raise Wrong(str(error)) from None
            case {"fault": str(fault)}:
                raise Wrong(one_line(fault))
            case {"undefined": _}:
                raise Undefined("the notebook does not define it")
        raise Stopped("spoke out of turn")

    def _send(self, message, seconds):
        line = to_line(message, most_bytes=math.inf)
        self.deadline = time.monotonic() + seconds
        with contextlib.suppress(OSError):  # it has ended; reading says so
            self.process.stdin.write(line)
            self.process.stdin.flush()
        self.deadline = math.inf

    def _receive(self, seconds, too_long, number=None):
        """The next message; with `number` the next that bears it, so that no forged one is taken for another's."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(end - time.monotonic(), 0))
            except queue.Empty:
                self._end(too_long)
                raise Stopped(self.reason) from None
            if not line.endswith(b"\n"):
                otherwise = "gave too large an answer" if len(line) > MOST_BYTES else "ended the Python process"
                raise Stopped(self.reason or otherwise)
            try:
                message = from_line(line)
            except ValueError:
                raise Stopped("gave an answer that cannot be read") from None
            if number is None or type(message) is dict and message.get("number") == number:
                return message
            if time.monotonic() > end:
                self._end(too_long)

    def _read(self):
        """Hand on what the worker says, a line at a time, b"" at the end."""
        line = b"-"
        while line and not self.closed:
            line = self.process.stdout.readline(MOST_BYTES + 1)
            self.lines.put(line)

    def _watch(self):
        """End the worker when it does not listen, is too large, or too many."""
        while self.process.poll() is None:
            time.sleep(WATCH_SECONDS)
            family = self._family()
            if time.monotonic() > self.deadline:
                self._end("did not listen")
            elif len(family) > self.limits.processes:
                self._end(f"started more than {self.limits.processes} processes")
            elif sum(map(_resident, family)) > self.limits.memory_bytes:
                self._end(f"used more than {self.limits.memory_bytes / 1e9:.1f} GB of memory")

    def _family(self):
        """The processes that the worker started, and those that they started."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.Error:
            return []

    def _end(self, reason):
        self.reason = self.reason or reason
        self.close()

    def close(self):
        """End the worker and whatever it started."""
        self.closed = True
        left = [] if self.folder is None else [*self._family(), *_living_in(self.folder.name)]
        self.process.kill()  # under bubblewrap all go with it
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.process.wait()
        with contextlib.suppress(queue.Empty):
            self.lines.get_nowait()  # lets `_read` come to its end
        if self.folder:
            self.folder.cleanup()


def _living_in(folder):
    """Processes that have a folder as their home: they may have left the process that started them."""
    return [one for one in psutil.process_iter(["environ"]) if (one.info["environ"] or {}).get("HOME") == folder]


def user_group(user):
    """Number of a user's own group; ValueError where there is no such user, or none can be chosen."""
    try:
        import pwd

        return pwd.getpwnam(user).pw_gid
    except (ImportError, KeyError):
        raise ValueError(f"there is no user {user!r} on this machine") from None


def _folder_for_anyone():
    """A folder that another user can use too, with the two scripts that a worker needs and nothing else."""
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    for name in ("worker.py", "values.py"):
        shutil.copyfile(Path(__file__).parent / name, Path(folder.name, name))
    os.chmod(folder.name, 0o777)
    return folder


def _resident(process):
    """Bytes that a process holds; 0 if it is gone."""
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


class Submission:
    """The functions of one notebook, called in workers that are started anew when one is lost.

    Parameters
    ----------
    cells : list of str
        Sources of the code cells.
    limits : Limits
    command, user
        See `Worker`.

    Attributes
    ----------
    faults : dict
        {number of a cell: a sentence on what went wrong in it}, known once a function was called.
    """

    def __init__(self, cells, limits, command, user=""):
        self.cells, self.limits, self.command, self.user = cells, limits, command, user
        self.faults, self.lost, self.times, self.worker, self.failure = {}, {}, Counter(), None, ""
        self.end = time.monotonic() + limits.submission_seconds

    def function(self, name):
        """A function that answers as the notebook's does: it returns plain values, and changes its arguments alike."""
        return answering(name, functools.partial(self._ask, name))

    def _ask(self, name, arguments, named):
        if self.worker is None:
            self._start()
        try:
            value, after = self.worker.call(name, arguments, named)
        except Stopped:
            self.close()
            raise
        except Undefined as error:
            mentions = re.compile(rf"\b{name}\b\s*[(=]")
            stopped = [n for n, fault in sorted(self.faults.items()) if mentions.search(self.cells[n])]
            because = f": {self.faults[stopped[0]]}" if stopped else ""
            raise Wrong(f"{error}{because}") from None
        if type(after) is tuple and len(after) == len(arguments):
            for argument, changed in zip(arguments, after, strict=True):
                _put_back(argument, changed)
        return value

    def _start(self):
        """Execute the notebook, without the cells that end the process."""
        while self.worker is None:
            if time.monotonic() > self.end:
                self.failure = self.failure or f"it took more than {self.limits.submission_seconds:g} s in all"
            if self.times.total() > 2 * MOST_LOST_CELLS:
                self.failure = "; ".join(self.lost.values())
            if self.failure:
                raise Stopped(f"the notebook cannot be executed: {self.failure}")
            bare = range(len(self.cells)) if self.times.total() > MOST_LOST_CELLS else ()
            worker = Worker(self.cells, self.limits, self.command, self.user, lost=dict.fromkeys(bare, 1) | self.times)
            try:
                worker.execute()
            except Stopped as error:
                worker.close()
                if worker.cell is None:
                    self.failure = f"it {error}"
                else:
                    self.times[worker.cell] += 1
                    self.lost[worker.cell] = f"{self._cell(worker.cell)} {error}"
            else:
                self.worker = worker
                stopped = {number: f"{self._cell(number)} stopped: {why}" for number, why in worker.faults.items()}
                self.faults = stopped | self.lost

    def _cell(self, number):
        """A cell as its author would find it: by its first line, as notebooks do not show the number."""
        first = next(filter(str.strip, self.cells[number].splitlines()), "").strip().replace("`", "'")
        return f"code cell {number + 1}, `{one_line(first, LONGEST_START)}`,"

    def close(self):
        """End the worker, if there is one."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None


def _put_back(argument, changed):
    """Do to an argument what the function did to its copy."""
    if isinstance(argument, np.ndarray) and isinstance(changed, np.ndarray) and argument.shape == changed.shape:
        if argument.flags.writeable:
            argument[...] = changed.astype(argument.dtype)
    elif isinstance(argument, list) and isinstance(changed, list):
        argument[:] = changed
