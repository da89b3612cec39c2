"""Controls of page 04: context, cache, chunks."""

import functools
import itertools

import numpy as np

from .. import charts
from ..hardware import DEVICES, devices_needed
from ..models import dense_twin
from ..roofline import compute_bound_batch, step_time
from ..steps import context_of_equal_bytes, context_of_equal_flops, decode_step, prefill, resident_bytes
from ..two_faces import Choice, TwoFaces
from .choices import WEIGHT_BYTES, Models, amount, dtype_of, numbered, precision_choice, step_of

CONTEXT_MODELS = ("deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b", "qwen1.5-moe", "gpt-oss-120b",
                  "glm-5.2", "qwen3.6-35b-a3b", "minimax-text-01", "gemma-4-26b-a4b")
CONTEXT_BATCHES = [2**power for power in range(11)]
CONTEXTS = {f"{2**(power - 10):,}k" if power < 20 else "1M": 2**power for power in range(10, 21)}
LINE_CONTEXTS = np.rint(2 ** np.arange(10, 20.5, 0.5)).astype(int)


def tokens_words(count):
    return ("any context" if count == 0 else charts.counted(count, "token")) if np.isfinite(count) else "never"


def context(config=None):
    """What a decode step reads: weights against the caches of its sequences, kept in BF16, as the context grows.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, added to the models and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> said = context().readout(model="deepseek-v3", precision="bf16", batch=1, context=131072)
    >>> print(said["Weights read"], "|", said["Cache read"], "|", said["As many bytes from"])
    73.3 GB | 9.21 GB | 1,042,395 tokens
    """
    models = Models(config)

    @functools.lru_cache(maxsize=8192)  # the page asks for each step once a readout
    def step(model, precision, batch, context=0):
        return decode_step(models[model], batch, weight_bytes=WEIGHT_BYTES[precision], context=context)

    def equal(model, precision, batch):
        return context_of_equal_bytes(models[model], batch, weight_bytes=WEIGHT_BYTES[precision])

    def tables(selection):
        contexts, cache, weights, crossing = np.union1d(LINE_CONTEXTS, selection["context"]), [], [], []
        for model, batch in itertools.product(selection["model"], selection["batch"]):
            read = decode_step(models[model], batch, context=contexts).kv_bytes_read / 1e9
            cache += charts.rows(model=model, batch=batch, context=contexts[read > 0], cache=read[read > 0])
            for precision in selection["precision"]:
                twin = step_of(dense_twin(models[model]), precision, batch).bytes_read / 1e9
                key = {"model": model, "precision": precision, "batch": batch}
                weights += charts.rows(**key, weights=step(**key).weight_bytes_read / 1e9, twin=twin)
                at = equal(**key)
                if contexts[0] <= at <= contexts[-1]:
                    crossing += charts.rows(**key, at=at, weights=weights[-1]["weights"])
        return {"cache": cache, "weights": weights, "equal": crossing}

    def time(model, precision, batch, context):
        of, device = models[model], DEVICES["h200"]
        held = resident_bytes(of, weight_bytes=WEIGHT_BYTES[precision], context=context, sequences=batch)
        needed = int(devices_needed(held, device))
        seconds = step_time(step(model, precision, batch, context), device, dtype_of(precision, "h200"), needed).lower
        return f"{charts.digits(1e3 * seconds)} ms on {needed:,} H200"

    def share(model, precision, batch, context):
        of = step(model, precision, batch, context)
        return f"{charts.digits(100 * of.kv_bytes_read / of.bytes_read)} %"

    readouts = {
        "Weights read": lambda model, precision, batch: amount(step(model, precision, batch).weight_bytes_read),
        "Cache read": lambda model, batch, context: amount(step(model, "bf16", batch, context).kv_bytes_read),
        "Cache in all bytes": share,
        "As many bytes from": lambda model, precision, batch: tokens_words(equal(model, precision, batch)),
        "As many FLOP from": lambda model: tokens_words(context_of_equal_flops(models[model])),
        "Takes at least": time,
    }
    choices = [models.choice(CONTEXT_MODELS, "deepseek-v3"), precision_choice(),
               Choice("batch", "Sequences (batch)", numbered(CONTEXT_BATCHES), 64, "batch"),
               Choice("context", "Tokens of context in each", CONTEXTS, 131072, "batch")]
    return TwoFaces(choices, tables, charts.context(), readouts, models.add)


