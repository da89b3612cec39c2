"""`python -m moe_lib`: the numbers printed are the library's, and a bad argument is one clear sentence."""

import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

from moe_lib.__main__ import main
from moe_lib.hardware import DEVICES, LINKS, devices_needed
from moe_lib.models import CATALOG
from moe_lib.plan import plan
from moe_lib.roofline import ridge_point, step_time
from moe_lib.steps import decode_step, resident_bytes, sequences_that_fit

V3, H200 = CATALOG["deepseek-v3"], DEVICES["h200"]


@pytest.fixture
def rows(capsys):
    """A function: arguments in, (everything printed, {(label, unit): number}) out."""

    def run(*argv):
        main([str(argument) for argument in argv])
        text, numbers, label = capsys.readouterr().out, {}, ""
        for line in text.partition("\nLayouts over")[0].splitlines():
            found = re.match(r"  (.{26})([ \d,.]{18}\d| {16}inf)(?: (.{0,10}))?", line)
            if found:
                label = found[1].strip() or f"{label}, second line"
                numbers[label, (found[3] or "").strip()] = float(found[2].replace(",", ""))
        return text, numbers

    return run


def printed(value, decimals):
    return pytest.approx(value, abs=0.5 * 10**-decimals * (1 + 1e-9))


@pytest.fixture
def layouts(capsys):
    """A function: arguments in, the table of layouts out, {(attention, experts): numbers or reason}."""

    def run(*argv):
        main([str(argument) for argument in argv])
        lines = capsys.readouterr().out.partition("\nLayouts over")[2].splitlines()
        assert lines and max(map(len, lines)) <= 120
        rows = [re.match(r"  (TP\w+|DP\w+|1 GPU) +((?:(?:EP|TP|none|1 GPU)\w*(?:, )?)+)(?: \.\.\.)? +(.*)", line)
                for line in lines]
        return {(row[1], row[2]): row[3] for row in rows if row}

    return run


def numbers_of(text):
    return [float(number.replace(",", "")) for number in text.split()]


def refused(capsys, *argv):
    """What main says on stderr when it refuses."""
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in argv])
    assert exit_.value.code == 2
    return capsys.readouterr().err


# numbers


def test_the_worked_example_appears_digit_by_digit(rows):
    _, numbers = rows("deepseek-v3", "--batch", 64, "--context", 0, "--weight-bits", 16)
    assert numbers["read", "GB"] == 1168.8 and numbers["weights", "GB"] == 1342.1
    assert numbers["intensity", "FLOP/byte"] == 4.01
    assert numbers["experts touched", "of 256"] == 222.4
    assert numbers["tokens per expert", ""] == 2.0 and numbers["tokens per expert, second line", ""] == 2.3


@pytest.mark.parametrize("slug", CATALOG)
def test_the_ledger_is_exact_and_shows_both_counts_of_active(rows, slug):
    model, (_, numbers) = CATALOG[slug], rows(slug)
    assert numbers["total", ""] == model.total_params
    assert numbers["active", "one token,"] == model.active_params
    assert numbers["active, as read", "one token,"] == model.active_params_read
    for part, count in model.ledger().items():
        assert numbers.get((part.replace("_", " "), ""), 0) == count


@pytest.mark.parametrize("slug", CATALOG)
def test_the_step_is_the_library_s(rows, slug):
    _, numbers = rows(slug, "--batch", 48, "--context", 5000, "--gpus", 4)
    step = decode_step(CATALOG[slug], 48, context=5000)
    assert numbers["weights read", "GB"] == printed(step.weight_bytes_read / 1e9, 1)
    assert numbers["KV cache read", "GB"] == printed(step.kv_bytes_read / 1e9, 1)
    assert numbers["computed", "GFLOP"] == printed(step.flops / 1e9, 1)
    assert numbers["intensity", "FLOP/byte"] == printed(step.intensity, 2)


