"""Implementations of structures: registered, chosen, refused, listed, forgotten."""

import pytest
import torch
from torch.nn import functional

from tests.passes.patterns.stand_ins import implemented, operator
from xpu_graph import (
    ConfigError,
    XpuGraph,
    XpuGraphConfig,
    register_structure,
    register_this_as_structure,
    unregister_structure,
)
from xpu_graph.cli import main
from xpu_graph.passes.patterns import implementations
from xpu_graph.passes.patterns.structure import STRUCTURES
from xpu_graph.testing import assert_same

X = torch.randn(4, 16)
WEIGHT = torch.rand(16) + 0.5


def rms_norm(x, weight):
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def fused(x, weight, eps):
    return torch.ops.stand_in.RMSNorm(x, weight, eps)


def other(x, weight, eps):
    return torch.ops.stand_in.RMSNorm(x, weight, eps)


@pytest.fixture(autouse=True)
def _forget():
    yield
    for name in STRUCTURES:
        unregister_structure(name)


def compile_and_compare(function=rms_norm, inputs=(X, WEIGHT), structure="RMSNorm", **config):
    """What the passes of a structure's implementations did, by name."""
    settings = {"opt_level": "level2", "enable_cache": False, "verify": "each", **config}
    backend = XpuGraph(XpuGraphConfig(**settings))
    torch.compiler.reset()
    with torch.no_grad():
        got = torch.compile(function, backend=backend)(*inputs)
    assert_same(got, function(*inputs), bitwise=False, rtol=1e-4, atol=1e-5)
    (graph,) = backend.reports[-1].graphs
    passes = graph.passes.items()
    return {name: record for name, record in passes if name.startswith(structure)}


def test_it_takes_the_place_of_what_was_found():
    register_structure("RMSNorm", "none", fused)
    done = compile_and_compare()
    assert done[f"RMSNorm-{__name__}-fused"].applied == 1


def test_a_decorated_function_stays_as_it_is():
    decorated = register_this_as_structure("RMSNorm", "none", priority=3)(fused)
    assert decorated is fused
    (made,) = [one for one in implementations("none") if one.function is fused]
    assert (made.priority, made.structure, made.target) == (3, "RMSNorm", "none")


def test_an_operator_may_implement_it():
    register_structure("RMSNorm", "none", operator("RMSNorm"))
    assert sum(record.applied for record in compile_and_compare().values()) == 1


def test_with_no_implementation_the_graph_stays():
    assert not compile_and_compare()


def test_another_target_has_none():
    register_structure("RMSNorm", "cpu", fused)
    assert not compile_and_compare()
    assert compile_and_compare(target="cpu")[f"RMSNorm-{__name__}-fused"].applied == 1


def test_below_its_level_it_is_not_used():
    register_structure("RMSNorm", "none", fused, level="level3")
    assert not compile_and_compare()
    assert compile_and_compare(opt_level="level3")[f"RMSNorm-{__name__}-fused"].applied == 1


@pytest.mark.parametrize(("first", "second"), [(0, 5), (5, 0)])
def test_the_one_of_higher_priority_is_taken(first, second):
    register_structure("RMSNorm", "none", fused, priority=first)
    register_structure("RMSNorm", "none", other, priority=second)
    done = compile_and_compare()
    taken = "fused" if first > second else "other"
    assert [name for name, record in done.items() if record.applied] == [
        f"RMSNorm-{__name__}-{taken}"
    ]


def test_where_the_first_refuses_the_second_is_taken():
    register_structure("RMSNorm", "none", fused, check=lambda x, weight, eps: False, priority=1)
    register_structure("RMSNorm", "none", other)
    done = compile_and_compare()
    assert set(done[f"RMSNorm-{__name__}-fused"].refused) == {"its check says no"}
    assert done[f"RMSNorm-{__name__}-other"].applied == 1


@pytest.mark.parametrize(
    ("answer", "applied", "reason"),
    [
        (True, 1, None),
        (None, 1, None),
        (False, 0, "its check says no"),
        ("only on Mondays", 0, "only on Mondays"),
    ],
)
def test_what_a_check_says(answer, applied, reason):
    seen = []

    def check(x, weight, eps):
        seen.append((tuple(x.shape), None if weight is None else tuple(weight.shape), eps))
        return answer

    register_structure("RMSNorm", "none", fused, check=check)
    (record,) = compile_and_compare().values()
    assert record.applied == applied
    # What is refused with its weight is asked about without it, too.
    assert record.refused == ({reason: 2} if reason else {})
    assert seen[0] == ((4, 16), (16,), 1e-6)
    assert (((4, 16), None, 1e-6) in seen) == (reason is not None)


