// Normalisations and softmax. Statistics are float32 where the outputs for them are.
#include "aclnn.h"

using namespace sim::aclnn;

static Tensor widened(const Tensor& x) { return x.defined() ? x.to(wide(x.scalar_type())) : x; }

ACLNN(Softmax, Tensor x, Int dim, Tensor out) { put(out, at::softmax(x, dim)); }
ACLNN(LogSoftmax, Tensor x, Int dim, Tensor out) { put(out, at::log_softmax(x, dim)); }

ACLNN(LayerNorm, Tensor x, Ints shape, Tensor weight, Tensor bias, Double eps, Tensor out,
      Tensor mean, Tensor rstd) {
  auto [result, m, r] =
      at::native_layer_norm(widened(x), shape, opt(widened(weight)), opt(widened(bias)), eps);
  put(out, result);
  put(mean, m);
  put(rstd, r);
}
ACLNN(AddLayerNorm, Tensor x, Tensor y, Tensor weight, Tensor bias, Tensor added, Double eps,
      Bool with_sum, Tensor out, Tensor mean, Tensor rstd, Tensor sum) {
  auto total = widened(x) + widened(y);
  if (added.defined()) total = total + widened(added);
  LayerNorm_body(total, weight.sizes().vec(), weight, bias, eps, out, mean, rstd);
  if (with_sum) put(sum, total);
}

// The root mean square of the dimensions that the weight has; the second result is 1 / it.
static void rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& out,
                     const Tensor& rstd) {
  Ints dims;
  for (int64_t dim = -weight.dim(); dim < 0; ++dim) dims.push_back(dim);
  auto wide_x = widened(x);
  auto r = at::rsqrt(at::mean(wide_x * wide_x, dims, true) + eps);
  put(out, wide_x * r * widened(weight));
  put(rstd, r);
}

ACLNN(RmsNorm, Tensor x, Tensor weight, Double eps, Tensor out, Tensor rstd) {
  rms_norm(x, weight, eps, out, rstd);
}
ACLNN(GemmaRmsNorm, Tensor x, Tensor weight, Double eps, Tensor out, Tensor rstd) {
  rms_norm(x, widened(weight) + 1, eps, out, rstd);
}
ACLNN(AddRmsNorm, Tensor x, Tensor y, Tensor weight, Double eps, Tensor out, Tensor rstd,
      Tensor sum) {
  put(sum, widened(x) + widened(y));
  rms_norm(sum, weight, eps, out, rstd);
}
ACLNN(InplaceAddRmsNorm, Tensor x, Tensor y, Tensor weight, Double eps, Tensor rstd) {
  put(y, widened(x) + widened(y));
  rms_norm(y, weight, eps, x, rstd);
}

ACLNN(GroupNorm, Tensor x, Tensor weight, Tensor bias, Int n, Int c, Int hw, Int groups,
      Double eps, Tensor out, Tensor mean, Tensor rstd) {
  auto [result, m, r] = at::native_group_norm(widened(x).contiguous(), opt(widened(weight)),
                                              opt(widened(bias)), n, c, hw, groups, eps);
  put(out, result);
  put(mean, m);
  put(rstd, r);
}
ACLNN(GroupNormSilu, Tensor x, Tensor weight, Tensor bias, Int groups, Double eps, Tensor out,
      Tensor mean, Tensor rstd) {
  auto c = x.size(1);
  auto [result, m, r] =
      at::native_group_norm(widened(x).contiguous(), opt(widened(weight)), opt(widened(bias)),
                            x.size(0), c, x.numel() / (x.size(0) * c), groups, eps);
  put(out, at::silu(result));
  put(mean, m);
  put(rstd, r);
}
ACLNN(BatchNorm, Tensor x, Tensor weight, Tensor bias, Tensor running_mean, Tensor running_var,
      Bool training, Double momentum, Double eps, Tensor out, Tensor mean, Tensor rstd) {
  auto kept_mean = widened(running_mean), kept_var = widened(running_var);
  auto [result, m, r] =
      at::native_batch_norm(widened(x), opt(widened(weight)), opt(widened(bias)), opt(kept_mean),
                            opt(kept_var), training, momentum, eps);
  put(out, result);
  if (!training) return;
  put(mean, m);
  put(rstd, r);
  // A half type was widened to a copy; float32 statistics are the running ones themselves.
  if (running_mean.defined()) running_mean.copy_(kept_mean);
  if (running_var.defined()) running_var.copy_(kept_var);
}

ACLNN(Renorm, Tensor x, Scalar p, Int dim, Scalar limit, Tensor out) {
  put(out, at::renorm(x, p, dim, limit));
}
ACLNN(InplaceRenorm, Tensor x, Scalar p, Int dim, Scalar limit) {
  put(x, at::renorm(x, p, dim, limit));
}
