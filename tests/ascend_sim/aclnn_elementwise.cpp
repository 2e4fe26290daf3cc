// Element by element: arithmetic, comparisons, activations, fills and copies.
#include "aclnn.h"

using namespace sim;

#define UNARY(NAME, FUNCTION) ACLNN(NAME, (Tensor x, Tensor o), { put(o, at::FUNCTION(x)); })
#define UNARY_INPLACE(NAME, FUNCTION) \
  ACLNN(Inplace##NAME, (Tensor x), { put(x, at::FUNCTION(x)); })
#define UNARY_BOTH(NAME, FUNCTION) UNARY(NAME, FUNCTION) UNARY_INPLACE(NAME, FUNCTION)

UNARY_BOTH(Relu, relu)
UNARY_BOTH(Sigmoid, sigmoid)
UNARY_BOTH(Tanh, tanh)
UNARY_BOTH(Exp, exp)
UNARY_BOTH(Exp2, exp2)
UNARY_BOTH(Expm1, expm1)
UNARY_BOTH(Sqrt, sqrt)
UNARY_BOTH(Rsqrt, rsqrt)
UNARY_BOTH(Neg, neg)
UNARY_BOTH(Reciprocal, reciprocal)
UNARY_BOTH(Sin, sin)
UNARY_BOTH(Cos, cos)
UNARY_BOTH(Tan, tan)
UNARY_BOTH(Asin, asin)
UNARY_BOTH(Acos, acos)
UNARY_BOTH(Atan, atan)
UNARY_BOTH(Sinh, sinh)
UNARY_BOTH(Cosh, cosh)
UNARY_BOTH(Erf, erf)
UNARY_BOTH(Erfc, erfc)
UNARY_BOTH(Ceil, ceil)
UNARY_BOTH(Floor, floor)
UNARY_BOTH(Round, round)
UNARY_BOTH(Trunc, trunc)
UNARY_BOTH(Log, log)
UNARY_BOTH(Log2, log2)
UNARY_BOTH(Log10, log10)
UNARY_BOTH(Log1p, log1p)
UNARY_BOTH(Hardswish, hardswish)
UNARY_BOTH(Hardsigmoid, hardsigmoid)
UNARY_BOTH(Mish, mish)
UNARY_BOTH(LogicalNot, logical_not)
UNARY_BOTH(Frac, frac)
UNARY(BitwiseNot, bitwise_not)
UNARY(Abs, abs)
UNARY(Sign, sign)
UNARY(Signbit, signbit)
UNARY(Silu, silu)
UNARY(Gelu, gelu)
UNARY(IsFinite, isfinite)
UNARY(IsPosInf, isposinf)
UNARY(IsNegInf, isneginf)
UNARY(Max, max)
UNARY(Min, min)
UNARY(LogSigmoid, log_sigmoid)

ACLNN(GeluV2, (Tensor x, int64_t mode, Tensor o), { put(o, at::gelu(x, mode ? "tanh" : "none")); })
ACLNN(FastGelu, (Tensor x, Tensor o), { put(o, x * at::sigmoid(x * 1.702)); })
ACLNN(LeakyRelu, (Tensor x, Scalar slope, Tensor o), { put(o, at::leaky_relu(x, slope)); })
ACLNN(InplaceLeakyRelu, (Tensor x, Scalar slope), { put(x, at::leaky_relu(x, slope)); })
ACLNN(Elu, (Tensor x, Scalar a, Scalar s, Scalar i, Tensor o), { put(o, at::elu(x, a, s, i)); })
ACLNN(InplaceElu, (Tensor x, Scalar a, Scalar s, Scalar i), { put(x, at::elu(x, a, s, i)); })
ACLNN(Softplus, (Tensor x, Scalar b, Scalar t, Tensor o), { put(o, at::softplus(x, b, t)); })
ACLNN(Hardtanh, (Tensor x, Scalar a, Scalar b, Tensor o), { put(o, at::hardtanh(x, a, b)); })
ACLNN(InplaceHardtanh, (Tensor x, Scalar a, Scalar b), { put(x, at::hardtanh(x, a, b)); })
ACLNN(Threshold, (Tensor x, Scalar t, Scalar v, Tensor o), { put(o, at::threshold(x, t, v)); })
ACLNN(InplaceThreshold, (Tensor x, Scalar t, Scalar v), { put(x, at::threshold(x, t, v)); })
ACLNN(Prelu, (Tensor x, Tensor w, Tensor o), { put(o, at::prelu(x, w)); })
ACLNN(Glu, (Tensor x, int64_t d, Tensor o), { put(o, at::glu(x, d)); })
ACLNN(NanToNum, (Tensor x, float nan, float high, float low, Tensor o),
      { put(o, at::nan_to_num(x, nan, high, low)); })
ACLNN(RoundDecimals, (Tensor x, int64_t d, Tensor o), { put(o, at::round(x, d)); })

// --- two operands -----------------------------------------------------------------------------

#define BINARY(NAME, FUNCTION) \
  ACLNN(NAME, (Tensor x, Tensor y, Tensor o), { put(o, at::FUNCTION(x, y)); })
#define BINARY_INPLACE(NAME, FUNCTION) \
  ACLNN(Inplace##NAME, (Tensor x, Tensor y), { put(x, at::FUNCTION(x, y)); })
#define BINARY_BOTH(NAME, FUNCTION) BINARY(NAME, FUNCTION) BINARY_INPLACE(NAME, FUNCTION)
#define SCALAR(NAME, FUNCTION) \
  ACLNN(NAME, (Tensor x, Scalar y, Tensor o), { put(o, at::FUNCTION(x, y)); })
#define SCALAR_INPLACE(NAME, FUNCTION) \
  ACLNN(Inplace##NAME, (Tensor x, Scalar y), { put(x, at::FUNCTION(x, y)); })
#define SCALAR_BOTH(NAME, FUNCTION) SCALAR(NAME, FUNCTION) SCALAR_INPLACE(NAME, FUNCTION)

BINARY_BOTH(Mul, mul)
BINARY_BOTH(Div, div)
BINARY_BOTH(GtTensor, gt)
BINARY_BOTH(GeTensor, ge)
BINARY_BOTH(LtTensor, lt)
BINARY_BOTH(LeTensor, le)
BINARY_BOTH(EqTensor, eq)
BINARY_BOTH(NeTensor, ne)
BINARY_BOTH(LogicalAnd, logical_and)
BINARY_BOTH(LogicalOr, logical_or)
BINARY(LogicalXor, logical_xor)
BINARY_BOTH(BitwiseAndTensor, bitwise_and)
BINARY_BOTH(BitwiseXorTensor, bitwise_xor)
BINARY(BitwiseOrTensor, bitwise_or)
BINARY(Maximum, maximum)
BINARY(Minimum, minimum)
BINARY_BOTH(FloorDivide, floor_divide)
BINARY_BOTH(RemainderTensorTensor, remainder)
BINARY_BOTH(FmodTensor, fmod)
BINARY_BOTH(PowTensorTensor, pow)
BINARY_BOTH(Atan2, atan2)
SCALAR_BOTH(Muls, mul)
SCALAR_BOTH(Divs, div)
SCALAR_BOTH(GtScalar, gt)
SCALAR_BOTH(GeScalar, ge)
SCALAR_BOTH(LtScalar, lt)
SCALAR_BOTH(LeScalar, le)
SCALAR_BOTH(EqScalar, eq)
SCALAR_BOTH(NeScalar, ne)
SCALAR_BOTH(BitwiseAndScalar, bitwise_and)
SCALAR_BOTH(BitwiseXorScalar, bitwise_xor)
SCALAR(BitwiseOrScalar, bitwise_or)
SCALAR_BOTH(FloorDivides, floor_divide)
SCALAR_BOTH(RemainderTensorScalar, remainder)
SCALAR_BOTH(FmodScalar, fmod)
SCALAR_BOTH(PowTensorScalar, pow)
ACLNN(RemainderScalarTensor, (Scalar x, Tensor y, Tensor o), { put(o, at::remainder(x, y)); })
ACLNN(PowScalarTensor, (Scalar x, Tensor e, Tensor o), { put(o, at::pow(x, e)); })

ACLNN(Add, (Tensor x, Tensor y, Scalar a, Tensor o), { put(o, at::add(x, y, a)); })
ACLNN(Adds, (Tensor x, Scalar y, Scalar a, Tensor o), { put(o, at::add(x, y, a)); })
ACLNN(AddV3, (Scalar x, Tensor y, Scalar a, Tensor o), { put(o, at::add(at::scalar_tensor(x), y, a)); })
ACLNN(Sub, (Tensor x, Tensor y, Scalar a, Tensor o), { put(o, at::sub(x, y, a)); })
ACLNN(Subs, (Tensor x, Scalar y, Scalar a, Tensor o), { put(o, at::sub(x, y, a)); })
ACLNN(Rsub, (Tensor x, Tensor y, Scalar a, Tensor o), { put(o, at::rsub(x, y, a)); })
ACLNN(Rsubs, (Tensor x, Scalar y, Scalar a, Tensor o), { put(o, at::rsub(x, y, a)); })
ACLNN(InplaceAdd, (Tensor x, Tensor y, Scalar a), { put(x, at::add(x, y, a)); })
ACLNN(InplaceAdds, (Tensor x, Scalar y, Scalar a), { put(x, at::add(x, y, a)); })
ACLNN(InplaceSub, (Tensor x, Tensor y, Scalar a), { put(x, at::sub(x, y, a)); })
ACLNN(InplaceSubs, (Tensor x, Scalar y, Scalar a), { put(x, at::sub(x, y, a)); })
ACLNN(AddRelu, (Tensor x, Tensor y, Scalar a, Tensor o), { put(o, at::relu(at::add(x, y, a))); })

namespace {
// The modes of division with rounding: 0 none, 1 towards zero, 2 down.
template <typename Y>
Tensor divided(const Tensor& x, const Y& y, int mode) {
  if (mode == 0) return at::div(x, y);
  return at::div(x, y, mode == 1 ? "trunc" : "floor");
}
}  // namespace
ACLNN(DivMod, (Tensor x, Tensor y, int mode, Tensor o), { put(o, divided(x, y, mode)); })
ACLNN(DivMods, (Tensor x, Scalar y, int mode, Tensor o), { put(o, divided(x, y, mode)); })
ACLNN(InplaceDivMod, (Tensor x, Tensor y, int mode), { put(x, divided(x, y, mode)); })
ACLNN(InplaceDivMods, (Tensor x, Scalar y, int mode), { put(x, divided(x, y, mode)); })

ACLNN(Addcmul, (Tensor x, Tensor y, Tensor z, Scalar v, Tensor o), { put(o, at::addcmul(x, y, z, v)); })
ACLNN(Addcdiv, (Tensor x, Tensor y, Tensor z, Scalar v, Tensor o), { put(o, at::addcdiv(x, y, z, v)); })
ACLNN(InplaceAddcmul, (Tensor x, Tensor y, Tensor z, Scalar v), { put(x, at::addcmul(x, y, z, v)); })
ACLNN(InplaceAddcdiv, (Tensor x, Tensor y, Tensor z, Scalar v), { put(x, at::addcdiv(x, y, z, v)); })
ACLNN(Lerp, (Tensor x, Tensor y, Tensor w, Tensor o), { put(o, at::lerp(x, y, w)); })
ACLNN(Lerps, (Tensor x, Tensor y, Scalar w, Tensor o), { put(o, at::lerp(x, y, w)); })
ACLNN(SWhere, (Tensor c, Tensor x, Tensor y, Tensor o), { put(o, at::where(c, x, y)); })
ACLNN(Clamp, (Tensor x, MaybeScalar a, MaybeScalar b, Tensor o), { put(o, at::clamp(x, a, b)); })
ACLNN(ClampMin, (Tensor x, Scalar a, Tensor o), { put(o, at::clamp_min(x, a)); })
ACLNN(ClampMax, (Tensor x, Scalar a, Tensor o), { put(o, at::clamp_max(x, a)); })
ACLNN(InplaceClampMax, (Tensor x, Scalar a), { put(x, at::clamp_max(x, a)); })
ACLNN(ClampTensor, (Tensor x, Tensor a, Tensor b, Tensor o), { put(o, at::clamp(x, a, b)); })
ACLNN(ClampMinTensor, (Tensor x, Tensor a, Tensor o), { put(o, at::clamp_min(x, a)); })
ACLNN(ClampMaxTensor, (Tensor x, Tensor a, Tensor o), { put(o, at::clamp_max(x, a)); })
ACLNN(InplaceClampMinTensor, (Tensor x, Tensor a), { put(x, at::clamp_min(x, a)); })
ACLNN(InplaceClampMaxTensor, (Tensor x, Tensor a), { put(x, at::clamp_max(x, a)); })
ACLNN(IsClose, (Tensor x, Tensor y, double r, double a, bool e, Tensor o),
      { put(o, at::isclose(x, y, r, a, e)); })
ACLNN(Equal, (Tensor x, Tensor y, Tensor o), {
  put(o, at::scalar_tensor(x.sizes() == y.sizes() && at::equal(x, y), at::kBool));
})

// --- fills and copies -------------------------------------------------------------------------

ACLNN(InplaceCopy, (Tensor x, Tensor source), { x.copy_(source); })
ACLNN(Cast, (Tensor x, int type, Tensor o), { put(o, x.to(scalar_type(type))); })
ACLNN(InplaceZero, (Tensor x), { x.zero_(); })
ACLNN(InplaceOne, (Tensor x), { x.fill_(1); })
ACLNN(InplaceFillScalar, (Tensor x, Scalar v), { x.fill_(v); })
ACLNN(InplaceFillTensor, (Tensor x, Tensor v), { x.fill_(v.reshape({})); })
ACLNN(InplaceFillDiagonal, (Tensor x, Scalar v, bool w), { x.fill_diagonal_(v, w); })
ACLNN(InplaceMaskedFillScalar, (Tensor x, Tensor m, Scalar v), { x.masked_fill_(m, v); })
ACLNN(InplaceMaskedFillTensor, (Tensor x, Tensor m, Tensor v), { x.masked_fill_(m, v.reshape({})); })
ACLNN(Arange, (Scalar a, Scalar b, Scalar s, Tensor o),
      { put(o, at::arange(a, b, s, o.options()).slice(0, 0, o.numel())); })
ACLNN(Range, (Scalar a, Scalar b, Scalar s, Tensor o), { put(o, at::range(a, b, s, o.options())); })
ACLNN(Linspace, (Scalar a, Scalar b, int64_t n, Tensor o), { put(o, at::linspace(a, b, n, o.options())); })
ACLNN(Eye, (int64_t n, int64_t m, Tensor o), { put(o, at::eye(n, m, o.options())); })

#define FOREACH(NAME, FUNCTION)                          \
  ACLNN(Foreach##NAME, (Tensors x, Tensors o), {         \
    for (size_t i = 0; i < x.size(); ++i) put(o[i], at::FUNCTION(x[i])); \
  })
ACLNN(ForeachCopy, (Tensors x, Tensors o), {
  for (size_t i = 0; i < x.size(); ++i) o[i].copy_(x[i]);
})
ACLNN(ForeachZeroInplace, (Tensors x), {
  for (auto& tensor : x) tensor.zero_();
})
FOREACH(Neg, neg)
FOREACH(Exp, exp)
FOREACH(Sqrt, sqrt)
FOREACH(Abs, abs)