def test_a_check_that_says_something_else_is_an_error():
    register_structure("RMSNorm", "none", fused, check=lambda x, weight, eps: 1)
    with pytest.raises(Exception, match="returned 1; it says True or None"):
        compile_and_compare()


def test_a_users_implementation_comes_before_the_packages():
    def gelu(x):
        return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))

    def taken():
        done = compile_and_compare(gelu, (X,), "GELU")
        return [name for name, record in done.items() if record.applied]

    assert taken() == ["GELU-aten"]
    register_structure("GELU", "none", lambda x, how: functional.gelu(x, approximate=how))
    assert taken() != ["GELU-aten"]
    assert len(taken()) == 1


def test_it_can_be_skipped_by_name():
    register_structure("RMSNorm", "none", fused)
    name = f"RMSNorm-{__name__}-fused"
    assert not compile_and_compare(skip_patterns=(name,))
    with pytest.raises(ConfigError, match="RMSNorm-nobody"):
        XpuGraph(XpuGraphConfig(skip_patterns=("RMSNorm-nobody",)))


def test_unregister():
    register_structure("RMSNorm", "none", fused)
    register_structure("RMSNorm", "none", other)
    register_structure("RMSNorm", "cpu", fused)
    assert unregister_structure("RMSNorm", "none", fused) == 1
    assert unregister_structure("RMSNorm", "none", fused) == 0
    assert unregister_structure("RMSNorm") == 2
    assert not any(one.structure == "RMSNorm" for one in implementations("none"))


def two(x, weight):
    return x


ERRORS = {
    "an unknown structure": (("RmsNorm", "none", fused), {}, "RMSNorm"),
    "an unknown target": (("RMSNorm", "gpu", fused), {}, "unknown target 'gpu'"),
    "other operands": (("RMSNorm", "none", two), {}, r"operands \(x, weight, eps\)"),
    "a check of other operands": (("RMSNorm", "none", fused), {"check": two}, "the check"),
    "no function": (("RMSNorm", "none", 3), {}, "3"),
    "a priority that is no number": (("RMSNorm", "none", fused), {"priority": "high"}, "'high'"),
    "an unknown level": (("RMSNorm", "none", fused), {"level": "level9"}, "level9"),
}


@pytest.mark.parametrize(("arguments", "more", "message"), ERRORS.values(), ids=ERRORS)
def test_wrong_registrations(arguments, more, message):
    with pytest.raises(ConfigError, match=message):
        register_structure(*arguments, **more)
    assert not any(one.function is fused for one in implementations())


def test_twice_the_same_is_refused():
    register_structure("RMSNorm", "none", fused)
    with pytest.raises(ConfigError, match="postfix"):
        register_structure("RMSNorm", "none", fused)
    register_structure("RMSNorm", "none", fused, postfix="again")


def wrong(x, weight, eps):
    return torch.ops.stand_in.RMSNorm(x, weight, 0.1)


def narrower(x, weight, eps):
    return fused(x, weight, eps).half()


@pytest.mark.parametrize(("function", "message"), [(wrong, "differs"), (narrower, "dtype")])
def test_verify_compares_with_what_the_structure_means(function, message):
    register_structure("RMSNorm", "none", fused, verify=True)
    with pytest.raises(ConfigError, match=message):
        register_structure("RMSNorm", "none", function, verify=True)


def test_verify_takes_operands_where_a_check_refuses_the_examples():
    def check(x, weight, eps):
        return x.shape[-1] == 4

    with pytest.raises(ConfigError, match="give others"):
        register_structure("RMSNorm", "none", fused, check=check, verify=True)
    with pytest.raises(ConfigError, match=r"\(x, weight, eps\)"):
        register_structure("RMSNorm", "none", fused, check=check, verify=(X,))
    operands = (torch.randn(3, 4), torch.rand(4), 1e-6)
    register_structure("RMSNorm", "none", fused, check=check, verify=operands)


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_reference_passes_its_own_verification(name):
    with implemented(name, verify=True):
        pass


def test_a_result_of_another_shape_is_refused():
    register_structure("RMSNorm", "none", lambda x, weight, eps: fused(x, weight, eps)[:2])
    (record,) = compile_and_compare().values()
    assert record.applied == 0
    assert "shape (4, 16) would become (2, 16)" in record.refused