def test_time_is_bounded_in_fp8_where_weights_of_8_bits_are_released_and_the_device_has_it(rows):
    text, numbers = rows("deepseek-v3", "--batch", 128, "--context", 4096)
    bounds = step_time(decode_step(V3, 128, context=4096), H200, "fp8", 8)
    assert "TFLOP/s each, in fp8" in text and "reading bounds the step" in text
    assert numbers["step, lower bound", "ms"] == printed(bounds.lower * 1e3, 3)
    assert numbers["step, upper bound", "ms"] == printed(bounds.upper * 1e3, 3)
    assert numbers["throughput, upper bound", "tokens/s"] == printed(128 / bounds.lower, 1)
    assert numbers["ridge point", "FLOP/byte"] == printed(ridge_point(H200, "fp8"), 1)


@pytest.mark.parametrize("device, read_per_s", [("h200", 8 * 4.8e12), ("m4-max", 8 * 546e9)])
def test_a_lower_bound_is_said_to_be_a_uniform_router_s_and_stands_beside_that_of_any_router(rows, device, read_per_s):
    text, numbers = rows("deepseek-v3", "--batch", 64, "--context", 0, "--weight-bits", 16, "--device", device)
    assert re.search(r"step, lower bound .*, for a uniform router\n", text)
    assert numbers["step, any router", "ms"] == printed(2e3 * V3.active_params_read / read_per_s, 3)
    assert "every token chooses the same 8 experts" in text


def test_a_dense_model_has_no_router(rows):
    text, numbers = rows("llama-3.1-70b", "--batch", 4)
    assert "router" not in text and ("step, lower bound", "ms") in numbers


def test_times_of_a_plan_are_said_to_be_bounds_for_a_uniform_router(rows):
    assert "Times are lower bounds for a uniform router, exchanges not counted." in rows("mixtral-8x7b")[0]
    assert "Times are lower bounds, exchanges not counted." in rows("llama-3.1-70b")[0]


@pytest.mark.parametrize("argv, dtype", [
    (["mixtral-8x7b"], "bf16"),
    (["mixtral-8x7b", "--weight-bits", 8], "fp8"),
    (["deepseek-v3", "--weight-bits", 4.25], "bf16"),
    (["deepseek-v3", "--device", "a100-80gb"], "bf16"),
    (["deepseek-v3", "--dtype", "bf16"], "bf16"),
    (["mixtral-8x7b", "--weight-bits", "routed_experts=8.25,default=16"], "fp8"),
])
def test_the_arithmetic_follows_the_weights_unless_it_is_given(rows, argv, dtype):
    assert f"TFLOP/s each, in {dtype}\n" in rows(*argv)[0]


def test_a_large_batch_without_context_is_bound_by_computing(rows):
    text, _ = rows("deepseek-v3", "--batch", 4000, "--context", 0, "--weight-bits", 16)
    assert "computing bounds the step" in text
    text, _ = rows("deepseek-v3", "--batch", 3700, "--context", 0, "--weight-bits", 16)
    assert "reading bounds the step" in text


def test_a_device_without_a_published_peak_is_bounded_by_reading_alone(rows):
    text, numbers = rows("gpt-oss-120b", "--device", "m4-max", "--gpus", 1)
    seconds = decode_step(CATALOG["gpt-oss-120b"], 64, context=8192).bytes_read / 546e9
    assert numbers["step, lower bound", "ms"] == printed(seconds * 1e3, 3) and "no published peak FLOP/s" in text
    assert not any(label == "step, upper bound" for label, _ in numbers)


# what must be held


def test_what_fits_is_counted_in_sequences_and_devices(rows):
    text, numbers = rows("deepseek-v3", "--gpus", 8, "--context", 8192, "--batch", 64, "--kv-bits", 8)
    usable, both = 8 * H200.usable_bytes, resident_bytes(V3, context=8192, sequences=64, kv_bytes=1)
    assert numbers["weights and caches", "GB"] == printed(both / 1e9, 1)
    assert numbers["usable", "GB"] == printed(usable / 1e9, 1)
    assert numbers["sequences that fit", "at most"] == sequences_that_fit(V3, usable, context=8192, kv_bytes=1)
    assert numbers["devices needed", "at least"] == devices_needed(resident_bytes(V3), H200)
    assert numbers["devices needed, second line", "at least"] == devices_needed(both, H200)
    assert re.search(r"weights and caches .* GB +fit\n", text)
    assert re.search(r"weights and caches .* GB +do not fit\n", rows("deepseek-v3", "--batch", 10_000)[0])


