"""Records of measurements, one JSON object a line: what was run, on what, by whom, when, under which licence.

`kind` keeps three things apart: ``measured`` (by this code), ``third_party`` (by others, with source and licence) and
``model`` (computed, never to be called measured).
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from importlib import resources
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ._arguments import require

SCHEMA = 1
KINDS = ("measured", "third_party", "model")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Record:
    """One measurement with its provenance.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    what, on, by, software, routing, when, source, licence : str
        In words; empty where it does not apply. `third_party` needs source and licence, every kind needs what.
    data : dict
        The numbers; keys say units (``_s``, ``_bytes``), shares have none.
    schema : int
    """

    kind: str
    what: str
    on: str = ""
    by: str = ""
    software: str = ""
    routing: str = ""
    when: str = ""
    source: str = ""
    licence: str = ""
    data: dict
    schema: int = SCHEMA

    def __repr__(self):
        made = ", ".join(filter(None, (self.on, self.by, self.when)))
        return f"Record({self.kind}: {self.what:.40}{f', {made}' if made else '':.80})"

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        if self.schema != SCHEMA:
            raise ValueError(f"schema must be {SCHEMA}, got {self.schema!r}")
        for field in fields(self):
            value = getattr(self, field.name)
            expected = {"data": dict, "schema": int}.get(field.name, str)
            if not isinstance(value, expected):
                raise ValueError(f"{field.name} must be of type {expected.__name__}, got {value!r}")
        needed = ("what", "source", "licence") if self.kind == "third_party" else ("what",)
        for name in needed:
            if not getattr(self, name):
                raise ValueError(f"{name} must not be empty in a record of kind {self.kind!r}")


def read(path: str | PathLike[str]) -> list[Record]:
    """Records of a JSON-lines file; blank lines are skipped.

    Raises
    ------
    ValueError
        Names the file, the line and what is wrong with it.
    FileNotFoundError
        If there is no such file.
    """
    return parse(Path(path).read_text(encoding="utf-8"), f"{path}, ")


def parse(text: str, where: str = "") -> list[Record]:
    """Records of JSON lines; blank lines are skipped.

    Raises
    ------
    ValueError
        Names the line and what is wrong with it, after the words in `where`.
    """
    records = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                records.append(Record(**json.loads(line)))
            except ValueError as error:
                raise ValueError(f"{where}line {number}: {error}") from error
            except TypeError as error:  # keys that are missing or unknown, or no object at all
                raise ValueError(f"{where}line {number}: not a record with kind, what and data ({error})") from error
    return records


def write(path: str | PathLike[str], records: Iterable[Record]) -> None:
    """Write records as JSON lines, replacing the file in one move, so an interrupt leaves the old one whole.

    Raises
    ------
    ValueError
        If a number is not finite: JSON has no way to say so.
    """
    path = Path(path)
    draft = path.with_name(path.name + ".part")
    lines = [json.dumps(asdict(record), allow_nan=False) + "\n" for record in records]
    draft.write_text("".join(lines), encoding="utf-8")
    draft.replace(path)


def shipped(name: str) -> list[Record]:
    """Records of ``moe_lib/data/measured/<name>.jsonl``.

    Raises
    ------
    ValueError
        If there is no such file; names those there are.

    >>> print(shipped("served_r1_h200")[0].data["mean_tpot_s"])
    [0.0128, 0.0172, 0.0256, 0.0346]
    """
    folder = resources.files(__package__) / "data" / "measured"
    known = sorted(file.name.removesuffix(".jsonl") for file in folder.iterdir() if file.name.endswith(".jsonl"))
    if name not in known:
        raise ValueError(f"name must be one of {', '.join(known)}, got {name!r}")
    return parse((folder / f"{name}.jsonl").read_text(encoding="utf-8"), f"{name}.jsonl, ")


def router_loads(path: str | PathLike[str] | None = None) -> list[Record]:
    """How real routers spread their tokens: selections of every expert of a layer, as shares.

    Parameters
    ----------
    path : path, optional
        Records with data keys model, domain, layer, num_experts, top_k, tokens, share. None reads the shipped
        third-party counts of Mixtral-8x7B and OLMoE-1B-7B (prefill of text, three layers and domains each).

    Returns
    -------
    list of Record

    Raises
    ------
    ValueError
        If a record lacks a key, or its shares are not num_experts numbers within [0, 1/top_k] that sum to 1.

    >>> loads = router_loads()
    >>> print(len(loads), loads[0].data["model"], loads[0].kind)
    18 Mixtral-8x7B third_party
    """
    records = read(path) if path else shipped("router_loads")
    for record in records:
        inclusion(record)
    return records


def inclusion(record: Record) -> NDArray[np.float64]:
    """Inclusion probabilities [E] of a router-load record: top_k times the share of selections, scaled to sum to top_k.

    Raises
    ------
    ValueError
        As `router_loads`.

    >>> print(inclusion(router_loads()[0]).round(2))
    [0.27 0.24 0.24 0.24 0.25 0.28 0.2  0.28]
    """
    missing = {"model", "domain", "layer", "num_experts", "top_k", "tokens", "share"} - set(record.data)
    if missing:
        raise ValueError(f"data must hold {', '.join(sorted(missing))}")
    share, top_k = np.asarray(record.data["share"], float), record.data["top_k"]
    require("top_k", top_k, 1, record.data["num_experts"])
    if share.shape != (record.data["num_experts"],) or not math.isclose(share.sum(), 1, abs_tol=1e-3):
        raise ValueError(f"share must hold num_experts = {record.data['num_experts']} numbers that sum to 1, got "
                         f"{share.shape} with sum {share.sum():g}")
    require("share", share, 0, 1 / top_k)
    return top_k * share / share.sum()


def read_trace(path: str | PathLike[str]) -> dict[int, NDArray[np.int64]]:
    """Which experts the consecutive tokens of each layer chose, from a reader's CSV.

    The header is ``layer,expert_1,..,expert_k``; below it one row for a token in a layer, tokens of a layer in order.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict of int to ndarray of int [tokens, k]
        By layer.

    Raises
    ------
    ValueError
        Names the file, the line and the column that is not a whole number from 0 up, a row that names an expert twice,
        a wrong header, or a file that is no CSV in UTF-8.
    FileNotFoundError
        If there is no such file.
    """
    layers: dict[int, list[list[int]]] = {}
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            header = next(lines, [])
            top_k = len(header) - 1
            if top_k < 1 or header != ["layer", *(f"expert_{i}" for i in range(1, top_k + 1))]:
                raise ValueError(f"{path}, line 1: header must be layer,expert_1,..,expert_k, got {','.join(header)!r}")
            for row in lines:
                if row:
                    layer, *experts = _whole_numbers(row, header, f"{path}, line {lines.line_num}")
                    layers.setdefault(layer, []).append(experts)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: must be a CSV in UTF-8, {error}") from error
    if not layers:
        raise ValueError(f"{path}: no row below the header")
    return {layer: np.array(tokens) for layer, tokens in sorted(layers.items())}


def _whole_numbers(row, header, where):
    if len(row) != len(header):
        raise ValueError(f"{where}: expected {len(header)} columns, got {len(row)}")
    for name, text in zip(header, row, strict=True):
        if not text.strip().isdecimal() or len(text.strip()) > 18:  # more digits do not fit 64 bits
            raise ValueError(f"{where}: {name} must be a whole number from 0 up, got {text[:40]!r}")
    numbers = [int(text) for text in row]
    if len(set(numbers[1:])) < len(numbers) - 1:
        raise ValueError(f"{where}: a token chooses distinct experts, got {','.join(row[1:])}")
    return numbers