def test_a_result_in_a_wider_dtype_is_cast():
    register_structure("RMSNorm", "none", lambda x, weight, eps: fused(x, weight, eps).double())
    (record,) = compile_and_compare().values()
    assert record.applied == 1


def test_a_result_in_a_narrower_dtype_is_refused():
    register_structure("RMSNorm", "none", narrower)
    (record,) = compile_and_compare().values()
    assert "dtype torch.float32 would become torch.float16" in record.refused


def test_a_result_in_another_layout_is_brought_into_the_one_an_output_had():
    def transposed(x, weight, eps):
        return fused(x, weight, eps).t().contiguous().t()

    register_structure("RMSNorm", "none", transposed)
    (record,) = compile_and_compare().values()
    assert record.applied == 1


def test_it_is_in_the_cache_key(tmp_path):
    from xpu_graph import XpuGraphLocalCache

    def reports(**config):
        backend = XpuGraph(XpuGraphConfig(opt_level="level2"), XpuGraphLocalCache(tmp_path))
        torch.compiler.reset()
        with torch.no_grad():
            torch.compile(rms_norm, backend=backend)(X, WEIGHT)
        return backend.reports[-1].graphs[0].cache

    assert reports() == "miss"
    register_structure("RMSNorm", "none", fused)
    assert reports() == "miss"
    assert reports() == "hit"
    unregister_structure("RMSNorm")
    assert reports() == "hit"
    register_structure("RMSNorm", "none", fused, priority=1)
    assert reports() == "miss"


def test_gated_models_keep_their_numbers_with_all_of_them():
    def block(x, gate, up, down, weight):
        y = rms_norm(x, weight)
        return x + functional.linear(
            functional.silu(functional.linear(y, gate)) * functional.linear(y, up), down
        )

    weights = (torch.randn(shape) / 8 for shape in ((24, 16), (24, 16), (16, 24)))
    inputs = (X, *weights, WEIGHT)
    with implemented():
        done = compile_and_compare(block, inputs, "")
    applied = {name.partition("-")[0] for name, record in done.items() if record.applied}
    assert applied & STRUCTURES.keys() == {
        "ParallelLinears",
        "RMSNorm",
        "SwiGLU",
    }


def test_the_command_lists_them(capsys):
    register_structure("RMSNorm", "none", fused, priority=7)
    assert main(["patterns", "--target", "none"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (listed,) = [line for line in lines if f"RMSNorm-{__name__}-fused" in line]
    assert listed.split() == ["none", f"RMSNorm-{__name__}-fused", "+7", "level2"]
    assert all(any(line.startswith(f"  {name} (") for line in lines) for name in STRUCTURES)


def test_the_command_names_a_wrong_target(capsys):
    assert main(["patterns", "--target", "gpu"]) == 1
    assert "unknown target 'gpu'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["RMSNorm", "LayerNorm", "RoPE", "SwiGLU", "GELU"])
def test_an_implementation_may_hold_what_it_implements(name):
    structure = STRUCTURES[name]
    tensors = [one for one in structure.examples() if isinstance(one, torch.Tensor)]

    def program(*given):
        rest = iter(given)
        return structure.reference(
            *(next(rest) if isinstance(one, torch.Tensor) else one for one in structure.examples())
        )

    register_structure(name, "none", structure.reference)
    done = compile_and_compare(program, tensors, name)
    (record,) = [record for one, record in done.items() if one.endswith("reference")]
    told = {"it is what this pattern made", "it is computed in this way already"}
    assert record.applied <= 1
    assert told & record.refused.keys()


def test_a_function_that_draws_random_numbers_is_refused():
    def noisy(x, weight, eps):
        return fused(x, weight, eps) + 0 * torch.rand_like(x)

    register_structure("RMSNorm", "none", noisy)
    (record,) = compile_and_compare().values()
    assert record.applied == 0
    assert set(record.refused) == {
        "the replacement calls aten.rand_like.default, which draws",
    }


def test_a_function_that_does_not_tell_its_parameters():
    with pytest.raises(ConfigError, match="does not tell its parameters"):
        register_structure("RMSNorm", "none", max)


def test_the_name_of_an_operator_does_not_tell_how_torch_was_built():
    register_structure("RMSNorm", "none", torch.ops.stand_in.RMSNorm)
    (name,) = compile_and_compare()
    assert name == "RMSNorm-torch._ops-stand_in.RMSNorm"
