"""What a reader can move: `workshop`, `memory_bill`, `wall`, `coverage`, `speculation`, `roofline`, `context`,
`chunks`, `measured`, `offloading`, `parallel`, `balance`, `plan`, `predict`.

A notebook cell ends in one line, such as ``controls.workshop()``; `two_faces` shows it live in JupyterLab and as an
in-page chart everywhere else.
"""

from ..two_faces import predict
from .page_00 import workshop
from .page_01 import memory_bill
from .page_02 import coverage, speculation, wall
from .page_03 import roofline
from .page_04 import chunks, context
from .page_05 import measured
from .page_06 import offloading
from .page_07 import parallel
from .page_08 import balance
from .page_09 import plan

__all__ = [
    "balance", "chunks", "context", "coverage", "measured", "memory_bill", "offloading", "parallel", "plan",
    "predict", "roofline", "speculation", "wall", "workshop",
]
