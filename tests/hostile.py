"""A class of submissions that a grader must survive: of hostile students and of unlucky ones, with their fair points.

`kinds(...)` are all of them, `write(folder, kinds)` puts them into a folder. A question that a kind must lose earns
nothing, all others must earn full points. They fit any homework whose answers are functions and a few words.
"""

import ast
import inspect
import json
import os
from dataclasses import dataclass

import nbformat
from conftest import ROOT

from moe_homework.hw1 import HOMEWORK, solutions

NOTEBOOK = ROOT / "notebooks" / "homework" / HOMEWORK.notebook
FUNCTIONS = tuple(HOMEWORK.functions)
QUESTION = {function: question.name for function, question in HOMEWORK.functions.items()}
ALL = tuple(QUESTION.values())
WORDS = tuple(question.name for question in HOMEWORK.questions if question.function is None)
FIRST, SECOND = FUNCTIONS[:2]
MARK = "left-by-a-submission"  # in the name of every file that a hostile cell writes where it can
SECRET = "what-only-the-grader-knows"  # lies in the decoy home and in the grader's environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A submission: `content` is its bytes or what makes the file; `lost` are the questions that earn nothing."""

    file: str
    what: str
    content: object
    lost: tuple = ()
    student: str = ""

    @property
    def name(self):
        """Of the student."""
        return self.student or self.file.rpartition(".")[0]


def write(folder, kinds):
    """Put submissions into a folder."""
    for kind in kinds:
        path = folder / kind.file
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(kind.content):
            kind.content(path)
        else:
            path.write_bytes(kind.content)


# Notebooks

MODULE = ast.parse(inspect.getsource(solutions)).body[1:]
SHARED = "\n".join(ast.unparse(node) for node in MODULE if getattr(node, "name", None) not in FUNCTIONS)
RIGHT = {name: f"{SHARED}\n\n\n{inspect.getsource(getattr(solutions, name))}" for name in FUNCTIONS}
HOLDS = "import functools\n{0} = functools.partial({0}, **{1})"  # a constant of another variant


def right(variant):
    """{function: source of the reference solution} of a variant."""
    sources = {}
    for name in FUNCTIONS:
        taken = inspect.signature(getattr(solutions, name)).parameters
        values = {key: value for key, value in HOMEWORK.values(variant).items() if key in taken}
        sources[name] = f"{RIGHT[name]}\n{HOLDS.format(name, values)}"
    return sources


WRONG = {name: f"def {name}(*inputs):\n    return 0.123" for name in FUNCTIONS}


def code(source):
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def filled(answers=(), *, before=(), after=(), whole=False, words="It depends."):
    """The homework's notebook with answers in it, as a dict.

    Parameters
    ----------
    answers : dict
        {function: source of its cell} of those that are not the reference solution.
    before, after : sequence of str
        Sources of further cells.
    whole : bool
        With figures and texts; without, only the set-up, answers and checks are left, which run faster.
    words : str
        Answer to each question in words.
    """
    notebook, sources, cells = json.loads(NOTEBOOK.read_text(encoding="utf-8")), RIGHT | dict(answers), []
    for cell in notebook["cells"]:
        question, _, part = cell["id"].partition("-")
        if part == "answer" and question in WORDS:
            cell["source"] = f"**Your answer to {question}**\n\n{words}\n"
        elif part == "answer":
            cell["source"] = sources[HOMEWORK.question(question).function]
        if whole or part in ("answer", "check") or question == "setup":
            cells.append(cell)
    return notebook | {"cells": [*map(code, before), *cells, *map(code, after)]}


def packed(notebook):
    return json.dumps(notebook).encode()


def program(mark, answers=()):
    """The answers as a Python file; `mark` stands before each part."""
    parts = ["import numpy as np\n", *(RIGHT | dict(answers)).values()]
    return "".join(f"{mark}{part}\n" for part in parts).encode()


