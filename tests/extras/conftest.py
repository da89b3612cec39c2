"""Where there is no GPU, Triton interprets its kernels; it reads so when they are first imported."""

import os

try:
    import torch
except ImportError:
    torch = None

if torch is None or not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
