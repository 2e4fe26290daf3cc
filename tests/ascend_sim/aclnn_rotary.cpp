// Rotary embeddings; they are computed in float32.
#include "aclnn.h"

using namespace sim::aclnn;

// Modes: 0 the halves of the last dimension are pairs, 1 neighbours are.
static Tensor rotate(const Tensor& x, int64_t mode) {
  TORCH_CHECK(mode == 0 || mode == 1, "mode ", mode, " of a rotary embedding is not simulated");
  if (mode == 0) {
    auto halves = x.chunk(2, -1);
    return at::cat({-halves[1], halves[0]}, -1);
  }
  auto pairs = x.unflatten(-1, {-1, 2});
  return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
}

static Tensor rotary(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode) {
  auto wide_x = x.to(at::kFloat);
  return wide_x * cos.to(at::kFloat) + rotate(wide_x, mode) * sin.to(at::kFloat);
}

ACLNN(RotaryPositionEmbedding, Tensor x, Tensor cos, Tensor sin, Int mode, Tensor out) {
  put(out, rotary(x, cos, sin, mode));
}
ACLNN(ApplyRotaryPosEmbV2, Tensor q, Tensor k, Tensor cos, Tensor sin, Int layout, Text mode) {
  put(q, rotary(q, cos, sin, mode == "interleave" ? 1 : 0));
  put(k, rotary(k, cos, sin, mode == "interleave" ? 1 : 0));
}