def kind(student, what, answers=(), lost=(), **options):
    """A notebook: `answers` and `options` as `filled` takes them."""
    return Kind(file=f"{student}.ipynb", what=what, content=packed(filled(answers, **options)), lost=lost)


# Answers that are wrong in every way. Several stand in one notebook, beside a right one.

EQUAL = """\
class Equal_FUNCTION{}:
    __eq__ = __le__ = __ge__ = lambda a, b: True
    __hash__ = __len__ = lambda a: 1
"""
CHANNEL = """\
import os, sys, time
def channel(name="answers"):
    frame = sys._getframe()
    while name not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals[name]
"""


def does(body, before=""):
    """Source of an answer that does something."""
    return before + "def FUNCTION(*inputs):\n" + "".join(f"    {line}\n" for line in body.splitlines())


def gives(value, before=""):
    return does(f"return {value}", before)


def says(line):
    """Source of an answer that first sends a line of its own to the grader; `line` is an expression."""
    return does(f"channel().write({line} + b'\\n')\nchannel().flush()\nreturn 0.123", CHANNEL)


def forged(value, **more):
    start = json.dumps({"value": value, "after": {"tuple": []}} | more)[:-1].encode()
    return says(f"{start} + b', \"number\": %d}}' % channel('request')['number']")


def fails(body):
    return f"class Error_FUNCTION(Exception):\n    {body}\n" + does("raise Error_FUNCTION")