def test_a_model_that_does_not_fit_says_so_and_how_many_devices_it_needs(rows):
    text, numbers = rows("mixtral-8x7b", "--device", "rtx-4090", "--gpus", 1, "--batch", 1, "--weight-bits", 16)
    assert "GB         do not fit" in text and numbers["sequences that fit", "at most"] == 0
    assert numbers["devices needed", "at least"] == np.ceil(93.4e9 / (0.9 * DEVICES["rtx-4090"].visible_bytes)) == 5


def test_the_cache_is_called_an_upper_bound_where_layers_have_a_window(rows):
    text, numbers = rows("gpt-oss-120b", "--context", 100_000)
    assert "upper bound: some layers stop caching at a window" in text
    assert numbers["KV cache per sequence", "MB"] < numbers["KV cache per token", "bytes"] * 100_000 / 1e6
    assert "upper bound: some" not in rows("deepseek-v3")[0]


def test_layers_with_a_fixed_state_show_it(rows):
    _, numbers = rows("jamba")
    state = CATALOG["jamba"].state_bytes_per_sequence
    assert numbers["fixed state per sequence", "MB"] == printed(state / 1e6, 1)
    assert numbers["state written back", "GB"] == printed(64 * state / 1e9, 1)


def test_nothing_is_called_memory_and_a_gigabyte_is_defined(rows):
    for slug in CATALOG:
        text, _ = rows(slug)
        assert "memory" not in text.lower() and "1 GB = 1e9 bytes" in text and "Resident" in text
        assert max(map(len, text.splitlines())) <= 120


# the plan of layouts


def test_the_plan_shows_the_library_s_numbers_best_first(layouts):
    table = layouts("deepseek-v3", "--batch", 64, "--context", 4096, "--price", 2, "--link", "nvlink4", "--chunk", 2048)
    best = plan(V3, H200, 8, context=4096, batch=64, price_per_hour=2, link=LINKS["nvlink4"], chunk=2048, output=1024)
    row, shown = best[0], numbers_of(next(iter(table.values())))
    values = [row.max_sequences, row.batch, row.tpot * 1e3, row.ttft * 1e3, *row[7:10], row[11], row[10]]
    assert shown == [printed(*pair) for pair in zip(values, (0, 0, 2, 0, 1, 0, 0, 5, 2), strict=True)]
    per_gpu = [numbers_of(text)[5] for text in table.values()]
    assert per_gpu == sorted(per_gpu, reverse=True) and len(per_gpu) == 4


def test_without_a_batch_the_plan_takes_the_largest_within_the_target_and_the_summary_64(layouts, rows):
    argv = "deepseek-v3", "--context", 8192, "--tpot-ms", 30, "--weight-bits", 8
    tp8, = (row for row in plan(V3, H200, 8, context=8192, tpot=0.03, weight_bytes=1) if str(row.layout) == "TP8")
    assert numbers_of(layouts(*argv)["TP8", "EP8, TP2xEP4, TP4xEP2, TP8"])[1] == tp8.batch
    text, _ = rows(*argv)
    assert "One decode step, batch 64," in text and "the largest batch that fits, at most 30 ms a token" in text


def test_an_overhead_is_in_every_time(layouts):
    plain, slower = (next(iter(layouts("mixtral-8x7b", "--batch", 8, "--overhead", f"{t0},0.5").values()))
                     for t0 in (0, 7))
    assert numbers_of(slower)[2:4] == pytest.approx([7 + ms for ms in numbers_of(plain)[2:4]], abs=1)


def test_a_layout_without_numbers_says_why(rows, layouts):
    text, _ = rows("qwen3-235b-a22b", "--weight-block", 128, "--weight-bits", 8)
    assert re.search(r"  TP\w+\+TP8, .*  experts: a width of 1,536 over 8 GPUs leaves 192 each, no whole", text)
    table = layouts("deepseek-v3", "--batch", 128, "--context", 16384, "--tpot-ms", 26)
    assert [text[:12] for text in list(table.values())[1:]] == ["a step of ba", "no more than", "no more than"]
    assert layouts("llama-3.1-70b", "--gpus", 2, "--device", "h100")["DP2", "none"].startswith("no sequence fits: 141")