CHUNK_MODELS = ("deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b", "gpt-oss-120b", "glm-5.2",
                "qwen3.6-35b-a3b", "llama-4-maverick")
CHUNKS = [2**power for power in range(7, 16)]
LINE_CHUNKS = np.rint(2 ** np.arange(7, 15.5, 0.5)).astype(int)
PROMPTS = (2048, 8192, 32768, 131072)
SETUPS = {"8 H100": "h100", "8 H200": "h200", "8 B200": "b200"}


def chunks(config=None):
    """Chunked prefill in FP8 on eight devices: time to the first token, and the longest pause of other sequences.

    Bounds: weights and caches read once a chunk, arithmetic in full, no communication. The last token alone goes
    through the head.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, added to the models and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> said = chunks().readout(model="deepseek-v3", setup="h200", prompt=8192, chunk=2048)
    >>> print(said["Time to first token"], "|", said["Longest pause"])
    69.8 ms | 17.5 ms
    """
    models = Models(config)

    @functools.lru_cache(maxsize=4096)
    def steps(model, prompt, chunk, twin=False):
        of = dense_twin(models[model]) if twin else models[model]
        return prefill(of, int(prompt), chunk=int(chunk), weight_bytes=1, all_logits=False)

    def times(model, setup, prompt, chunk, twin=False):
        return 1e3 * step_time(steps(model, prompt, min(chunk, prompt), twin), DEVICES[setup], "fp8", 8).lower

    def knee(model, setup):
        return compute_bound_batch(models[model], DEVICES[setup], "fp8", weight_bytes=1)

    def tables(selection):
        sizes, curve, knees = np.union1d(LINE_CHUNKS, selection["chunk"]).astype(int), [], []
        for model, setup in itertools.product(selection["model"], selection["setup"]):
            knees += charts.rows(model=model, setup=setup, knee=knee(model, setup))
            for prompt in selection["prompt"]:
                mine = [times(model, setup, prompt, chunk) for chunk in sizes]
                twin = [times(model, setup, prompt, chunk, twin=True).sum() for chunk in sizes]
                curve += charts.rows(model=model, setup=setup, prompt=prompt, chunk=sizes, twin=twin,
                                     ttft=[each.sum() for each in mine], pause=[each.max() for each in mine])
        return {"curve": curve, "knee": knees}

    def in_chunks(prompt, chunk):
        return charts.counted(-(-prompt // chunk), "chunk")

    def read(model, prompt, chunk):
        step = steps(model, prompt, min(chunk, prompt))
        return f"{charts.gigabytes(step.weight_bytes_read.sum())}, cache {amount(step.kv_bytes_read.sum())}"

    readouts = {
        "The prompt goes in": in_chunks,
        "Time to first token": lambda model, setup, prompt, chunk: (
            f"{charts.digits(times(model, setup, prompt, chunk).sum())} ms"),
        "Longest pause": lambda model, setup, prompt, chunk: (
            f"{charts.digits(times(model, setup, prompt, chunk).max())} ms"),
        "First token, dense twin": lambda model, setup, prompt, chunk: (
            f"{charts.digits(times(model, setup, prompt, chunk, twin=True).sum())} ms"),
        "Read in all": read,
        "Computing binds, attention aside": lambda model, setup: f"from {tokens_words(knee(model, setup))}",
    }
    choices = [models.choice(CHUNK_MODELS, "deepseek-v3"),
               Choice("setup", "FP8 on", SETUPS, "h200", "radio"),
               Choice("prompt", "Prompt, tokens", numbered(PROMPTS), 8192, "radio"),
               Choice("chunk", "Tokens in a chunk", numbered(CHUNKS), 2048, "batch")]
    return TwoFaces(choices, tables, charts.chunks(), readouts, models.add)