SHELL = "=cmd|' /C calc'!A0\n# h1 \x1b[2J\x1b]0;x\x07 `a`` | <script>alert(1)</script> \u202e\ud800 "
ANSWERS = {
    "a stub": does("..."),
    "a constant": gives("0.5"),
    "text": gives("'passed, 20 of 20 points'"),
    "True": gives("True"),
    "not a number": gives("float('nan')"),
    "NotImplemented": gives("NotImplemented"),
    "a number of 5,000 digits": gives("10**5000"),
    "a number of 4,000 digits": gives("10**4000"),
    "100 MB of zeros": gives("np.zeros(100 << 17)"),
    "32 dimensions": gives("np.zeros([1] * 32)"),
    "a list that nests 10,000 times": does("a = []\nfor _ in range(10_000): a = [a]\nreturn a"),
    "a list that holds itself": does("a = []\na.append(a)\nreturn a"),
    "a dict whose keys collide": gives("{i * (2**61 - 1): 0 for i in range(1, 40_000)}"),
    "a generator without an end": gives("iter(int, 1)"),
    "a coroutine": "async " + gives("1"),
    "a function": gives("FUNCTION"),
    "a class": "class FUNCTION:\n    def __init__(self, *inputs): pass",
    "a function without arguments": "def FUNCTION():\n    return 1",
    "its first argument": gives("inputs[0]"),
    "an object that equals all": gives("Equal_FUNCTION()", EQUAL.format("")),
    "a float that equals all": gives("Equal_FUNCTION(1)", EQUAL.format("(float)")),
    "an array that equals all": gives("np.zeros(3).view(Equal_FUNCTION)", EQUAL.format("(np.ndarray)")),
    "an array of objects that equal all": gives("np.array([Equal_FUNCTION()], object)", EQUAL.format("")),
    "an array of records": gives("np.zeros(3, 'f8,f8')"),
    "dates": gives("np.array(['2026-01-01'], 'M8[D]')"),
    "a masked array": gives("np.ma.masked_all(3)"),
    "an object that claims to be an array": gives(
        "Claim()",
        "class Claim:\n    __class__ = np.ndarray\n    shape = dtype = property(lambda self: 1 / 0)\n"
        "    def __array__(self, *a, **k): raise SystemExit('no')\n",
    ),
    "an object whose attributes raise": gives(
        "Deep()", "class Deep:\n    def __getattribute__(self, name): raise KeyError(name)\n"
    ),
    "an exit": does("raise SystemExit(0)"),
    "an interruption": does("raise KeyboardInterrupt"),
    "an exception of 100 MB": does("raise ValueError('x' * 100_000_000)"),
    "an exception for terminals, spreadsheets and pages": does(f"raise ValueError({ascii(SHELL * 9)})"),
    "an exception without a text": fails("def __str__(self): raise self"),
    "an exception with a name of 1 MB": does("raise type('E' * 1_000_000, (Exception,), {})"),
    "an exception with 10,000 causes": does(
        "error = None\nfor _ in range(10_000):\n    cause, error = error, ValueError()\n"
        "    error.__cause__ = cause\nraise error"
    ),
    "an exception that lies about its class": fails("__class__ = property(lambda self: 1 / 0)"),
    "a recursion": gives("FUNCTION()"),
    "more memory than there is": gives("bytearray(10**12)"),
    "memory bit by bit": does("kept = []\nwhile True: kept.append(bytes(50_000_000))"),
    "a forged answer of an unknown dtype": forged({"array": "", "dtype": "<f3", "shape": [0]}),
    "a forged answer that evaluates": forged({"array": "", "dtype": ",()", "shape": [0]}),
    "a forged key without a hash": forged({"dict": [[{"tuple": [{"list": []}]}, {"value": 1}]]}),
    "a forged True of the byte 255": forged({"scalar": "/w==", "dtype": "|b1", "shape": []}),
    "a forged long double of ones": forged({"scalar": "/" * 21 + "w==", "dtype": "<f16", "shape": []}),
    "arguments that it claims to have changed": forged({"value": 0.123}, after={"tuple": [{"list": []}] * 3}),
    "an array that a thread fills later": does(
        "late = np.zeros(3)\nthreading.Timer(0.3, late.fill, [1]).start()\nreturn late", "import threading\n"
    ),
    "a second answer": says(b'{"fault": ""}'),
    "brackets of 3 MB": says("b'[' * 3_000_000"),
    "objects of 4 MB": says("b'[' + b'{},' * 1_300_000 + b'1]'"),
    "bytes that are no text": says(b"\xff\xfe\x00"),
    "a report of a cell": says(b'{"cell": 0}'),
    "a grade of its own": forged({"value": True}, points=20, passed=True),
}
STOPS = {
    "an endless loop": does("while True: pass"),
    "an endless loop that catches all": does(
        "while True:\n    try: time.sleep(9)\n    except BaseException: pass", "import time\n"
    ),
    "a loop that never comes back to Python": gives("sum(iter(int, 1))"),
    "an end of the process": does("os._exit(0)", "import os\n"),
    "a kill of itself": does("os.kill(os.getpid(), 9)", "import os\n"),
    "a halt of itself": does("os.kill(os.getpid(), signal.SIGSTOP)", "import os, signal\n"),
    "a crash": does("ctypes.string_at(0)", "import ctypes\n"),
    "a stack without an end": does("sys.setrecursionlimit(10**9)\nFUNCTION()", "import sys\n"),
    "an exception that takes for ever to show": fails("__str__ = lambda self: __import__('time').sleep(99)"),
    "closed files": does("os.closerange(0, 99)\ntime.sleep(99)", "import os, time\n"),
    "a flood": does("while True: channel().write(b'x' * 65536)", CHANNEL),
    "a flood of lines": does("while True: channel().write(b'{}\\n' * 9999)", CHANNEL),
    "a drip": does("while True:\n    channel().write(b'1')\n    channel().flush()\n    time.sleep(0.1)", CHANNEL),
    "requests that it reads itself": gives("channel('requests').readline()", CHANNEL),
    "forks without an end": does("while True:\n    try: os.fork()\n    except OSError: pass", "import os\n"),
    "processes that fill the memory": does(
        "for _ in range(30):\n    if not os.fork(): kept = b'x' * 300_000_000 + bytes(time.sleep(60))\ntime.sleep(60)",
        "import os, time\n",
    ),
    "maps that fill the memory": does(
        "kept = []\nwhile True:\n    try:\n        kept.append(mmap.mmap(-1, 1 << 26))\n"
        "        kept[-1].write(b'x' * (1 << 26))\n    except Exception: time.sleep(1)",
        "import mmap, time\n",
    ),
}


