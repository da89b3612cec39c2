"""Record which experts a Hugging Face MoE chooses while it runs on token ids.

``python -m moe_lib.bench.router_recorder FOLDER --ids FILE --loads OUT.jsonl --trace OUT.csv`` runs a model from a
local folder on ids that are already there; nothing is downloaded. Needs the extra `hf`.
"""

import argparse
import re
import sys
from datetime import date
from pathlib import Path

import numpy as np

from .. import records
from .._arguments import require


def expert_modules(model):
    """Modules that hold the routed experts, by layer.

    Recognised are modules called ``experts`` that know their ``num_experts`` and are handed, as second argument, the
    experts of every token, int [tokens, k]: transformers' own form since release 5, such as ``MixtralExperts``,
    ``Qwen2MoeExperts``, ``Qwen3MoeExperts``, ``OlmoeExperts``, ``GptOssExperts``, ``DeepseekV3Experts``,
    ``Glm4MoeExperts``, ``DbrxExperts``. Not recognised: Llama 4, which runs every expert on every token, JetMoe, and
    the encoder-decoders Switch and NLLB.

    Parameters
    ----------
    model : torch.nn.Module

    Returns
    -------
    dict of int to torch.nn.Module

    Raises
    ------
    ValueError
        If there is none, or two in one layer.
    """
    layers = {}
    for name, module in model.named_modules():
        number = re.search(r"\.(\d+)\.(.*\.)?experts$", name)
        if number and hasattr(module, "num_experts"):
            if int(number[1]) in layers:
                raise ValueError(f"model must have one group of experts in a layer, got two in layer {number[1]}")
            layers[int(number[1])] = module
    if not layers:
        raise ValueError("model must have modules called experts that know their num_experts, as MixtralExperts, "
                         f"Qwen3MoeExperts or OlmoeExperts do; {type(model).__name__} has none")
    return layers


