"""What torch_npu's operators compute, for target ``npu``; a file an operator.

Nothing here imports torch_npu: the operators are named where they are called. An operator that the
installed torch_npu lacks, or that the chosen compiler cannot take, is not used. What an operator's
documentation asks of its operands is asked in ``check``; ``docs/npu.md`` has it in a table.
"""

from xpu_graph.passes.patterns.targets.npu.add_layer_norm import ADD_LAYER_NORM
from xpu_graph.passes.patterns.targets.npu.add_rms_norm import ADD_RMS_NORM
from xpu_graph.passes.patterns.targets.npu.geglu import GEGLU
from xpu_graph.passes.patterns.targets.npu.gelu import GELU
from xpu_graph.passes.patterns.targets.npu.layer_norm import LAYER_NORM
from xpu_graph.passes.patterns.targets.npu.rms_norm import RMS_NORM
from xpu_graph.passes.patterns.targets.npu.rope import ROPE
from xpu_graph.passes.patterns.targets.npu.sdpa import SDPA
from xpu_graph.passes.patterns.targets.npu.swiglu import SWIGLU

IMPLEMENTATIONS = (
    ADD_LAYER_NORM,
    ADD_RMS_NORM,
    GEGLU,
    GELU,
    LAYER_NORM,
    RMS_NORM,
    ROPE,
    SDPA,
    SWIGLU,
)