def answer_kinds():
    """Notebooks of wrong answers; the last question of each is right."""
    made, most = [], len(FUNCTIONS) - 1
    for title, answers in (("wrong", ANSWERS), ("stopped", STOPS)):
        for start in range(0, len(answers), most):
            batch = list(answers)[start : start + most]
            wrong = {
                name: answers[what].replace("FUNCTION", name) for name, what in zip(FUNCTIONS, batch, strict=False)
            }
            lost = tuple(QUESTION[name] for name in wrong)
            made.append(kind(f"{title} {1 + start // most}", ", ".join(batch), wrong, lost))
    return made


# Notebooks whose answers are wrong and that tamper with what might grade them.

WORKER = """\
import json, sys
main, values = sys.modules["__main__"], sys.modules["values"]
true = {"value": {"value": True}, "after": {"tuple": []}, "points": 20, "passed": True}
"""
TAMPERING = {
    "patches numpy and its tests": (
        "import builtins, numpy.testing\nsame = lambda *a, **k: np.array(True)\n"
        "for name in ('assert_array_equal', 'assert_allclose', 'assert_equal'): setattr(numpy.testing, name, same)\n"
        "for name in ('isclose', 'allclose', 'array_equal', 'equal', 'all'): setattr(np, name, same)\n"
        "builtins.AssertionError = builtins.abs = same"
    ),
    "silences errors": "get_ipython().showtraceback = get_ipython().showsyntaxerror = lambda *a, **k: None",
    "patches what encodes values": WORKER + "main.encode = values.encode = lambda value, depth=0: {'value': True}",
    "patches json": WORKER + "text = json.dumps(true)\njson.dumps = lambda *a, **k: text",
    "patches what answers": WORKER + "main.answer = lambda *a: true",
    "answers in the worker's place": CHANNEL
    + (
        'import json\nchannel().write(b\'{"ready": {}, "points": 20}\\n\')\nchannel().flush()\n'
        "for line in channel('requests'):\n"
        "    true = {'value': {'value': True}, 'after': {'tuple': []}, 'number': json.loads(line)['number']}\n"
        "    channel().write(json.dumps(true).encode() + b'\\n')\n    channel().flush()"
    ),
    "looks for the answers in the worker's memory": (
        "import gc, inspect\nseen = [o for o in gc.get_objects() if isinstance(o, dict) and 'gives' in o]\n"
        "seen += [f.frame.f_locals for f in inspect.stack() if 'gives' in f.frame.f_locals]\n"
        "def find(*inputs): return seen[0]['gives'] if seen else 0.123\n" + "".join(f"{f} = find\n" for f in FUNCTIONS)
    ),
    "imports the reference solutions": (
        f"from moe_homework.{HOMEWORK.name} import HOMEWORK, solutions\n"
        + "".join(f"{name} = solutions.{name}\n" for name in FUNCTIONS)
    ),
    "names its functions otherwise": "".join(f"my_{name} = {name}\ndel {name}\n" for name in FUNCTIONS),
    "sets its functions to numbers": "".join(f"{name} = 20\n" for name in FUNCTIONS),
    "reports cells that there are not": CHANNEL
    + ("for cell in (-1, 10**9, 1.5, 'x', None, True):\n    channel().write(b'{\"cell\": %r}\\n' % cell)"),
    "reports 200,000 faults": CHANNEL
    + (
        "faults = ','.join(f'\"{number}\": [[\"x\"]]' for number in range(200_000))\n"
        "channel().write(b'{\"ready\": {' + faults.encode() + b'}}\\n')\nchannel().flush()"
    ),
}


