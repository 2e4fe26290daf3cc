// Matrix products, normalisations, gated activations, convolutions, losses.
#include "ge.h"

namespace sim::graph {

namespace {

using at::Tensor;

Tensor turned(const Tensor& x, bool turn) { return turn ? x.transpose(-1, -2) : x; }

Tensor product(const Call& call, const char* first, const char* second, bool with_bias) {
  auto left = turned(call[0], call.b(first, false));
  auto right = turned(call[1], call.b(second, false));
  auto bias = with_bias ? call.optional(2) : std::nullopt;
  if (bias && left.dim() == 2 && right.dim() == 2 && bias->scalar_type() == left.scalar_type()) {
    return at::addmm(*bias, left, right);
  }
  auto result = at::matmul(left, right);
  return bias ? (result + *bias).to(result.scalar_type()) : result;
}
Tensors matrices(const Call& call) {
  return {product(call, "transpose_x1", "transpose_x2", true)};
}
Tensors batches(const Call& call) { return {product(call, "adj_x1", "adj_x2", false)}; }

const Kernels products({
    {"BatchMatMul", batches},
    {"BatchMatMulV2", batches},
    {"BatchMatMulV3", batches},
    {"MatMul", matrices},
    {"MatMulV2", matrices},
    {"MatMulV3", matrices},
    {"FusedMatMul",
     [](const Call& call) {
       auto result = product(call, "transpose_x1", "transpose_x2", true);
       auto kind = call.s("fused_op_type", "");
       if (kind.empty()) return Tensors{result};
       if (kind == "add") return Tensors{result + call[3]};
       if (kind == "mul") return Tensors{result * call[3]};
       if (kind == "relu") return Tensors{at::relu(result)};
       if (kind == "gelu_erf") return Tensors{at::gelu(result)};
       if (kind == "gelu_tanh") return Tensors{at::gelu(result, "tanh")};
       throw Refused(kFeatureNotSupported, "fused_op_type " + kind + " is not simulated");
     }},
    {"TransposeBatchMatMul",
     [](const Call& call) {
       auto permuted = [&](Tensor x, const char* name) {
         auto order = call.list_i(name);
         return order.empty() ? x : x.permute(order);
       };
       auto result = at::matmul(permuted(call[0], "perm_x1"), permuted(call[1], "perm_x2"));
       return Tensors{permuted(result, "perm_y")};
     }},
});

Tensors layer_norm(const Tensor& x, const Ints& shape, const std::optional<Tensor>& weight,
                   const std::optional<Tensor>& bias, double eps) {
  auto [result, mean, rstd] = at::native_layer_norm(x, shape, weight, bias, eps);
  return {result, mean, rstd};
}

// The root mean square of the dimensions that the weight has; computed in float32.
Tensors rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  Ints dims;
  for (int64_t dim = -weight.dim(); dim < 0; ++dim) dims.push_back(dim);
  auto value = wide(x);
  auto rstd = at::rsqrt(at::mean(value * value, dims, true) + eps);
  return {(value * rstd * wide(weight)).to(x.scalar_type()), rstd};
}

Tensor batch_norm(const Call& call, double eps) {
  return std::get<0>(at::native_batch_norm(call[0], call[1], call[2], call[3], call[4], false, 0,
                                           eps));
}

const Kernels normalisations({
    {"LayerNormV3",
     [](const Call& call) {
       auto first = at::maybe_wrap_dim(call.i("begin_norm_axis", 0), call[0].dim());
       auto shape = call[0].sizes().slice(first).vec();
       return layer_norm(call[0], shape, call[1], call[2], call.f("epsilon", 1e-5));
     }},
    {"LayerNormV4",
     [](const Call& call) {
       return layer_norm(call[0], call.ints(1), call.optional(2), call.optional(3),
                         call.f("epsilon", 1e-5));
     }},
    {"RmsNorm",
     [](const Call& call) { return rms_norm(call[0], call[1], call.f("epsilon", 1e-6)); }},
    {"AddRmsNorm",
     [](const Call& call) {
       Tensor sum = (wide(call[0]) + wide(call[1])).to(call[0].scalar_type());
       auto results = rms_norm(sum, call[2], call.f("epsilon", 1e-6));
       results.push_back(sum);
       return results;
     }},
    {"AddRmsNormCast",  // the first result is the second in float32
     [](const Call& call) {
       Tensor sum = (wide(call[0]) + wide(call[1])).to(call[0].scalar_type());
       auto results = rms_norm(sum, call[2], call.f("epsilon", 1e-6));
       return Tensors{results[0].to(at::kFloat), results[0], results[1], sum};
     }},
    {"GroupNorm",  // its third result is the variance, not what torch gives
     [](const Call& call) {
       auto x = call[0].contiguous();
       auto [result, mean, rstd] = at::native_group_norm(
           x, call[1], call[2], x.size(0), x.size(1), x.numel() / (x.size(0) * x.size(1)),
           call.i("num_groups", 1), call.f("eps", 1e-4));
       return Tensors{result, mean, 1 / (rstd * rstd) - call.f("eps", 1e-4)};
     }},
    {"BNInfer",
     [](const Call& call) { return Tensors{batch_norm(call, call.f("epsilon", 1e-5))}; }},
    {"BatchNormV3",
     [](const Call& call) {
       auto mean = call[3].clone(), variance = call[4].clone();
       auto [result, m, r] = at::native_batch_norm(
           call[0], call[1], call[2], mean, variance, call.b("is_training", true),
           call.f("momentum", 0.1), call.f("epsilon", 1e-5));
       return Tensors{result, mean, variance, m, r};
     }},
});

// --- gates and rotations ------------------------------------------------------------------------

std::pair<Tensor, Tensor> halves(const Call& call) {
  auto parts = call[0].chunk(2, call.i("dim", -1));
  return {parts[0], parts[1]};
}

// Modes: 0 the halves of the last dimension are pairs, 1 neighbours are.
Tensor rotated(const Tensor& x, int64_t mode) {
  if (mode == 0) {
    auto parts = x.chunk(2, -1);
    return at::cat({-parts[1], parts[0]}, -1);
  }
  if (mode == 1) {
    auto pairs = x.unflatten(-1, {-1, 2});
    return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
  }
  throw Refused(kFeatureNotSupported, "rotary mode " + std::to_string(mode) + " is not simulated");
}
Tensor rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine, int64_t mode) {
  auto value = wide(x);
  return (value * wide(cosine) + rotated(value, mode) * wide(sine)).to(x.scalar_type());
}

