"""Findings of the figures of memory turn with their rows."""


from moe_lib import figures


def row(label, **fields):
    return {"label": label, "series": "mixture of experts", "beyond": 1e5, "expert": 1e8, **fields}


def test_the_model_with_the_largest_cache_is_named_first():
    one, two = row("a, GQA", size=2e5), row("b, MLA", size=1e5)
    assert figures.cache_per_token([one, two], []).usermeta["finding"] == "For a token a keeps 2.0 times the cache of b"
    one["size"] = 5e4
    assert figures.cache_per_token([one, two], []).usermeta["finding"] == "For a token b keeps 2.0 times the cache of a"


def test_equal_models_are_not_ranked():
    same = [row("a, 1 of 8", size=2e5, ratio=1, limit=8), row("b, 2 of 8", size=2e5, ratio=1, limit=8)]
    assert figures.cache_per_token(same, []).usermeta["finding"] == "For a token a keeps no more cache than any other"
    assert figures.sparsity(same).usermeta["finding"] == "a holds no more than what a token uses"


def test_the_sparsest_model_is_named_with_its_limit():
    rows = [row("a, 1 of 8", ratio=6, limit=8), row("b, 2 of 8", ratio=3, limit=4)]
    assert figures.sparsity(rows).usermeta["finding"] == "a holds 6.0 times what a token uses, of at most 8.0"
    rows[1]["ratio"] = 12
    assert figures.sparsity(rows).usermeta["finding"].startswith("b holds 12 times")


def test_the_model_that_spares_most_reading_is_named():
    context, same = [1024, 2048], {"a": [8, 8], "b": [8, 8]}
    said = [figures.cache_by_context(context, same, read).usermeta["finding"]
            for read in ({"a": [8, 2], "b": [8, 4]}, {"a": [8, 6], "b": [8, 4]})]
    assert "a step of a reads 2.0 bytes" in said[0] and "a step of b reads 4.0 bytes" in said[1]
