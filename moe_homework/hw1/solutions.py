"""Reference solutions of homework 1. A constant of the questions is a keyword with its value in variant 0."""

import numpy as np


def share_read(num_experts, top_k, batch, *, shared=2):
    """Share of all experts, shared ones among them, that a step reads."""
    routed = num_experts * (1 - (1 - np.divide(top_k, num_experts)) ** np.asarray(batch))
    return (routed + shared) / (num_experts + shared)