const Kernels gates({
    {"SwiGlu",
     [](const Call& call) {
       auto [gate, value] = halves(call);
       return Tensors{(at::silu(wide(gate)) * wide(value)).to(call[0].scalar_type())};
     }},
    {"GeGluV2",
     [](const Call& call) {
       auto [left, right] = halves(call);
       if (call.b("activate_left", false)) std::swap(left, right);
       auto gate = at::gelu(right, call.i("approximate", 1) == 1 ? "tanh" : "none");
       return Tensors{left * gate, gate};
     }},
    {"GLU", [](const Call& call) { return Tensors{at::glu(call[0], call.i("dim", -1))}; }},
    {"RotaryMul",
     [](const Call& call) { return Tensors{rotary(call[0], call[1], call[2], 0)}; }},
    {"RotaryPositionEmbedding",
     [](const Call& call) {
       return Tensors{rotary(call[0], call[1], call[2], call.i("mode", 0))};
     }},
    {"ApplyRotaryPosEmb",
     [](const Call& call) {
       int64_t mode = call.s("rotary_mode", "half") == "interleave" ? 1 : 0;
       return Tensors{rotary(call[0], call[2], call[3], mode),
                      rotary(call[1], call[2], call[3], mode)};
     }},
});

const Kernels images({
    {"AdaptiveAvgPool2d",
     [](const Call& call) {
       return Tensors{at::adaptive_avg_pool2d(call[0], call.list_i("output_size"))};
     }},
    {"AvgPoolV2",  // padded above, below, left, right
     [](const Call& call) {
       auto window = call.list_i("ksize"), steps = call.list_i("strides");
       auto pads = call.list_i("pads");
       auto divisor = call.i("divisor_override", 0);
       return Tensors{at::avg_pool2d(call[0], {window[2], window[3]}, {steps[2], steps[3]},
                                     {pads[0], pads[2]}, call.b("ceil_mode", false),
                                     !call.b("exclusive", true),
                                     divisor ? std::optional<int64_t>(divisor) : std::nullopt)};
     }},
    {"MaxPoolWithArgmaxV1",  // the sizes are the second and third of four
     [](const Call& call) {
       auto window = call.list_i("ksize"), steps = call.list_i("strides");
       auto pads = call.list_i("pads"), spread = call.list_i("dilation");
       auto [values, places] = at::max_pool2d_with_indices(
           call[0], {window[1], window[2]}, {steps[1], steps[2]}, {pads[1], pads[2]},
           {spread[1], spread[2]}, call.b("ceil_mode", false));
       return Tensors{values, places};
     }},
    {"Conv2D",  // of images [batch, channels, rows, columns]; padded above, below, left, right
     [](const Call& call) {
       auto steps = call.list_i("strides"), pads = call.list_i("pads");
       auto spread = call.list_i("dilations");
       auto x = at::constant_pad_nd(call[0], {pads[2], pads[3], pads[0], pads[1]});
       return Tensors{at::convolution(x, call[1], call.optional(2), {steps[2], steps[3]}, {0, 0},
                                      {spread[2], spread[3]}, false, {0, 0},
                                      call.i("groups", 1))};
     }},
});

int64_t reduction_of(const Call& call) {
  auto reduction = call.s("reduction", "mean");
  return reduction == "none" ? 0 : reduction == "mean" ? 1 : 2;
}

const Kernels losses({
    {"MseLoss",
     [](const Call& call) {
       return Tensors{at::mse_loss(call[0], call[1], reduction_of(call))};
     }},
    {"NLLLoss",
     [](const Call& call) {
       auto [loss, weight] = at::nll_loss_forward(call[0], call[1].to(at::kLong), call.optional(2),
                                                  reduction_of(call),
                                                  call.i("ignore_index", -100));
       return Tensors{loss, weight};
     }},
});

}  // namespace
}  // namespace sim::graph