def test_every_layout_stands_in_one_line(layouts):
    table = layouts("mixtral-8x7b", "--gpus", 4)
    assert sum(len(experts.split(", ")) for _, experts in table) == 3 * 3
    assert list(layouts("mixtral-8x7b", "--gpus", 1)) == [("1 GPU", "1 GPU")]
    assert {experts for _, experts in layouts("llama-3.1-70b")} == {"none"}


def test_a_price_says_what_it_counts(capsys):
    said = []
    for more in ([], ["--output", 1], ["--overhead", "5,0.6"]):
        main([str(argument) for argument in ["deepseek-v3", "--price", 2, "--context", 8192, *more]])
        said.append(capsys.readouterr().out)
    assert "a request of 8,192 prompt and 1,024 output tokens" in said[0] and "\n  at least, where" in said[0]
    assert "8,192 prompt and 1 output token (" in said[1] and "at least, where" not in said[2]


@pytest.mark.parametrize("argv, last", [
    (["deepseek-v3", "--gpus", 7], "No layout over 7 GPUs is legal; try 4 or 8."),
    (["mixtral-8x7b", "--gpus", 11, "--link", "nvlink4", "--network", "ib-ndr"], "try 7 or 8."),
    (["deepseek-v3", "--device", "h100"], "No layout holds the weights and a sequence."),
    (["mixtral-8x7b", "--gpus", 1, "--batch", 40], "No layout holds the weights and 40 sequences."),
    (["deepseek-v3", "--tpot-ms", 0.5], "No layout gives a sequence a token in 0.5 ms."),
    (["deepseek-v3", "--batch", 9, "--tpot-ms", 2.5], "No layout gives 9 sequences a token in 2.5 ms."),
])
def test_where_no_layout_answers_the_last_line_says_so(rows, argv, last):
    text, numbers = rows(*argv)
    assert text.splitlines()[-1].endswith(last) and numbers["total", ""] > 0


@pytest.mark.parametrize("gpus", [6, 7, 12, 30])
def test_the_numbers_of_gpus_that_are_proposed_have_a_layout(rows, gpus):
    proposed = re.findall(r"\d+", rows("deepseek-v3", "--gpus", gpus)[0].splitlines()[-1].partition(" try ")[2])
    assert len(proposed) == 2 and not any(
        all(row.problems for row in plan(V3, H200, int(other), context=0)) for other in proposed)


def test_one_thing_is_not_called_several(rows):
    text, _ = rows("mixtral-8x7b", "--gpus", 1, "--batch", 2, "--context", 1)
    assert "1 token cached" in text
    assert "no more than 1 sequence fits" in rows("mixtral-8x7b", "--gpus", 1, "--batch", 2, "--context", 300_000)[0]
    for argv in (["--batch", 1, "--context", 1, "--price", 2, "--output", 1], ["--batch", 2, "--context", 300_000]):
        assert not re.search(r"\b1 (tokens|layers|sequences|GPUs)\b", rows("mixtral-8x7b", "--gpus", 1, *argv)[0])


def test_numbers_of_a_row_never_run_together(capsys):
    main(["deepseek-v3", "--context", "1", "--tpot-ms", "1000"])
    assert not re.search(r"[A-Z]+\d+,\d{3},\d{3}", capsys.readouterr().out)


def test_a_device_without_a_published_peak_has_no_plan(capsys):
    main(["gpt-oss-120b", "--device", "m4-max"])
    assert capsys.readouterr().out.endswith("  none: this device has no published peak FLOP/s\n")


# a reader's own model, and the lists


def test_a_config_of_one_s_own_is_counted(rows, tmp_path):
    sizes = {"vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = {"model_type": "llama", "intermediate_size": 16} | sizes
    (tmp_path / "config.json").write_text(json.dumps(config))
    for path in (tmp_path / "config.json", tmp_path):
        text, numbers = rows(path)
        assert numbers["total", ""] == 2920 and "none: a dense model" in text
    assert rows(tmp_path, "--family", "llama")[1]["total", ""] == 2920


def test_the_list_names_every_model_device_and_link(capsys):
    main(["--list"])
    names = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line}
    assert {*CATALOG, *DEVICES, *LINKS} <= names


# errors


