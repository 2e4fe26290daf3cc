// Random numbers: reproducible for a seed and an offset; not those of a device.
#include "aclnn.h"

#include <ATen/CPUGeneratorImpl.h>

using namespace sim;

namespace {
at::Generator generator(int64_t seed, int64_t offset) {
  return at::detail::createCPUGenerator(static_cast<uint64_t>(seed) * 1000003u + static_cast<uint64_t>(offset));
}
// In a capture, seed and offset are tensors, and the offset inside of the graph is added.
at::Generator generator(const Tensor& seed, const Tensor& offset, int64_t inner) {
  return generator(seed.item().toLong(), offset.item().toLong() + inner);
}
}  // namespace

ACLNN(InplaceNormal, (Tensor x, float m, float s, int64_t seed, int64_t offset),
      { x.normal_(m, s, generator(seed, offset)); })
ACLNN(InplaceUniform, (Tensor x, double a, double b, int64_t seed, int64_t offset),
      { x.uniform_(a, b, generator(seed, offset)); })
ACLNN(InplaceRandom, (Tensor x, int64_t a, int64_t b, int64_t seed, int64_t offset),
      { x.random_(a, b, generator(seed, offset)); })
ACLNN(InplaceBernoulli, (Tensor x, Scalar p, int64_t seed, int64_t offset),
      { x.bernoulli_(p.toDouble(), generator(seed, offset)); })
ACLNN(InplaceBernoulliTensor, (Tensor x, Tensor p, int64_t seed, int64_t offset),
      { x.bernoulli_(p, generator(seed, offset)); })
ACLNN(InplaceNormalTensor, (Tensor x, float m, float s, Tensor seed, Tensor offset, int64_t inner),
      { x.normal_(m, s, generator(seed, offset, inner)); })
ACLNN(InplaceUniformTensor, (Tensor x, double a, double b, Tensor seed, Tensor offset, int64_t inner),
      { x.uniform_(a, b, generator(seed, offset, inner)); })
ACLNN(InplaceRandomTensor, (Tensor x, int64_t a, int64_t b, Tensor seed, Tensor offset, int64_t inner),
      { x.random_(a, b, generator(seed, offset, inner)); })
ACLNN(Multinomial, (Tensor x, int64_t n, bool replace, int64_t seed, int64_t offset, Tensor o),
      { put(o, at::multinomial(x, n, replace, generator(seed, offset))); })
ACLNN(Randperm, (int64_t n, int64_t seed, int64_t offset, Tensor o),
      { put(o, at::randperm(n, generator(seed, offset), at::TensorOptions(at::kLong))); })