def tampering_kinds():
    made = [kind(f"tampers {n}", what, WRONG, ALL, after=[do]) for n, (what, do) in enumerate(TAMPERING.items(), 1)]
    text = [cell | {"cell_type": "markdown"} for cell in filled()["cells"]]
    what = "has its answers in cells of text"
    return [*made, Kind(file="text.ipynb", what=what, content=packed(filled() | {"cells": text}), lost=ALL)]


# Notebooks whose answers are right and that do mischief beside them. What they get hold of costs them all points.

SPOIL = f"if found:\n    {' = '.join(FUNCTIONS)} = lambda *inputs: found\n"
READ = """\
import os
found = [path for path in {hidden} if os.path.exists(path)]
for path, folders, files in os.walk("/"):
    found += [path] if "{secret}" in str(files) else []
    if path.count("/") > 3: folders.clear()
processes = list(filter(str.isdigit, os.listdir("/proc")))
for process in processes:
    for name in ("environ", "cmdline"):
        try: found += [process] if b"{secret}" in open(f"/proc/{{process}}/{{name}}", "rb").read() else []
        except OSError: pass
found += processes if len(processes) > 9 else []
"""
CALL = """\
import socket
found = []
for family, address in {addresses}:
    line = socket.socket(family)
    line.settimeout(0.3)
    try:
        line.connect(address)
        line.send(b"hello")
        found.append(address)
    except OSError: pass
"""
WRITE = f"""\
import os, subprocess
found = []
subprocess.run("mount -o remount,rw,bind /usr; umount /tmp; chmod 777 /usr /homework", shell=True)
for folder, folders, _ in os.walk("/"):
    if folder.count("/") > 3 or folder == "/proc": folders.clear()
    try: open(os.path.join(folder, "{MARK}"), "w").write("x")
    except OSError: pass
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/homework/worker.py", "/usr/bin/env"):
    try:
        os.close(os.open(path, os.O_WRONLY))
        found.append(path)
    except OSError: pass
"""
UNCOUNTED = """\
import ctypes, os, platform
found, known = [], platform.machine() in ("x86_64", "aarch64")
try: found += [os.memfd_create("x")] if known else []
except OSError: pass
found += [1] if known and ctypes.CDLL(None).shmget(0, ctypes.c_size_t(1 << 30), 0o1600) >= 0 else []
"""
FILL = """\
import os
for folder in (os.path.expanduser("~"), "/tmp", "/dev/shm"):
    try:
        for number in range(9999): open(f"{folder}/{number}", "wb").write(b"x" * 20_000_000)
    except OSError: pass
"""
LEAVE = """\
import atexit, ctypes, os, signal, subprocess, threading, time
subprocess.Popen(["sleep", "97"], start_new_session=True)
if not os.fork():
    os.setsid()
    if not os.fork():
        for number in {*signal.valid_signals()} - {9, 19}: signal.signal(number, signal.SIG_IGN)
        ctypes.CDLL(None).prctl(15, b") R 1 (")
        time.sleep(98)
    os._exit(0)
atexit.register(time.sleep, 99)
threading.Thread(target=time.sleep, args=(99,)).start()
"""
KILL = """\
import os
for process in (-1, 1, os.getppid()):
    for signal in (15, 19, 9):
        try: os.kill(process, signal)
        except OSError: pass
"""
WATCH = """\
import gc, sys, threading
for watch in (sys.settrace, sys.setprofile, threading.settrace): watch(lambda *a: None)
gc.callbacks.append(lambda *a: None)
sys.excepthook = sys.unraisablehook = sys.displayhook = None
sys.stdin.close()
"""
DEAF = (
    "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nsignal.signal(14, signal.SIG_IGN)"
)
ASKS = "while True:\n    try:\n        if int(input('your age: ')) > 0: break\n    except: print('once more')"
LOOP = "while True: pass"