@pytest.mark.parametrize("argv, message", [
    ([], "give a model of the catalogue or the path of a config.json"),
    (["deepseek-v33"], "'deepseek-v33' is not a file or a known model; did you mean deepseek-v3 or"),
    (["Mixtral"], "did you mean mixtral-8x7b?"),
    (["zzz.json"], "'zzz.json' is not a file or a known model; --list shows those known"),
    (["jamba", "--device", "H20O"], "'H20O' is not a known device; did you mean h20 or"),
    (["jamba", "--dtype", "fp4"], "dtype must be one of bf16, fp8 on h200, got 'fp4'"),
    (["jamba", "--device", "m4-max", "--dtype", "bf16"], "no peak is published"),
    (["jamba", "--gpus", 0], "--gpus and --batch must be at least 1, got 0"),
    (["jamba", "--batch", -1], "--gpus and --batch must be at least 1, got -1"),
    (["jamba", "--batch", "many"], "argument --batch: invalid int value: 'many'"),
    (["jamba", "--context", -1], "context must be at least 0, got -1"),
    (["jamba", "--kv-bits", -8], "--kv-bits must be within 0..64, got -8.0"),
    (["jamba", "--weight-bits", "4,5"], "--weight-bits must be a number or part=number,...,default=number, got '4,5'"),
    (["jamba", "--weight-bits", "experts=4,default=16"], "got the keys experts, default"),
    (["jamba", "--weight-bits", "-4"], "--weight-bits must be within 0.1..64, got -4.0"),
    (["nofile", "--family", "llama"], "config must be a readable file, got 'nofile'"),
    (["jamba", "--tpot-ms", 0], "--tpot-ms must be above 0, got 0.0"),
    (["jamba", "--price", -1], "price_per_hour must be at least 0, got -1.0"),
    (["jamba", "--overhead", "3"], "--overhead must be two numbers, T0_MS,EFFICIENCY, got '3'"),
    (["jamba", "--overhead", "3,0"], "efficiency of overhead must be above 0 and at most 1, got 0"),
    (["jamba", "--prompt", 0], "prompt must be whole and at least 1, got 0"),
    (["jamba", "--output", 0], "output must be whole and at least 1, got 0"),
    (["jamba", "--chunk", 0], "chunk must be whole and at least 1, got 0"),
    (["jamba", "--weight-block", 0], "weight_block must be whole and at least 1, got 0"),
    (["jamba", "--link", "nvlink9"], "'nvlink9' is not a known link; did you mean nvlink"),
    (["jamba", "--network", "ib-ndr"], "--network must come with a --link"),
    (["jamba", "--gpus", 16, "--link", "nvlink4"], "--network must name a link between nodes, such as ib-ndr: 16 GPUs"),
])
def test_a_bad_argument_ends_in_one_sentence_and_status_2(capsys, argv, message):
    *usage, last = refused(capsys, *argv).strip().splitlines()
    assert last.startswith("python -m moe_lib: error: ") and message in last
    assert usage[0].startswith("usage:") and not any("Traceback" in line for line in usage)


def test_a_broken_config_names_the_file(capsys, tmp_path):
    (tmp_path / "mine.json").write_text('{"model_type": "llama",\n')
    assert "mine.json, line 2" in refused(capsys, tmp_path / "mine.json")
    (tmp_path / "mine.json").write_text('{"model_type": "nonesuch"}')
    assert "nonesuch" in refused(capsys, tmp_path / "mine.json")


def test_the_module_runs_from_a_terminal():
    run = lambda *argv: subprocess.run([sys.executable, "-m", "moe_lib", *argv], capture_output=True, text=True)  # noqa: E731
    good, bad = run("mixtral-8x7b", "--gpus", "2"), run("mixtral-8x8b")
    assert good.returncode == 0 and "46,702,792,704" in good.stdout and good.stderr == ""
    assert bad.returncode == 2 and "did you mean mixtral-8x7b" in bad.stderr and bad.stdout == ""


def test_a_pipe_whose_reader_has_gone_ends_quietly():
    command = f"{shlex.quote(sys.executable)} -m moe_lib deepseek-v3 | true"
    assert subprocess.run(command, shell=True, capture_output=True, text=True).stderr == ""
