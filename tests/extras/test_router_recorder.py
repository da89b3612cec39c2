"""Recorded routing against the router logits of small models with random weights, top-k by hand."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf: make test-extras")
transformers = pytest.importorskip("transformers", reason="needs the extra hf: make test-extras")

from moe_lib.bench import router_recorder  # noqa: E402
from moe_lib.bench.router_recorder import (  # noqa: E402
    expert_modules,
    read_ids,
    record_routing,
    write_loads,
    write_trace,
)
from moe_lib.records import inclusion, read_trace, router_loads  # noqa: E402

SIZES = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "num_experts_per_tok": 3}
FAMILIES = {
    "mixtral": {"num_local_experts": 8}, "qwen3_moe": {"num_experts": 8, "moe_intermediate_size": 16, "head_dim": 8},
    "olmoe": {"num_experts": 8}, "gpt_oss": {"num_local_experts": 8, "head_dim": 8},
    "qwen2_moe": {"num_experts": 8, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16},
}
IDS = np.random.default_rng(0).integers(0, SIZES["vocab_size"], 50)


def tiny(family, **more):
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **SIZES | FAMILIES.get(family, {}) | more)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return tiny(request.param)


def test_what_is_recorded_is_the_top_k_of_the_routers_own_logits(model):
    routing = record_routing(model, IDS)
    with torch.no_grad():
        logits = model(torch.tensor(IDS[None]), output_router_logits=True).router_logits
    by_hand = [np.argsort(-each.float().numpy(), axis=-1)[:, :3] for each in logits]
    assert list(routing) == [0, 1, 2]
    assert all(np.array_equal(routing[i], by_hand[i]) for i in range(3))


def test_two_sequences_are_recorded_one_after_the_other(model):
    both, first, second = (record_routing(model, ids) for ids in (IDS.reshape(2, 25), IDS[:25], IDS[25:]))
    assert all(np.array_equal(both[layer], np.concatenate([first[layer], second[layer]])) for layer in both)


def test_files_are_read_back_by_the_pages(model, tmp_path):
    routing = record_routing(model, IDS)
    write_trace(tmp_path / "trace.csv", routing)
    write_loads(tmp_path / "loads.jsonl", routing, 8, model="tiny", domain="random ids")
    back, loads = read_trace(tmp_path / "trace.csv"), router_loads(tmp_path / "loads.jsonl")
    assert all(np.array_equal(back[layer], routing[layer]) for layer in routing)
    for record in loads:
        chosen = (routing[record.data["layer"]][:, :, None] == np.arange(8)).any(1)
        assert record.kind == "measured" and np.allclose(inclusion(record), chosen.mean(0))


def test_the_model_is_left_as_it_was(model):
    model.train()
    record_routing(model, IDS[:5])
    assert model.training and not any(each._forward_pre_hooks for each in expert_modules(model).values())
    model.eval()


def test_groups_and_biases_count_as_the_model_uses_them():
    model = tiny("deepseek_v3", n_routed_experts=16, moe_intermediate_size=16, first_k_dense_replace=1, n_group=4,
                 topk_group=2, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8,
                 num_key_value_heads=4)
    routing = record_routing(model, IDS)
    assert list(routing) == [1, 2] and all(len(np.unique(row // 4)) <= 2 for row in np.concatenate([*routing.values()]))


@pytest.mark.parametrize(("family", "more"), [
    ("llama", {}), ("llama4_text", {"num_local_experts": 4, "head_dim": 8, "intermediate_size_mlp": 24,
                                    "num_experts_per_tok": 1})])
def test_a_model_that_is_not_recognised_is_refused(family, more):
    with pytest.raises(ValueError, match="is not recognised|has none"):
        record_routing(tiny(family, **more), IDS)


@pytest.mark.parametrize("ids", [[97], [-1], [0.5], [], [[[1]]], ["a"]])
def test_ids_outside_the_vocabulary_are_refused(ids):
    with pytest.raises(ValueError, match="input_ids must be"):
        record_routing(tiny("olmoe"), ids)


@pytest.mark.parametrize("text", ["1 2 3", "1,2\n3\n", "[1, 2, 3]", "\ufeff[1,2,3]"])
def test_ids_are_read_from_plain_text_or_json(tmp_path, text):
    (tmp_path / "ids").write_text(text, encoding="utf-8")
    assert read_ids(tmp_path / "ids").tolist() == [1, 2, 3]


@pytest.mark.parametrize(("text", "message"), [("", "got nothing"), ("1 2.5", "got '2.5'"), ("1 -2", "got '-2'")])
def test_a_file_without_ids_is_named(tmp_path, text, message):
    (tmp_path / "ids").write_text(text)
    with pytest.raises(ValueError, match=f"ids: must hold token ids.*{message}"):
        read_ids(tmp_path / "ids")


def test_the_command_writes_both_files_of_a_local_folder(tmp_path, capsys):
    model = tiny("olmoe")
    model.save_pretrained(tmp_path / "tiny-olmoe")
    (tmp_path / "text").write_text(json.dumps(IDS.tolist()))
    router_recorder.main([str(tmp_path / "tiny-olmoe"), "--ids", str(tmp_path / "text"),
                          "--loads", str(tmp_path / "loads.jsonl"), "--trace", str(tmp_path / "trace.csv")])
    recorded, known = read_trace(tmp_path / "trace.csv"), record_routing(model, IDS)
    assert all(np.array_equal(recorded[layer], known[layer]) for layer in known)
    assert router_loads(tmp_path / "loads.jsonl")[0].data["model"] == "tiny-olmoe"
    assert "50 tokens in 3 layers" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "sentence"), [
    ([], "give --loads or --trace, or both"), (["--trace", "out.csv"], "must be a folder with a config.json")])
def test_the_command_says_in_one_sentence_what_is_missing(tmp_path, capsys, options, sentence):
    with pytest.raises(SystemExit, match="2"):
        router_recorder.main([str(tmp_path), "--ids", "no-ids", *options])
    assert sentence in capsys.readouterr().err.splitlines()[-1]