def mischief_kinds(hidden, addresses):
    read, call = READ.format(hidden=hidden, secret=SECRET), CALL.format(addresses=addresses)
    return [
        kind("reads", "looks for tests, solutions, others' files and processes", after=[read, SPOIL]),
        kind("calls", "looks for a network and for sockets of the machine", after=[call, SPOIL]),
        kind("writes", "writes wherever it can, and mounts", after=[WRITE, SPOIL]),
        kind("hides memory", "asks for memory that belongs to no process", after=[UNCOUNTED, SPOIL]),
        kind("fills", "fills every file system", after=[FILL]),
        kind("leaves", "leaves processes, a daemon and a thread", before=[LEAVE]),
        kind("kills", "ends every process that it sees", before=[KILL]),
        kind("watches", "traces calls, replaces hooks and files", before=[WATCH]),
        kind("hangs", "has cells that never end", before=[LOOP, "import time\ntime.sleep(99)"], after=[LOOP]),
        kind("hangs deaf", "never ends with all signals blocked", before=[DEAF, LOOP]),
        kind("asks", "asks until the answer is a number, below an answer", {FIRST: f"{RIGHT[FIRST]}\n{ASKS}"}),
        kind(
            "exits",
            "ends Python in cells",
            before=["import os\nos._exit(0)"],
            after=["import ctypes\nctypes.string_at(0)"],
        ),
        kind("exits often", "ends Python in seven cells", after=["import os\nos._exit(0)"] * 7),
        kind("cuts", "closes all files in a cell", before=["import os\nos.closerange(0, 256)"]),
        kind("prints", "prints 100 MB", before=["for _ in range(100): print('x' * 1_000_000)"]),
        kind("many", "has 2,000 more cells, half of them wrong", after=["x = 1", "undefined"] * 1000),
    ]


# Bad luck, and habits of students and their editors. Most must get full points.

MAGICS = (
    "%matplotlib inline\n!ls -la\n%pip install something\nfiles = !ls\nnp.sum?\n%timeit -n 1 -r 1 1 + 1\n"
    "%load_ext autoreload\n%autoreload 2\nprint(files)"
)
PLOTS = (
    "import matplotlib.pyplot as plt\nimport seaborn as sns\nsns.set_theme()\nfigure, axes = plt.subplots(1, 2)\n"
    "axes[0].plot([1, 2])\nplt.savefig('plot.png')\nfrom mpl_toolkits import mplot3d\nplt.show()"
)
BETWEEN = (
    "from IPython.display import display, HTML\ndisplay(HTML('<b>done</b>'))\nimport asyncio\nawait asyncio.sleep(0)\n"
    "name = input('name? ')\nraise ValueError(int(input()))"
)
SPREAD = (
    '=HYPERLINK("x")\x1b[31m\ud800\x00\n\n# q1\n\n```\n</script><script>alert(1)</script>\n| a | b |\n'
    + "long " * 100_000
)


FORMS = {
    "lists": "x.tolist()",
    "numbers of another byte order": "x.astype('>f8')",
    "long doubles": "x.astype(np.longdouble)",
    "arrays without dimensions": "np.array(x)",
}


def changed(name, answer):
    """An answer whose right value is changed by an expression of x."""
    kept = f"\nright_{name} = {name}\n\n\ndef {name}(*inputs):\n"
    return f"{RIGHT[name]}{kept}    x = np.asarray(right_{name}(*inputs))\n    return {answer}"


