// Attention of one batch entry, for training and for inference. Everything is float32.
//
// A mask is true where a key is hidden. Sparse modes: 0 the mask as it is, 1 the whole mask,
// 2 causal from the upper left, 3 causal from the lower right, 4 a band of the tokens before and
// after, counted from the lower right. From 2 on the mask given is a fixed one and is not read.
#pragma once

#include "aclnn.h"

namespace sim::aclnn {

struct Rules {
  double scale;
  int64_t before, after;
  int64_t sparse;
  double keep = 1;
  bool shift_scaled = false;  // whether the shift is added before the product is scaled
};

// What attention gives: [heads, queries, width], and [heads, queries, 1] twice.
struct Attended {
  Tensor out, largest, sum;
};

// q [heads, queries, width], k and v [key heads, keys, width]; the others may be absent: a shift of
// the scores, the mask, what dropout keeps, a learned score a head that takes weight from all keys.
Attended attend(const Tensor& q, Tensor k, Tensor v, const Tensor& shift, const Tensor& mask,
                const Tensor& kept, const Tensor& sink, const Rules& rules);

// A view [batch, heads, tokens, width] of a tensor in a layout with batches.
Tensor as_bnsd(const Tensor& x, const std::string& layout, int64_t heads);

// The entry of a batch of an optional tensor [batch or 1, heads or 1, queries, keys], [batch or 1,
// queries, keys] or [queries, keys], cut to the lengths.
Tensor of_batch(const Tensor& x, int64_t batch, int64_t queries, int64_t keys);

}  // namespace sim::aclnn
