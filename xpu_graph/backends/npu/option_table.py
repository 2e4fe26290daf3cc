"""The options of target ``npu``: one row each, plain data.

The names are those of ``npugraph_ex.CompilerConfig`` (torch_npu 2.13.0), which are flat; column
``torchair`` is where ``torchair.CompilerConfig`` keeps the same value. The tests compare both with
the installed packages (``tests/npu/test_option_drift.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xpu_graph.errors import ConfigError

MAX_AUTOTUNE = "max-autotune"
REDUCE_OVERHEAD = "reduce-overhead"
NPUGRAPH_EX = "npugraph_ex"
DEVICE_GRAPH = "device_graph"
INDUCTOR = "inductor"

GE_MODES = (MAX_AUTOTUNE, REDUCE_OVERHEAD, NPUGRAPH_EX)
"""Modes of compiler ``ge``."""

TORCHAIR_MODES = (MAX_AUTOTUNE, REDUCE_OVERHEAD)
"""The modes that torchair compiles, and so the ones that take its nested groups."""

COMPILERS = ("ge", DEVICE_GRAPH, INDUCTOR, NPUGRAPH_EX)
"""Legal values of ``compiler``; ``npugraph_ex`` is short for ``ge`` in that mode."""

ENGINES = (*GE_MODES, DEVICE_GRAPH, INDUCTOR)
"""What compiles in the end: a mode of ``ge``, or another compiler."""

INT64_MAX = 2**63 - 1

_A = frozenset({REDUCE_OVERHEAD, NPUGRAPH_EX})
_AG = _A | {MAX_AUTOTUNE}
_AD = _A | {DEVICE_GRAPH}
_AGD = _AG | {DEVICE_GRAPH}
_N = frozenset({NPUGRAPH_EX})
_ND = _N | {DEVICE_GRAPH}
_ALL = frozenset(ENGINES)


@dataclass(frozen=True)
class OptionSpec:
    """What may be said for one option.

    Attributes:
        name: the key.
        kind: kind of value; the checks of ``option_values.py`` are by kind.
        default: the value where none is given.
        choices: all legal values of a kind with choices.
        lo: smallest legal number.
        hi: largest legal number.
        modes: the engines where it has an effect.
        cache: ``"key"``: the value is part of the cache key; ``"bypass"``: with any value but the
            default, what is compiled must not be kept.
    """

    name: str
    kind: str
    default: Any
    choices: tuple[str, ...] = ()
    lo: int | None = None
    hi: int | None = None
    modes: frozenset[str] = frozenset()
    cache: str = "key"


@dataclass(frozen=True, kw_only=True)
class VendorOption(OptionSpec):
    """A row of the table.

    Attributes:
        doc: what it does, in one sentence.
        torchair: dotted path in ``torchair.CompilerConfig``; None where torchair has none.
        invert: whether torchair holds the opposite.
        entry: who acts on it: the vendor's ``"compiler"``, or our own AOT call (``"backend"``).
    """

    doc: str
    torchair: str | None = None
    invert: bool = False
    entry: str = "compiler"


def is_int(value: Any) -> bool:
    """Whether a value is a number that is not True or False."""
    return isinstance(value, int) and not isinstance(value, bool)


def wrong(spec: OptionSpec, value: Any, where: str, legal: str) -> ConfigError:
    """The error for an illegal value of an option; ``legal`` says what to give."""
    kind = type(value).__name__
    return ConfigError(
        f"option {spec.name!r} for {where}: {value!r} ({kind}) is not legal; {legal}"
    )


_ROWS = (
    VendorOption(
        "force_eager",
        "bool",
        False,
        modes=_AGD,
        torchair="debug.run_eagerly",
        doc="Run the graph, after all FX passes, operator by operator, without capture.",
    ),
    VendorOption(
        "force_recapture",
        "bool",
        False,
        modes=_ND,
        doc="Capture again at every call after the first; needs a capture_limit of 2 or more.",
    ),
    VendorOption(
        "capture_limit",
        "int",
        64,
        lo=1,
        hi=INT64_MAX,
        modes=_AD,
        torchair="debug.aclgraph.static_capture_size_limit",
        doc="How many captures one graph may have before it runs eagerly for good.",
    ),
    VendorOption(
        "capture_error_mode",
        "str",
        "global",
        choices=("global", "thread_local", "relaxed"),
        modes=_ND,
        doc="Which threads' unsafe calls make a running capture fail.",
    ),
    VendorOption(
        "use_graph_pool",
        "pool",
        None,
        modes=_AD,
        cache="bypass",
        torchair="aclgraph_config.use_custom_pool",
        doc="The memory pool that captures take from, a handle of torch.npu.graph_pool_handle().",
    ),
    VendorOption(
        "reuse_graph_pool_in_same_fx",
        "bool",
        True,
        modes=_A,
        torchair="debug.aclgraph.disable_mempool_reuse_in_same_fx",
        invert=True,
        doc="Let the captures of one graph share memory, so that a call may overwrite the outputs "
        "of an earlier one.",
    ),
    VendorOption(
        "clone_input",
        "bool",
        True,
        modes=_AD,
        torchair="debug.aclgraph.clone_input",
        doc="Copy inputs into buffers of the capture; False captures the tensors of the first "
        "call themselves.",
    ),
    VendorOption(
        "clone_output",
        "bool",
        False,
        modes=_AD,
        torchair="debug.aclgraph.enable_output_clone",
        doc="Hand out copies of the outputs that share no memory with an input.",
    ),
    VendorOption(
        "inplace_pass",
        "bool",
        True,
        modes=_A,
        torchair="debug.aclgraph.disable_reinplace_inplaceable_ops_pass",
        invert=True,
        doc="Turn operators on intermediate values into their in-place forms.",
    ),
    VendorOption(
        "input_inplace_pass",
        "bool",
        True,
        modes=_A,
        torchair="debug.aclgraph.disable_reinplace_input_mutated_ops_pass",
        invert=True,
        doc="Turn an operator whose result is copied into an input into its in-place form.",
    ),
    VendorOption(
        "remove_noop_ops",
        "bool",
        True,
        modes=_AG,
        torchair="experimental_config.remove_noop_ops",
        doc="Remove operators that change nothing.",
    ),
    VendorOption(
        "pattern_fusion_pass",
        "bool",
        True,
        modes=_AG,
        torchair="experimental_config.pattern_fusion_pass",
        doc="Apply the vendor's fusion patterns and those registered with the vendor.",
    ),
    VendorOption(
        "remove_cat_ops",
        "bool",
        True,
        modes=_A,
        torchair="debug.aclgraph.remove_cat_ops",
        doc="Let operators write into slices of a concatenation's result.",
    ),
    VendorOption(
        "frozen_parameter",
        "bool",
        False,
        modes=_AGD,
        torchair="experimental_config.frozen_parameter",
        doc="Take the addresses of parameters as fixed and do not check them.",
    ),
    VendorOption(
        "static_kernel_compile",
        "bool",
        False,
        modes=_A,
        torchair="experimental_config.aclgraph._aclnn_static_shape_kernel",
        doc="Compile kernels for the shapes of the first call.",
    ),
    VendorOption(
        "disable_static_kernel_compile_cache",
        "bool",
        False,
        modes=_N,
        doc="Compile static kernels again although compiled ones are at hand.",
    ),
    VendorOption(
        "super_kernel_optimize",
        "bool",
        False,
        modes=_A,
        torchair="experimental_config.aclgraph._super_kernel_optimize",
        doc="Fuse captured kernels into super kernels.",
    ),
    VendorOption(
        "super_kernel_optimize_options",
        "super_kernel_optimize",
        None,
        modes=_A,
        torchair="experimental_config.aclgraph._super_kernel_optimize_options",
        doc="Settings of super kernels, by name.",
    ),
    VendorOption(
        "super_kernel_debug_options",
        "super_kernel_debug",
        None,
        modes=_A,
        torchair="experimental_config.aclgraph._super_kernel_debug_options",
        doc="Settings to debug super kernels with, by name.",
    ),
    VendorOption(
        "post_grad_custom_pre_pass",
        "pass",
        None,
        modes=_AG,
        torchair="post_grad_custom_pre_pass",
        doc="A function of (graph module, example inputs, vendor config) that changes the graph "
        "before the vendor's FX passes.",
    ),
    VendorOption(
        "post_grad_custom_post_pass",
        "pass",
        None,
        modes=_AG,
        torchair="post_grad_custom_post_pass",
        doc="The same, after the vendor's fusion patterns; the graph has to stay functional.",
    ),
    VendorOption(
        "dump_tensor_data",
        "bool",
        False,
        modes=_AG,
        cache="bypass",
        torchair="dump_config.enable_dump",
        doc="Write the tensors that operators make to files.",
    ),
    VendorOption(
        "data_dump_stage",
        "str",
        "optimized",
        choices=("optimized", "original"),
        modes=_A,
        torchair="dump_config.data_dump_stage",
        doc="Whether the graph whose tensors are dumped is the one after or before the passes.",
    ),
    VendorOption(
        "data_dump_dir",
        "dir",
        "./",
        modes=_AG,
        torchair="dump_config.dump_path",
        doc="The directory that dumps are written to; it has to exist.",
    ),
    VendorOption(
        "deadlock_check",
        "bool",
        False,
        modes=_N,
        cache="bypass",
        doc="Look for deadlocks between the streams of a capture.",
    ),
    VendorOption(
        "record_statistics_debug_info",
        "bool",
        False,
        modes=_N,
        doc="Write minimum, maximum, mean and norm of inputs and outputs to the debug log.",
    ),
    VendorOption(
        "unsafe_skip_npugraph_capture_validation",
        "bool",
        False,
        modes=_N,
        doc="Replay without looking whether addresses have moved; taken only with "
        "allow_unsafe=True, because moved memory is then read where it was.",
    ),
    VendorOption(
        "_vllm_aclnn_static_kernel_sym_index",
        "int",
        0,
        lo=0,
        hi=INT64_MAX,
        modes=_A,
        torchair="experimental_config.aclgraph._aclnn_static_shape_kernel_sym_index",
        doc="With force_eager and static_kernel_compile: the size whose value decides whether "
        "static kernels are compiled.",
    ),
    VendorOption(
        "_vllm_aclnn_static_kernel_sym_range",
        "int_list",
        None,
        modes=_A,
        torchair="experimental_config.aclgraph._aclnn_static_shape_kernel_sym_value_range",
        doc="The values of that size for which they are; None for all.",
    ),
    VendorOption(
        "custom_decompositions",
        "decompositions",
        {},
        modes=_ALL,
        entry="backend",
        doc="Operator -> the function it is decomposed with before the vendor sees the graph.",
    ),
    VendorOption(
        "keep_inference_input_mutations",
        "bool",
        True,
        modes=_AG,
        torchair="experimental_config.keep_inference_input_mutations",
        entry="backend",
        doc="Keep writes to inputs in the graph; False copies results back after every call.",
    ),
    VendorOption(
        "partition_fn",
        "partition_fn",
        None,
        modes=_AG,
        entry="backend",
        doc='How a joint graph is cut: "DEFAULT", "MINCUT", a dotted name or a callable.',
    ),
    VendorOption(
        "dim_gears",
        "gears",
        {},
        modes=frozenset({MAX_AUTOTUNE}),
        entry="backend",
        doc="Name of an input -> dimension -> the sizes it may have.",
    ),
)

OPTIONS = {row.name: row for row in _ROWS}
"""Name -> row."""

SYNONYMS = {
    "run_eagerly": "force_eager",
    "enable_output_clone": "clone_output",
    "static_capture_size_limit": "capture_limit",
    "memory_pool": "use_graph_pool",
    "clone_args": "clone_input",
    "clone_inputs": "clone_input",
    "disable_mempool_reuse_in_same_fx": "reuse_graph_pool_in_same_fx",
    "disable_reinplace_inplaceable_ops_pass": "inplace_pass",
    "disable_reinplace_input_mutated_ops_pass": "input_inplace_pass",
    "_aclnn_static_shape_kernel": "static_kernel_compile",
    "pre_pass": "post_grad_custom_pre_pass",
    "post_pass": "post_grad_custom_post_pass",
    "enable_dump": "dump_tensor_data",
    "dump_path": "data_dump_dir",
}
"""Names from elsewhere that are not taken -> the option they stand for."""

OPPOSITES = frozenset(name for name in SYNONYMS if name.startswith("disable_"))
"""Synonyms whose value is the opposite of the option's."""

LEGACY = {"use_custom_pool": "use_graph_pool"}
"""Names that are still taken, with a DeprecationWarning -> the option."""
