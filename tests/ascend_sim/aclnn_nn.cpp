// Pooling, padding, resampling and losses.
#include "aclnn.h"

using namespace sim::aclnn;

static Tensor widened(const Tensor& x) { return x.to(wide(x.scalar_type())); }

ACLNN(AvgPool2d, Tensor x, Ints kernel, Ints stride, Ints padding, Bool ceil, Bool padded,
      Int divisor, Byte precision, Tensor out) {
  put(out, at::avg_pool2d(widened(x), kernel, stride, padding, ceil, padded,
                          divisor ? std::optional<int64_t>(divisor) : std::nullopt));
}
ACLNN(AvgPool3d, Tensor x, Ints kernel, Ints stride, Ints padding, Bool ceil, Bool padded,
      Int divisor, Tensor out) {
  put(out, at::avg_pool3d(widened(x), kernel, stride, padding, ceil, padded,
                          divisor ? std::optional<int64_t>(divisor) : std::nullopt));
}
ACLNN(AdaptiveAvgPool2d, Tensor x, Ints size, Tensor out) {
  put(out, at::_adaptive_avg_pool2d(widened(x), size));
}
ACLNN(AdaptiveAvgPool3d, Tensor x, Ints size, Tensor out) {
  put(out, at::_adaptive_avg_pool3d(widened(x), size));
}
ACLNN(AdaptiveMaxPool2d, Tensor x, Ints size, Tensor out, Tensor indices) {
  auto [values, places] = at::adaptive_max_pool2d(widened(x), size);
  put(out, values);
  put(indices, places);
}
// The mask serves the backward pass of the device's own kernel; it is zero here.
ACLNN(MaxPool2dWithMask, Tensor x, Ints kernel, Ints stride, Ints padding, Ints dilation,
      Bool ceil, Tensor out, Tensor mask) {
  auto [values, places] =
      at::max_pool2d_with_indices(widened(x), kernel, stride, padding, dilation, ceil);
  put(out, values);
  mask.zero_();
}

ACLNN(MaxPool3dWithArgmax, Tensor x, Ints kernel, Ints stride, Ints padding, Ints dilation,
      Bool ceil, Tensor out, Tensor indices) {
  auto [values, places] =
      at::max_pool3d_with_indices(widened(x), kernel, stride, padding, dilation, ceil);
  put(out, values);
  put(indices, places);
}

ACLNN(ConstantPadNd, Tensor x, Ints padding, Scalar value, Tensor out) {
  put(out, at::constant_pad_nd(x, padding, value));
}
#define PAD(NAME, FUNCTION) \
  ACLNN(NAME, Tensor x, Ints padding, Tensor out) { put(out, FUNCTION(x, padding)); }
PAD(ReflectionPad1d, at::reflection_pad1d)
PAD(ReflectionPad2d, at::reflection_pad2d)
PAD(ReflectionPad3d, at::reflection_pad3d)
PAD(ReplicationPad1d, at::replication_pad1d)
PAD(ReplicationPad2d, at::replication_pad2d)
PAD(ReplicationPad3d, at::replication_pad3d)

static std::optional<double> factor(double scale) {
  return scale > 0 ? std::optional<double>(scale) : std::nullopt;
}

ACLNN(UpsampleNearest1d, Tensor x, Ints size, Tensor out) {
  put(out, at::upsample_nearest1d(widened(x), size));
}
ACLNN(UpsampleNearest2dV2, Tensor x, Ints size, Float rows, Float columns, Tensor out) {
  put(out, at::upsample_nearest2d(widened(x), size, factor(rows), factor(columns)));
}
ACLNN(UpsampleBilinear2d, Tensor x, Ints size, Bool aligned, Double rows, Double columns,
      Tensor out) {
  put(out, at::upsample_bilinear2d(widened(x), size, aligned, factor(rows), factor(columns)));
}

ACLNN(UpsampleBicubic2d, Tensor x, Ints size, Bool aligned, Double rows, Double columns,
      Tensor out) {
  put(out, at::upsample_bicubic2d(widened(x), size, aligned, factor(rows), factor(columns)));
}
ACLNN(UpsampleLinear1d, Tensor x, Ints size, Bool aligned, Double scale, Tensor out) {
  put(out, at::upsample_linear1d(widened(x), size, aligned, factor(scale)));
}
ACLNN(UpsampleTrilinear3d, Tensor x, Ints size, Bool aligned, Double planes, Double rows,
      Double columns, Tensor out) {
  put(out, at::upsample_trilinear3d(widened(x), size, aligned, factor(planes), factor(rows),
                                    factor(columns)));
}
ACLNN(GridSampler2D, Tensor x, Tensor grid, Int interpolation, Int padding, Bool aligned,
      Tensor out) {
  put(out, at::grid_sampler_2d(widened(x), widened(grid), interpolation, padding, aligned));
}
ACLNN(AffineGrid, Tensor theta, Ints size, Bool aligned, Tensor out) {
  put(out, at::affine_grid_generator(widened(theta), size, aligned));
}

// --- losses; reduction: 0 none, 1 mean, 2 sum -------------------------------------------------

ACLNN(MseLoss, Tensor x, Tensor target, Int reduction, Tensor out) {
  put(out, at::mse_loss(widened(x), widened(target), reduction));
}
ACLNN(L1Loss, Tensor x, Tensor target, Int reduction, Tensor out) {
  put(out, at::l1_loss(widened(x), widened(target), reduction));
}
ACLNN(SmoothL1Loss, Tensor x, Tensor target, Int reduction, Float beta, Tensor out) {
  put(out, at::smooth_l1_loss(widened(x), widened(target), reduction, beta));
}
ACLNN(SoftMarginLoss, Tensor x, Tensor target, Int reduction, Tensor out) {
  put(out, at::soft_margin_loss(widened(x), widened(target), reduction));
}
ACLNN(KlDiv, Tensor x, Tensor target, Int reduction, Bool log_target, Tensor out) {
  put(out, at::kl_div(widened(x), widened(target), reduction, log_target));
}
ACLNN(BinaryCrossEntropy, Tensor x, Tensor target, Tensor weight, Int reduction, Tensor out) {
  put(out, at::binary_cross_entropy(x, target, opt(weight), reduction));
}
ACLNN(BinaryCrossEntropyWithLogits, Tensor x, Tensor target, Tensor weight, Tensor positive,
      Int reduction, Tensor out) {
  put(out, at::binary_cross_entropy_with_logits(x, target, opt(weight), opt(positive), reduction));
}
ACLNN(NLLLoss, Tensor x, Tensor target, Tensor weight, Int reduction, Int ignored, Tensor out,
      Tensor total) {
  auto each = weight.defined() ? opt(widened(weight)) : std::nullopt;
  auto [loss, sum] =
      at::nll_loss_forward(widened(x), target.to(at::kLong), each, reduction, ignored);
  put(out, loss);
  put(total, sum);
}
ACLNN(NLLLoss2d, Tensor x, Tensor target, Tensor weight, Int reduction, Int ignored, Tensor out,
      Tensor total) {
  auto each = weight.defined() ? opt(widened(weight)) : std::nullopt;
  auto [loss, sum] =
      at::nll_loss2d_forward(widened(x), target.to(at::kLong), each, reduction, ignored);
  put(out, loss);
  put(total, sum);
}
