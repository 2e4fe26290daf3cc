// Functions of lists of tensors, member by member.
#include "aclnn.h"

using namespace sim::aclnn;

template <class Function>
static void each(const Tensors& outs, Function function) {
  for (size_t index = 0; index < outs.size(); ++index) put(outs[index], function(index));
}

ACLNN(ForeachCopy, Tensors x, Tensors outs) {
  each(outs, [&](size_t i) { return x[i]; });
}
ACLNN(ForeachZeroInplace, Tensors x) {
  for (const auto& member : x) member.zero_();
}

#define FOREACH_UNARY(NAME, FUNCTION)                     \
  ACLNN(Foreach##NAME, Tensors x, Tensors outs) {         \
    each(outs, [&](size_t i) { return FUNCTION(x[i]); }); \
  }
FOREACH_UNARY(Abs, at::abs)
FOREACH_UNARY(Acos, at::acos)
FOREACH_UNARY(Asin, at::asin)
FOREACH_UNARY(Atan, at::atan)
FOREACH_UNARY(Cos, at::cos)
FOREACH_UNARY(Cosh, at::cosh)
FOREACH_UNARY(Erf, at::erf)
FOREACH_UNARY(Erfc, at::erfc)
FOREACH_UNARY(Exp, at::exp)
FOREACH_UNARY(Expm1, at::expm1)
FOREACH_UNARY(Log, at::log)
FOREACH_UNARY(Log10, at::log10)
FOREACH_UNARY(Log1p, at::log1p)
FOREACH_UNARY(Log2, at::log2)
FOREACH_UNARY(Neg, at::neg)
FOREACH_UNARY(Reciprocal, at::reciprocal)
FOREACH_UNARY(Sigmoid, at::sigmoid)
FOREACH_UNARY(Sign, at::sign)
FOREACH_UNARY(Sin, at::sin)
FOREACH_UNARY(Sinh, at::sinh)
FOREACH_UNARY(Sqrt, at::sqrt)
FOREACH_UNARY(Tan, at::tan)
FOREACH_UNARY(Tanh, at::tanh)

// The second operand: a list, a number, or a number a member.
#define FOREACH_BINARY(NAME, FUNCTION)                                                 \
  ACLNN(Foreach##NAME##List, Tensors x, Tensors y, Tensors outs) {                     \
    each(outs, [&](size_t i) { return FUNCTION(x[i], y[i]); });                        \
  }                                                                                    \
  ACLNN(Foreach##NAME##ScalarV2, Tensors x, Scalar y, Tensors outs) {                  \
    each(outs, [&](size_t i) { return FUNCTION(x[i], y); });                           \
  }                                                                                    \
  ACLNN(Foreach##NAME##ScalarList, Tensors x, Scalars y, Tensors outs) {               \
    each(outs, [&](size_t i) { return FUNCTION(x[i], y[i]); });                        \
  }

static Tensor larger(const Tensor& x, const Tensor& y) { return at::maximum(x, y); }
static Tensor larger(const Tensor& x, const Scalar& y) { return at::clamp_min(x, y); }
static Tensor smaller(const Tensor& x, const Tensor& y) { return at::minimum(x, y); }
static Tensor smaller(const Tensor& x, const Scalar& y) { return at::clamp_max(x, y); }

FOREACH_BINARY(Mul, at::mul)
FOREACH_BINARY(Div, at::div)
FOREACH_BINARY(Pow, at::pow)
FOREACH_BINARY(Maximum, larger)
FOREACH_BINARY(Minimum, smaller)
ACLNN(ForeachPowScalarAndTensor, Scalar x, Tensors y, Tensors outs) {
  each(outs, [&](size_t i) { return at::pow(x, y[i]); });
}

#define FOREACH_SUM(NAME, FUNCTION)                                                    \
  ACLNN(Foreach##NAME##ListV2, Tensors x, Tensors y, Scalar alpha, Tensors outs) {     \
    each(outs, [&](size_t i) { return FUNCTION(x[i], y[i], alpha); });                 \
  }                                                                                    \
  ACLNN(Foreach##NAME##ScalarV2, Tensors x, Scalar y, Tensors outs) {                  \
    each(outs, [&](size_t i) { return FUNCTION(x[i], y, 1); });                        \
  }                                                                                    \
  ACLNN(Foreach##NAME##ScalarList, Tensors x, Scalars y, Tensors outs) {               \
    each(outs, [&](size_t i) { return FUNCTION(x[i], y[i], 1); });                     \
  }
FOREACH_SUM(Add, at::add)
FOREACH_SUM(Sub, at::sub)

// The factors are one number, or a tensor with a number a member.
#define FOREACH_TERNARY(NAME, FUNCTION)                                                          \
  ACLNN(Foreach##NAME##ScalarV2, Tensors x, Tensors a, Tensors b, Scalar value, Tensors outs) {  \
    each(outs, [&](size_t i) { return FUNCTION(x[i], a[i], b[i], value); });                     \
  }                                                                                              \
  ACLNN(Foreach##NAME##ScalarList, Tensors x, Tensors a, Tensors b, Tensor values,               \
        Tensors outs) {                                                                          \
    each(outs, [&](size_t i) {                                                                   \
      return FUNCTION(x[i], a[i], b[i], values[static_cast<int64_t>(i)].item());                 \
    });                                                                                          \
  }
FOREACH_TERNARY(Addcmul, at::addcmul)
FOREACH_TERNARY(Addcdiv, at::addcdiv)

ACLNN(ForeachLerpList, Tensors x, Tensors end, Tensors weight, Tensors outs) {
  each(outs, [&](size_t i) { return at::lerp(x[i], end[i], weight[i]); });
}
ACLNN(ForeachLerpScalar, Tensors x, Tensors end, Scalar weight, Tensors outs) {
  each(outs, [&](size_t i) { return at::lerp(x[i], end[i], weight); });
}
ACLNN(ForeachNorm, Tensors x, Scalar p, Tensors outs) {
  each(outs, [&](size_t i) { return at::linalg_vector_norm(x[i], p); });
}

// Modes: 1 to the nearest, 2 down, 3 up, 5 towards zero, 7 the fraction.
static Tensor rounded(const Tensor& x, int64_t mode) {
  switch (mode) {
    case 1: return at::round(x);
    case 2: return at::floor(x);
    case 3: return at::ceil(x);
    case 5: return at::trunc(x);
    case 7: return at::frac(x);
  }
  TORCH_CHECK(false, "mode ", mode, " of rounding is not simulated");
}

ACLNN(ForeachRoundOffNumberV2, Tensors x, Scalar mode, Tensors outs) {
  each(outs, [&](size_t i) { return rounded(x[i], mode.toLong()); });
}