def luck_kinds():
    first, second, notebook = (QUESTION[FIRST],), (QUESTION[SECOND],), filled()
    cells = notebook["cells"]
    without = [cell for cell in cells if not cell.get("id", "").startswith(f"{second[0]}-")]
    lines = [cell | {"source": "".join(cell["source"]).splitlines(keepends=True)} for cell in cells]
    windows = [cell | {"source": "".join(cell["source"]).replace("\n", "\r\n")} for cell in cells]
    outputs = [{"output_type": "stream", "name": "stdout", "text": "x" * 5_000_000}]
    large = [cell | ({"outputs": outputs} if cell["cell_type"] == "code" else {}) for cell in cells[:2]] + cells[2:]
    old = nbformat.convert(nbformat.from_dict(filled()), 3)
    broken = {FIRST: RIGHT[FIRST] + "\n    return (\n"}
    forms = {name: changed(name, form) for name, form in zip(FUNCTIONS, FORMS.values(), strict=False)}
    fails, timed, file = (RIGHT[name] for name in FUNCTIONS[:3])
    habits = zip(
        FUNCTIONS, [f"1 / 0\n{fails}\nassert False", f"%%time\n{timed}", f"%%writefile own.py\n{file}"], strict=False
    )

    def of(file, what, content, lost=()):
        return Kind(file=file, what=what, content=content if isinstance(content, bytes) else packed(content), lost=lost)

    return [
        kind("good", "is right, with all figures and texts", whole=True, words=SPREAD),
        kind("wrong one", "has one wrong answer", {SECOND: WRONG[SECOND]}, second),
        kind("syntax error", "has an answer that does not compile", broken, first),
        kind("forms", f"answers with {', '.join(FORMS)}", forms),
        kind(
            "habits",
            "has answers behind a line that fails, under magics and in a file",
            dict(habits),
            before=[MAGICS],
            after=[f"from own import {FUNCTIONS[2]}"],
        ),
        kind("plots", "draws with packages that are not here", before=[PLOTS, BETWEEN]),
        kind("later", "uses names before the cell that sets them", {FIRST: f"y = z\n{RIGHT[FIRST]}"}, after=["z = 1"]),
        kind("data", "holds 5 MB of data in a cell", before=[f"data = '{'x' * 5_000_000}'"]),
        of("reversed.ipynb", "has its cells in reverse", notebook | {"cells": cells[::-1]}),
        of("missing.ipynb", "lacks the cells of a question", notebook | {"cells": without}, second),
        of("sources.ipynb", "has sources as lists of lines", notebook | {"cells": lines}),
        of("windows.ipynb", "has line ends of Windows", packed(notebook | {"cells": windows}).replace(b"\n", b"\r\n")),
        of("outputs.ipynb", "holds 10 MB of outputs", notebook | {"cells": large}),
        of("mark.ipynb", "begins with a byte order mark", b"\xef\xbb\xbf" + packed(notebook)),
        of("no metadata.ipynb", "has no metadata", notebook | {"metadata": None, "cells": [None, 1, *cells]}),
        of("version 2.ipynb", "is of nbformat 2", old | {"nbformat": 2, "nbformat_minor": 0}),
        of("version 3.ipynb", "is of nbformat 3", old),
        of("version 5.ipynb", "is of a format to come", notebook | {"nbformat": 5}),
        of(
            "program.py",
            "is a program without marks",
            program("\n\n") + b"\n\nif __name__ == '__main__':\n    input()\n    1 / 0\n",
        ),
        of("marked.py", "is a program with marks", b"\xef\xbb\xbf" + program("# %% next\n").replace(b"\n", b"\r\n")),
        of("exported.py", "is exported from a notebook", program("# In[ ]:\n\n\n")),
        of("broken.py", "is a program with one function that does not compile", program("\n\n", broken), first),
        of(
            "breaks.py",
            "is a broken program with 100,000 empty lines",
            program("\n\n", broken) + b" \n" * 100_000 + b"#",
            first,
        ),
        Kind(file=f"edith/{HOMEWORK.notebook}", what="has a folder", content=packed(notebook), student="edith"),
    ]


# Files: names that mean something elsewhere, and what is no notebook at all.

NAMES = {
    "Żółć 日本 🦉.ipynb": "",
    "...ipynb": "",
    "-rf.ipynb": "",
    "=cmd|calc!A0.ipynb": "",
    "'t Hooft.ipynb": "",
    "a`b|c<b>;$(touch x).ipynb": "",
    "new\nline\x1b[31m\r.ipynb": "new%0Aline%1B[31m%0D",
    "(1).ipynb": "",
    "My homework, FINAL (new).ipynb": "",
    "\udcff\udcfe.ipynb": "%FF%FE",
    "x" * 200 + ".ipynb": "",
    "x" * 199 + "y.ipynb": "",
    "𝒳" * 50 + "@" * 40 + ".ipynb": "",
    "twice.ipynb": "",
    "%74wice.ipynb": "",
    "COPY (2).ipynb": "COPY",
}


