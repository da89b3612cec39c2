"""What a benchmark hands over: a record that says on what it was measured, and when."""

from datetime import UTC, datetime

import numpy as np

from ..records import Record


def record(machine, what, data, *, routing=""):
    """A `Record` of kind "measured" with this machine's description."""
    numbers = {key: np.asarray(value).tolist() if isinstance(value, np.generic | np.ndarray) else value
               for key, value in data.items()}
    return Record(kind="measured", what=what, on=machine.on, by="moe_lib.bench", software=machine.software,
                  routing=routing, when=datetime.now(UTC).isoformat(timespec="seconds"), data=numbers)