def record_routing(model, input_ids):
    """The experts that each token of a text chooses in each layer, seen where the experts receive them.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A causal model of one of the kinds that `expert_modules` names. It runs in evaluation mode, without a cache,
        and is left as it was.
    input_ids : array_like of int [tokens] or [sequences, tokens]
        Sequences of equal length, without padding.

    Returns
    -------
    dict of int to ndarray of int [tokens, k]
        By layer; tokens in order, sequence after sequence. A layer's first column is what its router names first.

    Raises
    ------
    ValueError
        If the model is not recognised, or an id is no whole number of its vocabulary.
    """
    import torch

    ids = np.atleast_2d(require("input_ids", input_ids, 0, model.config.get_text_config().vocab_size - 1, whole=True))
    if ids.ndim != 2 or ids.size == 0:
        raise ValueError(f"input_ids must be of shape [tokens] or [sequences, tokens], got {np.shape(input_ids)}")
    seen = {layer: [] for layer in expert_modules(model)}

    def listen(layer):
        def hook(module, args):
            chosen = args[1] if len(args) > 1 else None
            if not isinstance(chosen, torch.Tensor) or chosen.is_floating_point() or chosen.dim() != 2:
                raise ValueError(f"{type(module).__name__} of layer {layer} is not recognised: it is not handed the "
                                 "experts of each token, int [tokens, k], as second argument")
            seen[layer].append(chosen.cpu().numpy().copy())

        return hook

    training = model.training
    hooks = [module.register_forward_pre_hook(listen(layer)) for layer, module in expert_modules(model).items()]
    try:
        model.eval()
        with torch.no_grad():
            for sequence in ids:
                model.base_model(torch.tensor(sequence[None].astype(np.int64), device=model.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
        model.train(training)
    return {layer: np.concatenate(parts) for layer, parts in sorted(seen.items())}


def loads(routing, num_experts, *, model, domain, by="", software=""):
    """Records of how often each expert was chosen, as `moe_lib.records.router_loads` reads them.

    Parameters
    ----------
    routing : dict of int to ndarray of int [tokens, k]
    num_experts : int
        E, of every layer.
    model, domain : str
        Name of the model, and what kind of text it ran on.
    by, software : str

    Returns
    -------
    list of moe_lib.records.Record
        One a layer; share is the share of a layer's selections.

    Raises
    ------
    ValueError
        If an expert is not within 0..num_experts - 1.

    >>> (record,) = loads({3: np.array([[0, 2], [2, 1]])}, 4, model="tiny", domain="two tokens")
    >>> print(record.data["layer"], record.data["share"])
    3 [0.25, 0.25, 0.5, 0.0]
    """
    found = []
    for layer, chosen in routing.items():
        tokens, top_k = require("routing", chosen, 0, num_experts - 1, whole=True).shape
        counts = np.bincount(chosen.ravel(), minlength=num_experts)
        data = {"model": model, "domain": domain, "layer": int(layer), "num_experts": int(num_experts), "top_k": top_k,
                "tokens": tokens, "share": (counts / counts.sum()).tolist()}
        found.append(records.Record(
            kind="measured", what="router loads: selections of each expert over all top-k selections of the layer",
            by=by, software=software, routing="the model's own router, prefill of given token ids",
            when=date.today().isoformat(), data=data))
    return found


def write_loads(path, routing, num_experts, **about):
    """Write `loads` as JSON lines, replacing the file in one move; arguments and errors as there."""
    records.write(path, loads(routing, num_experts, **about))


def write_trace(path, routing):
    """Write a CSV that `moe_lib.records.read_trace` reads: layer,expert_1,..,expert_k, tokens of a layer in order.

    Parameters
    ----------
    path : path
    routing : dict of int to ndarray of int [tokens, k]

    Raises
    ------
    ValueError
        If layers differ in k.
    """
    widths = {chosen.shape[1] for chosen in routing.values()}
    if len(widths) != 1:
        raise ValueError(f"routing must have one k in all layers, got {sorted(widths)}")
    rows = np.concatenate([np.column_stack([np.full(len(chosen), layer), chosen]) for layer, chosen in routing.items()])
    header = ",".join(["layer", *(f"expert_{i + 1}" for i in range(widths.pop()))])
    draft = Path(path).with_name(Path(path).name + ".part")
    np.savetxt(draft, rows, fmt="%d", delimiter=",", header=header, comments="", encoding="utf-8")
    draft.replace(path)


def read_ids(path):
    """Token ids of a file: whole numbers with blanks, commas or line ends between them, or a JSON list of them.

    Returns
    -------
    ndarray of int [tokens]

    Raises
    ------
    ValueError
        Names the file and the first entry that is no whole number from 0 up.
    FileNotFoundError
        If there is no such file.
    """
    words = Path(path).read_text(encoding="utf-8-sig").strip().removeprefix("[").removesuffix("]")
    words = words.replace(",", " ").split()
    wrong = next((word for word in words if not (word.isascii() and word.isdecimal())), None)
    if wrong is not None or not words:
        raise ValueError(f"{path}: must hold token ids, whole numbers from 0 up, got "
                         f"{'nothing' if wrong is None else repr(wrong)[:40]}")
    return np.array([int(word) for word in words])


def main(argv=None):
    """Run the model of a folder on the ids of a file; what is wrong ends in one sentence and exit status 2."""
    parser = argparse.ArgumentParser(prog="python -m moe_lib.bench.router_recorder",
                                     description="Record which experts a Hugging Face MoE chooses.")
    add = parser.add_argument
    add("model", type=Path, help="folder with config.json and weights")
    add("--ids", type=Path, required=True, metavar="FILE", help="token ids: whole numbers, or a JSON list")
    add("--loads", type=Path, metavar="OUT", help="write shares of the selections as JSON lines")
    add("--trace", type=Path, metavar="OUT", help="write the experts of every token as CSV")
    add("--domain", default="", help="what the text is about (default: the name of the file of ids)")
    add("--device", default="cpu", help="of torch (default: %(default)s)")
    options = parser.parse_args(argv)
    if not (options.loads or options.trace):
        parser.error("give --loads or --trace, or both")
    try:
        import torch
        import transformers
    except ImportError as problem:
        parser.error(f"{problem.name} is missing: pip install -e '.[hf]'")
    try:
        if not (options.model / "config.json").is_file():
            raise ValueError(f"MODEL must be a folder with a config.json, got {options.model}")
        ids = read_ids(options.ids)
        model = transformers.AutoModelForCausalLM.from_pretrained(options.model, local_files_only=True, dtype="auto",
                                                                  trust_remote_code=False)
        routing = record_routing(model.to(options.device), ids)
        if options.trace:
            write_trace(options.trace, routing)
        if options.loads:
            num_experts = next(iter(expert_modules(model).values())).num_experts
            write_loads(options.loads, routing, num_experts, model=options.model.resolve().name,
                        domain=options.domain or options.ids.stem,
                        software=f"transformers {transformers.__version__}, torch {torch.__version__}")
    except (OSError, ValueError) as problem:
        parser.error(str(problem))
    print(f"{ids.size:,} tokens in {len(routing)} layers: "
          f"{', '.join(str(out) for out in (options.loads, options.trace) if out)}")


if __name__ == "__main__":
    sys.exit(main())