def name_kinds():
    """The first few are right; the others hold nothing, because that is quick."""
    right, made = packed(filled()), []
    for number, (file, student) in enumerate(NAMES.items()):
        content, lost = (right, ()) if number < 4 else (b"", ALL)
        made.append(Kind(file=file, what="has an odd name", content=content, lost=lost, student=student))
    return made


def newest(path):
    """A right notebook, the newest of three files of a student."""
    path.write_bytes(packed(filled()))
    for number, content in enumerate((b"", packed(filled(WRONG))), 1):
        older = path.with_name(f"{path.stem} ({number}).ipynb")
        older.write_bytes(content)
        os.utime(older, (number, number))


def unreadable(path):
    path.write_bytes(packed(filled()))
    path.chmod(0)


def file_kinds(hidden):
    good = packed(filled())
    kernel = {"kernelspec": {"name": "ir", "language": "R", "display_name": "| # R\x1b[31m"}}
    other = {"kernelspec": {"name": "x", "language": "\n# x\x1b[31m |" * 9, "display_name": "x"}}
    contents = {
        "empty": b"",
        "white": b"\xef\xbb\xbf \n\n",
        "cut": good[: len(good) // 2],
        "number": b"5",
        "list": b"[]",
        "nested": b'{"cells": ' + b"[" * 100_000,
        "digits": b"9" * 10_000,
        "picture": b"\x89PNG\r\n\x1a\n\x00\xff",
        "page": b"<html>",
        "no cells": b'{"nbformat": 4, "metadata": {}}',
        "no code": b'{"nbformat": 4, "cells": []}',
        "UTF-16": good.decode().encode("utf-16"),
        "cells that are none": b'{"nbformat": 4, "cells": {"a": 1}}',
        "worksheets": b'{"nbformat": 3, "worksheets": [5]}',
        "R": packed(filled() | {"metadata": kernel}),
        "other": packed(filled() | {"metadata": other}),
    }
    files = [Kind(file=f"{name}.ipynb", what=f"is {name}", content=text, lost=ALL) for name, text in contents.items()]
    programs = {
        "comments": b"# nothing\n" * 9,
        "words": b"I could not do it.\n",
        "null": b"x = 1\x00\n",
        "deep": b"x = " + b"(" * 9999,
    }
    files += [Kind(file=f"{name}.py", what=f"is {name}", content=text, lost=ALL) for name, text in programs.items()]
    makers = {
        "pipe": os.mkfifo,
        "folder": lambda path: path.mkdir(),
        "link": lambda path: path.symlink_to(hidden[0]),
        "endless": lambda path: path.symlink_to("/dev/zero"),
        "large file": lambda path: path.touch() or os.truncate(path, 1 << 40),
        "circle": lambda path: path.symlink_to(path.name),
    }
    files += [Kind(file=f"{name}.ipynb", what=f"is a {name}", content=make, lost=ALL) for name, make in makers.items()]
    files.append(Kind(file="newest.ipynb", what="is the newest of three", content=newest))
    lost = ALL if os.geteuid() else ()  # root reads everything
    return [*files, Kind(file="locked.ipynb", what="is unreadable", content=unreadable, lost=lost)]


def kinds(hidden=(), addresses=()):
    """All of them.

    Parameters
    ----------
    hidden : sequence of str
        Paths that no submission may see.
    addresses : sequence of (int, address)
        Families and addresses of sockets that no submission may reach.
    """
    mischief = mischief_kinds(list(map(str, hidden)), list(addresses))
    return [*answer_kinds(), *tampering_kinds(), *mischief, *luck_kinds(), *name_kinds(), *file_kinds(hidden)]
