"""From a model, GPUs and a target to layouts, batch, latency, throughput and cost. All are bounds for a uniform router,
unless an overhead is given that was fitted to measurements (`roofline.fit_overhead`): times and costs at least,
throughput at most. Routers with favourites touch fewer experts and can be faster.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._arguments import ABOVE_ZERO, Numbers, WeightBytes, require, whole_number
from ._callable import make_callable
from ._show import grid, number
from .exchange import link_time
from .hardware import GPUS_PER_NODE, Device, Link, find_device
from .layouts import Layout, find_layout, layout_sequences, layouts, problems, rank_prefill, rank_step
from .models import MoEModel, find_model
from .roofline import step_time
from .steps import bytes_per_weight, decode_step

MOST = 1 << 20  # sequences of a step, or tokens of prompts at once: beyond it nothing changes but the time to plan


class Row(NamedTuple):
    """One layout of a plan.

    Attributes
    ----------
    layout : Layout
    problems : list of str
        Why it is illegal; empty if it is not.
    fits : bool
        Whether the weights and the caches of the batch fit.
    batch : int
        Sequences in a step over all GPUs; 0 if not even one meets the target.
    max_sequences : float
        Sequences whose caches fit.
    tpot, ttft : float
        Seconds per output token and to the first one; at batch 1 where batch is 0.
    tokens_per_s_per_user, tokens_per_s_per_gpu : float
    prefill_tokens_per_s_per_gpu : float
        Of GPUs that do nothing but prompts, as many at once as fit, at most 2^20 tokens.
    cost_per_million_tokens : float
        Output tokens, in the currency of the price; nan without one. Their prompts are paid for where `output` is
        given, and left out where it is not.
    cost_per_request : float
        A prompt and its answer; nan without a price or `output`.
    """

    layout: Layout
    problems: list[str]
    fits: bool
    batch: int
    max_sequences: float
    tpot: float
    ttft: float
    tokens_per_s_per_user: float
    tokens_per_s_per_gpu: float
    prefill_tokens_per_s_per_gpu: float
    cost_per_million_tokens: float
    cost_per_request: float

    def __repr__(self):
        return f"Row({self.layout}: {self.said()})"

    def why_not(self, tpot: float = np.inf) -> str:
        """Why it has no numbers, such as that its steps take longer than tpot; empty if it has."""
        if self.problems:
            return f"illegal, {self.problems[0]}"
        if not self.fits:
            return f"does not fit, sequences at most: {self.max_sequences:,.0f}"
        if self.batch == 0 or self.tpot > tpot:
            return f"too slow, {number(self.tpot, 's')} a token at batch {max(self.batch, 1):,}"
        return ""

    def said(self, tpot: float = np.inf) -> str:
        """Its numbers in a line, or `why_not`."""
        return self.why_not(tpot) or (f"batch {self.batch:,}, {number(self.tpot, 's')} a token, "
                                      f"{number(self.tokens_per_s_per_gpu)} tokens/s a GPU")


class Plan(list):
    """Rows, best first: a list that prints its best row, and all of them as a table in a cell."""

    def __init__(self, rows: Iterable[Row], tpot: float = np.inf):
        super().__init__(rows)
        self.tpot = tpot  # the target

    def __repr__(self):
        return f"Plan(layouts: {len(self)}, best {self[0].layout}: {self[0].said(self.tpot)})" if self else "Plan(none)"

    def _repr_html_(self):
        """A line for each layout; money only where there is a price, and it says what is paid for."""
        money = {"cost_per_request": "cost of a request",
                 "cost_per_million_tokens": "cost of 1e6 output tokens with prompts"}
        if not any(np.isfinite(row.cost_per_request) for row in self):
            priced = any(np.isfinite(row.cost_per_million_tokens) for row in self)
            money = {"cost_per_million_tokens": "cost of decoding 1e6 tokens"} if priced else {}
        columns = ["layout", "sequences that fit", "batch", "time per token", "time to first token",
                   "tokens/s a user", "tokens/s a GPU", *money.values(), "remark"]

        def texts(row):
            if reason := row.why_not(self.tpot):
                return [row.layout, *[""] * (len(columns) - 2), reason]
            cost = [number(getattr(row, name)) for name in money]
            return [row.layout, f"{row.max_sequences:,.0f}", f"{row.batch:,}",
                    *(number(seconds, "s") for seconds in (row.tpot, row.ttft)),
                    *(number(rate) for rate in (row.tokens_per_s_per_user, row.tokens_per_s_per_gpu)), *cost, ""]

        return grid("Layouts, best first", columns, map(texts, self))


def plan(model: MoEModel | str, device: Device | str, num_gpus: int, *, context: int, batch: int | None = None,
         usable_bytes: float | None = None, weight_bytes: WeightBytes = None, kv_bytes: float = 2,
         tpot: float | None = None, price_per_hour: float | None = None, overhead: tuple[float, float] = (0, 1),
         dtype: str | None = None, prompt: int | None = None, output: int | None = None, chunk: int | None = None,
         weight_block: int | None = None, link: Link | str | None = None, network: Link | str | None = None,
         gpus_per_node: int = GPUS_PER_NODE) -> Plan:
    """Every layout of a model on GPUs of one kind, best first: legal ones that fit by tokens per second, then the rest.

    Between equals stand first those that spread whole experts: they send least.

    Parameters
    ----------
    model : MoEModel or str
    device : Device or str
        Or their names, as everywhere.
    num_gpus : int
    context : int
        Tokens of each sequence, prompt included, when a step is timed.
    batch : int, optional
        Sequences in a step. None: the most that fit and meet tpot, at most 2^20.
    usable_bytes : float, optional
        Of one GPU. None: `Device.usable_bytes`.
    weight_bytes, kv_bytes
        As `steps.decode_step`.
    tpot : float, optional
        Most seconds per output token.
    price_per_hour : float, optional
        Of one GPU.
    overhead : (float, float)
        (t0, efficiency): a step or chunk takes t0 + bound / efficiency, 1 at most.
    dtype : str, optional
        As `roofline.step_time`. None: `implied_dtype`.
    prompt, chunk : int, optional
        Prompt tokens behind ttft, and how many go through at once. None: context, and all.
    output : int, optional
        Tokens of an answer, for costs that pay for its prompt too, as `cost_per_request`. None: costs of decoding
        alone.
    weight_block : int, optional
        As `layouts.problems`.
    link, network : Link, optional
        Within and between nodes. None: exchanges are not counted. A layout that spans nodes needs both. Prompts, and
        layouts that are illegal, are timed without exchanges.
    gpus_per_node : int
        GPUs that `link` joins.

    Returns
    -------
    Plan
        A list of `Row`.

    Raises
    ------
    ValueError
        If an argument is out of range, or as `step_time`, `rank_step`.

    Notes
    -----
    Source: notebook 09, eq. 9.2 and 9.3.

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> best = plan(CATALOG["deepseek-v3"], DEVICES["h200"], 8, context=8192, weight_bytes=1, tpot=0.03)[0]
    >>> print(best.layout, best.batch, f"{best.tpot * 1e3:.1f} ms, {best.tokens_per_s_per_gpu:,.0f} tokens/s a GPU")
    DP8+EP8 504 28.0 ms, 2,253 tokens/s a GPU
    """
    model, device = find_model(model), find_device(device)
    if network is not None and link is None:
        raise ValueError("network must come with a link within the nodes")
    usable = device.usable_bytes if usable_bytes is None else require("usable_bytes", usable_bytes, 0, one=True)
    context = whole_number("context", context, 0)
    target = np.inf if tpot is None else require("tpot", tpot, ABOVE_ZERO, one=True)
    price = None if price_per_hour is None else require("price_per_hour", price_per_hour, 0, one=True)
    if batch is not None:
        batch = whole_number("batch", batch, 1)
    prompt = max(context, 1) if prompt is None else whole_number("prompt", prompt, 1)
    output = None if output is None else whole_number("output", output, 1)

    shared: dict[str, Any] = {"weight_bytes": weight_bytes, "kv_bytes": kv_bytes, "overhead": overhead, "dtype": dtype}

    def row(layout):
        found = problems(model, layout, weight_block=weight_block,
                         gpus_per_node=None if link is None else gpus_per_node)

        def step_seconds(sequences):
            return time_per_token(model, sequences, layout, device, context=context, link=None if found else link,
                                  network=network, gpus_per_node=gpus_per_node, **shared)

        def prompt_seconds(sequences):
            return time_to_first_token(model, prompt, layout, device, sequences=sequences, chunk=chunk, **shared)

        most = layout_sequences(model, layout, usable, weight_bytes=weight_bytes, context=context, kv_bytes=kv_bytes)
        chosen = _most_within(step_seconds, target, most) if batch is None else batch
        each, at_once = step_seconds(max(chosen, 1)), layout.attention_dp
        room = np.floor(most / at_once)  # of short prompts many share a read of the weights
        prompts = at_once * int(np.clip(room, 1, max(MOST // prompt, 1)))
        rate, prefill_rate = chosen / each / num_gpus, prompts * prompt / prompt_seconds(prompts) / num_gpus
        return Row(layout, found, bool(0 < most >= max(chosen, 1)), chosen,
                   float(most), float(each), float(prompt_seconds(1)), float(1 / each), float(rate),
                   float(prefill_rate), *_costs(prompt, output, prefill_rate, rate, price))

    rows = [row(layout) for layout in layouts(model, num_gpus)]
    return Plan(sorted(rows, key=lambda row: (bool(row.problems), not row.fits, *_best_first(row))), target)


def _best_first(row):
    """Order of rows: by tokens per second; between equals, those first that spread whole experts."""
    return -round(float(row.tokens_per_s_per_gpu), 6), -row.layout.expert_parallel


class Line(NamedTuple):
    """One way to spread the attention, batch by batch.

    Attributes
    ----------
    layout : Layout
    problems : list of str
        Why it is illegal; empty if it is not.
    batch : ndarray of int [n]
        Sequences in a step over all GPUs: 1 to the most that fit. A point of a line has one number here and in tpot.
    tpot : ndarray [n]
        Seconds per output token.
    """

    layout: Layout
    problems: list[str]
    batch: Numbers
    tpot: Numbers

    def __repr__(self):
        why = f"illegal, {self.problems[0]}" if self.problems else f"{number(self.tpot, 's')} a token"
        return f"Line({self.layout}: batch {number(self.batch)}, {why})"

    @property
    def tokens_per_s_per_user(self) -> Numbers:
        return 1 / self.tpot

    @property
    def tokens_per_s_per_gpu(self) -> Numbers:
        return self.batch / self.tpot / self.layout.num_gpus


def frontier(model: MoEModel | str, device: Device | str, num_gpus: int, *, context: int,
             weight_bytes: WeightBytes = None, kv_bytes: float = 2, weight_block: int | None = None,
             most: int = 65536) -> list[Line]:
    """Every way to spread the attention over GPUs of one kind, at every batch that fits: a line each.

    No exchanges are counted, so it makes no difference how the experts are cut: a line has the legal layout that comes
    first in `plan`, or an illegal one where none is legal.

    Parameters
    ----------
    model, device, num_gpus, context, weight_bytes, kv_bytes, weight_block
        As `plan`.
    most : int
        Sequences at which a line ends in any case.

    Returns
    -------
    list of Line
        Without those on which not one sequence fits.

    Raises
    ------
    ValueError
        As `plan`.

    >>> lines = frontier("deepseek-v3", "h200", 8, context=8192, weight_bytes=1)
    >>> for line in lines[0], lines[-1]:
    ...     print(line.layout, f"{line.batch[-1]} sequences, {1e3 * line.tpot[-1]:.1f} ms")
    TP8+EP8 88 sequences, 27.2 ms
    DP8+EP8 504 sequences, 28.0 ms
    """
    model, device, lines = find_model(model), find_device(device), []
    for _, same in itertools.groupby(layouts(model, num_gpus), key=lambda layout: layout.attention_tp):
        found = {layout: problems(model, layout, weight_block=weight_block) for layout in same}
        layout = min(found, key=lambda of: (bool(found[of]), -of.expert_parallel))
        fit = layout_sequences(model, layout, device.usable_bytes, weight_bytes=weight_bytes, context=context,
                               kv_bytes=kv_bytes)
        batch = np.arange(1, int(min(float(fit), most)) + 1, dtype=np.int64)
        if batch.size:
            lines.append(Line(layout, found[layout], batch, time_per_token(
                model, batch, layout, device, context=context, weight_bytes=weight_bytes, kv_bytes=kv_bytes)))
    return lines


def best_point(lines: Iterable[Line], tpot: float) -> Line | None:
    """The point of a `frontier` with the most tokens per second among legal ones whose steps take tpot at most.

    Parameters
    ----------
    lines : list of Line
    tpot : float
        Seconds per output token.

    Returns
    -------
    Line or None
        With one batch, as the first row of `plan` has it; None where no legal layout is in time.

    >>> lines = frontier("deepseek-v3", "h200", 8, context=8192, weight_bytes=1)
    >>> point = best_point(lines, 0.02)
    >>> print(point.layout, point.batch, f"{point.tokens_per_s_per_gpu:.0f} tokens/s a GPU")
    TP2xDP4+EP8 81 508 tokens/s a GPU
    """
    tpot = require("tpot", tpot, ABOVE_ZERO, one=True)
    in_time = [(line, np.searchsorted(line.tpot, tpot, "right")) for line in lines if not line.problems]
    points = [line._replace(batch=np.asarray(line.batch)[n - 1], tpot=np.asarray(line.tpot)[n - 1])
              for line, n in in_time if n]
    return min(points, key=_best_first, default=None)


def time_per_token(model: MoEModel | str, batch: ArrayLike, layout: Layout | str, device: Device | str, *,
                   context: ArrayLike = 0, weight_bytes: WeightBytes = None, kv_bytes: float = 2,
                   overhead: tuple[float, float] = (0, 1), dtype: str | None = None, link: Link | str | None = None,
                   network: Link | str | None = None, gpus_per_node: int = GPUS_PER_NODE) -> Numbers:
    """Seconds of a decode step of a layout: t0 + max(bytes/bandwidth, FLOP/peak, link) / efficiency.

    A user gets one token in that time, all users `batch` tokens.

    Parameters
    ----------
    model, batch, layout, context, weight_bytes, kv_bytes
        As `layouts.rank_step`.
    device : Device
    overhead, dtype, link, network, gpus_per_node
        As `plan`.

    Returns
    -------
    float or ndarray

    Raises
    ------
    ValueError
        As `plan`.

    Notes
    -----
    Source: notebook 09, eq. 9.2.

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> for layout in Layout.parse("TP8"), Layout.parse("DP8+EP8"):
    ...     seconds = time_per_token(CATALOG["deepseek-v3"], 89, layout, DEVICES["h200"], context=8192, weight_bytes=1)
    ...     print(layout, f"{seconds * 1e3:.1f} ms")
    TP8 27.3 ms
    DP8+EP8 20.7 ms
    """
    model, layout, device = find_model(model), find_layout(layout), find_device(device)
    exchange = 0 if link is None else link_time(
        model, batch, layout, link, network=network, gpus_per_node=gpus_per_node, in_switch=None)
    step = rank_step(model, batch, layout, weight_bytes=weight_bytes, context=context, kv_bytes=kv_bytes)
    return _seconds(step, device, dtype or implied_dtype(model, device, weight_bytes), overhead, exchange)


def time_to_first_token(model: MoEModel | str, prompt: int, layout: Layout | str, device: Device | str, *,
                        chunk: int | None = None, sequences: int = 1, weight_bytes: WeightBytes = None,
                        kv_bytes: float = 2, overhead: tuple[float, float] = (0, 1), dtype: str | None = None) -> float:
    """Seconds of a prompt on idle GPUs, chunk after chunk; only its last token goes through the head.

    Parameters
    ----------
    model, layout, sequences, weight_bytes, kv_bytes
        As `layouts.rank_prefill`.
    prompt : int
        Tokens.
    device : Device
    chunk, overhead, dtype
        As `plan`.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        As `plan`.

    Notes
    -----
    Source: notebook 09, eq. 9.3.

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> for layout in Layout.parse("TP8"), Layout.parse("DP8+EP8"):
    ...     seconds = time_to_first_token(CATALOG["deepseek-v3"], 8192, layout, DEVICES["h200"], weight_bytes=1)
    ...     print(layout, f"{seconds * 1e3:.0f} ms")
    TP8 55 ms
    DP8+EP8 232 ms
    """
    model, device = find_model(model), find_device(device)
    step = rank_prefill(model, prompt, layout, chunk=chunk, sequences=sequences, weight_bytes=weight_bytes,
                        kv_bytes=kv_bytes, all_logits=False)
    return _seconds(step, device, dtype or implied_dtype(model, device, weight_bytes), overhead).sum()


def _seconds(step, device, dtype, overhead, exchange=0):
    if np.shape(require("overhead", overhead, 0)) != (2,):
        raise ValueError(f"overhead must be two numbers, t0 and efficiency, got {overhead!r}")
    t0, efficiency = overhead[0], require("efficiency of overhead", overhead[1], ABOVE_ZERO, 1)
    return t0 + step_time(step, device, dtype, link_time=exchange).lower / efficiency


def implied_dtype(model: MoEModel | str, device: Device | str, weight_bytes: WeightBytes = None) -> str:
    """Number format that the weights of a model's largest part are multiplied in: a mixture's routed experts.

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> print(*(implied_dtype(CATALOG["deepseek-v3"], DEVICES[slug]) for slug in ("h200", "a100-80gb")))
    fp8 bf16
    """
    model, device = find_model(model), find_device(device)
    parts = model.ledger()
    largest = max(parts, key=lambda part: parts[part])
    return device.arithmetic(bytes_per_weight(model, weight_bytes)[largest])


def _most_within(step_seconds, target, most, limit=MOST):
    """Largest whole batch up to `most` (and `limit`) whose step takes at most `target` seconds; 0 if none does."""
    low, high = 0, int(min(most, limit)) + 1
    if high > 1 and step_seconds(high - 1) <= target:
        return high - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if step_seconds(middle) <= target else (low, middle)
    return low


def _costs(prompt, output, prefill_rate, rate, price):
    """(of a million output tokens, of a request): nan where not asked for, inf where no token is made."""
    if price is None:
        return np.nan, np.nan
    if not rate:
        return np.inf, np.nan if output is None else np.inf
    if output is None:
        return float(cost_per_million_tokens(rate, price)), np.nan
    request = float(cost_per_request(prompt, output, prefill_rate, rate, price))
    return 1e6 * request / output, request


def cost_per_million_tokens(tokens_per_s: ArrayLike, price_per_hour: ArrayLike) -> Numbers:
    """Price of a million tokens: price per hour / 3600 / tokens per second x 1e6, both of the same GPUs.

    Of output tokens this is the cost of decoding alone; `cost_per_request` pays for their prompts too.

    Raises
    ------
    ValueError
        If tokens_per_s is not positive or price_per_hour is negative.

    >>> print(f"{cost_per_million_tokens(14800 / 8, 2):.2f}")
    0.30
    """
    per_s = require("price_per_hour", price_per_hour, 0) / 3600
    return per_s / require("tokens_per_s", tokens_per_s, ABOVE_ZERO) * 1e6


def cost_per_request(prompt: ArrayLike, output: ArrayLike, prefill_tokens_per_s_per_gpu: ArrayLike,
                     tokens_per_s_per_gpu: ArrayLike, price_per_hour: ArrayLike, *, cached: ArrayLike = 0) -> Numbers:
    """Price of a prompt and its answer: the seconds that a GPU spends on both x the price of a GPU-hour / 3600.

    Prompts and decoding steps are paid apart, as in two pools or in turn. At the bounds of `plan` it is a least cost
    for these. Prompts that ride in decoding steps read no weights of their own, so they may cost less.

    Parameters
    ----------
    prompt, output, prefill_tokens_per_s_per_gpu, tokens_per_s_per_gpu, cached
        As `pools`.
    price_per_hour : array_like
        Of one GPU.

    Returns
    -------
    float or ndarray

    Raises
    ------
    ValueError
        As `pools`, or if price_per_hour is negative.

    >>> cost = cost_per_request(8192, 1024, 21543, 2253, 2)
    >>> print(f"{cost:.5f} a request, {cost / 1024 * 1e6:.2f} a million output tokens")
    0.00046 a request, 0.45 a million output tokens
    """
    seconds = _gpu_seconds(prompt, output, prefill_tokens_per_s_per_gpu, tokens_per_s_per_gpu, cached)
    return sum(seconds) * require("price_per_hour", price_per_hour, 0) / 3600


class Comparison(NamedTuple):
    """A mixture beside a dense model.

    Attributes
    ----------
    time_ratio : float or ndarray
        Step time of the mixture over that of the dense model; above 1 the dense model is faster.
    crossings : ndarray
        Batches at which the ratio is 1, not rounded, in ascending order.
    """

    time_ratio: Numbers
    crossings: np.ndarray

    def __repr__(self):
        equal = " and ".join(map(number, self.crossings)) or "none"
        return f"Comparison(time ratio {number(self.time_ratio)}, 1 at batch {equal})"


def moe_or_dense(moe: MoEModel | str, dense: MoEModel | str, device: Device | str, num_gpus: int, batch: ArrayLike, *,
                 context: ArrayLike = 0, weight_bytes: WeightBytes = None, kv_bytes: float = 2,
                 dtype: str | None = None) -> Comparison:
    """Step time of a mixture over that of a dense model on the same GPUs, and where the two are equal.

    Both spread evenly, nothing held twice, no exchanges, a uniform router. A ratio of two lower bounds of
    `roofline.step_time` is a prediction and no bound.

    Parameters
    ----------
    moe, dense : MoEModel
    device : Device
    num_gpus : int
    batch : array_like
    context, weight_bytes, kv_bytes
        As `steps.decode_step`.
    dtype : str, optional
        Of both. None: `implied_dtype` of the mixture.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        As `steps.decode_step`, `roofline.step_time`.

    Notes
    -----
    Source: notebook 09, eq. 9.1.

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> valley = moe_or_dense(CATALOG["deepseek-v3"], CATALOG["llama-3.1-70b"], DEVICES["h200"], 8, 64, weight_bytes=1)
    >>> print(f"{valley.time_ratio:.1f} at 64, equal at", valley.crossings.round(1))
    8.4 at 64, equal at [   2.7 1987.5]
    """
    from scipy.optimize import brentq

    moe, dense, device = find_model(moe), find_model(dense), find_device(device)
    for name, value, low in ("num_gpus", num_gpus, 1), ("context", context, 0):
        require(name, value, low, one=True)
    dtype = dtype or implied_dtype(moe, device, weight_bytes)

    def log_ratio(log_batch):
        step = decode_step([moe, dense], np.exp(log_batch), weight_bytes=weight_bytes, context=context,
                           kv_bytes=kv_bytes)
        of_moe, of_dense = np.asarray(step_time(step, device, dtype, num_gpus).lower)
        return np.log(of_moe / of_dense)

    grid = np.log(np.geomspace(1, 1e6, 2000))
    above = log_ratio(grid) > 1e-9
    turns = np.flatnonzero(np.diff(above))
    crossings = [np.exp(brentq(lambda x: log_ratio(x) - 1e-9, grid[turn], grid[turn + 1])) for turn in turns]
    return Comparison(np.exp(log_ratio(np.log(require("batch", batch, ABOVE_ZERO)))), np.array(crossings))


class Pools(NamedTuple):
    """GPUs for prompts and for decoding, and the cache that moves from one to the other in bytes/s."""

    prefill_gpus: Numbers
    decode_gpus: Numbers
    kv_bytes_per_s: Numbers

    def __repr__(self):
        return (f"Pools({number(self.prefill_gpus)} GPUs for prompts, {number(self.decode_gpus)} for decoding, "
                f"{number(self.kv_bytes_per_s, 'B/s')} of cache)")


def pools(model: MoEModel | str, requests_per_s: ArrayLike, prompt: ArrayLike, output: ArrayLike,
          prefill_tokens_per_s_per_gpu: ArrayLike, tokens_per_s_per_gpu: ArrayLike, *, cached: ArrayLike = 0,
          kv_bytes: float = 2) -> Pools:
    """Prefill and decode on GPUs of their own: how many of each, and what moves between them.

    Parameters
    ----------
    model : MoEModel
    requests_per_s : array_like
    prompt, output : array_like
        Tokens of a request.
    prefill_tokens_per_s_per_gpu, tokens_per_s_per_gpu : array_like
        Of GPUs that do nothing else: measured, or the bounds of `plan`.
    cached : array_like
        Share of the prompt that need not be computed.
    kv_bytes : float

    Returns
    -------
    Pools
        GPUs not rounded.

    Raises
    ------
    ValueError
        If an argument is negative, a rate is not positive, or cached is above 1.

    Notes
    -----
    Source: notebook 09, eq. 9.4.

    >>> from moe_lib.models import CATALOG
    >>> need = pools(CATALOG["deepseek-v3"], 10, 4096, 512, 4000, 1500)
    >>> print(f"{need.prefill_gpus:.1f} and {need.decode_gpus:.1f} GPUs, {need.kv_bytes_per_s / 1e9:.1f} GB/s of cache")
    10.2 and 3.4 GPUs, 2.9 GB/s of cache
    """
    model, rate = find_model(model), 1.0 * require("requests_per_s", requests_per_s, 0)
    seconds = _gpu_seconds(prompt, output, prefill_tokens_per_s_per_gpu, tokens_per_s_per_gpu, cached)
    moved = rate * (model.kv_bytes_per_sequence(prompt, kv_bytes) + model.state_bytes_per_sequence)
    return Pools(rate * seconds[0], rate * seconds[1], moved)


def _gpu_seconds(prompt, output, prefill_rate, decode_rate, cached):
    """Seconds that a GPU spends on the prompt and on the answer of a request."""
    fresh = require("prompt", prompt, 0) * (1 - require("cached", cached, 0, 1))
    return (fresh / require("prefill_tokens_per_s_per_gpu", prefill_rate, ABOVE_ZERO),
            require("output", output, 0) / require("tokens_per_s_per_gpu", decode_rate, ABOVE_ZERO))


make_callable(__name__, plan)
