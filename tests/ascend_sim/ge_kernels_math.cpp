// Element by element: functions of one value, of two, comparisons, choices.
#include "ge.h"

#include <cmath>

namespace sim::graph {

namespace {

using at::Tensor;

template <class Function>
Kernel unary(Function function) {
  return [function](const Call& call) { return Tensors{function(call[0])}; };
}
template <class Function>
Kernel binary(Function function) {
  return [function](const Call& call) { return Tensors{function(call[0], call[1])}; };
}
// A name that is overloaded, as a function of tensors.
#define UNARY(NAME) unary([](const Tensor& x) -> Tensor { return NAME(x); })
#define BINARY(NAME) binary([](const Tensor& x, const Tensor& y) -> Tensor { return NAME(x, y); })

bool is_whole(const Tensor& value) { return at::isIntegralType(value.scalar_type(), true); }

Tensor divide(const Tensor& x, const Tensor& y) {
  return is_whole(x) && is_whole(y) ? at::div(x, y, "trunc") : at::div(x, y);
}
Tensor add(const Tensor& x, const Tensor& y) { return at::add(x, y); }
Tensor subtract(const Tensor& x, const Tensor& y) { return at::sub(x, y); }

// x + alpha * y, in one rounding for half types, as at::add does it.
Tensor axpy(const Tensor& x, const Tensor& y, const at::Scalar& alpha) {
  return at::add(x, y, is_whole(x) ? at::Scalar(alpha.toLong()) : alpha);
}

Tensor fast_gelu(const Tensor& x) {
  auto value = wide(x);
  return (value * at::sigmoid(value * 1.702)).to(x.scalar_type());
}
Tensor swish(const Tensor& x, double scale) {
  if (scale == 1) return at::silu(x);
  auto value = wide(x);
  return (value * at::sigmoid(value * scale)).to(x.scalar_type());
}

// The base of Exp and Log; a negative one stands for e. Their input is scaled and shifted first.
double log_of_base(const Call& call) {
  double base = call.f("base", -1);
  return base > 0 ? std::log(base) : 1;
}
Tensor scaled(const Call& call) {
  double scale = call.f("scale", 1), shift = call.f("shift", 0);
  return scale == 1 && shift == 0 ? call[0] : call[0] * scale + shift;
}

const Kernels functions({
    {"Abs", UNARY(at::abs)},
    {"Acos", UNARY(at::acos)},
    {"Acosh", UNARY(at::acosh)},
    {"Asin", UNARY(at::asin)},
    {"Asinh", UNARY(at::asinh)},
    {"Atan", UNARY(at::atan)},
    {"Atanh", UNARY(at::atanh)},
    {"BitwiseNot", UNARY(at::bitwise_not)},
    {"Invert", UNARY(at::bitwise_not)},
    {"Ceil", UNARY(at::ceil)},
    {"Cos", UNARY(at::cos)},
    {"Cosh", UNARY(at::cosh)},
    {"Digamma", UNARY(at::digamma)},
    {"Erf", UNARY(at::erf)},
    {"Erfc", UNARY(at::erfc)},
    {"Erfinv", UNARY(at::erfinv)},
    {"Expm1", UNARY(at::expm1)},
    {"FastGelu", unary(fast_gelu)},
    {"Floor", UNARY(at::floor)},
    {"Gelu", unary([](const Tensor& x) { return at::gelu(x); })},
    {"HardSwish", UNARY(at::hardswish)},
    {"Identity", unary([](const Tensor& x) { return x.clone(); })},
    {"IsFinite", UNARY(at::isfinite)},
    {"IsInf", UNARY(at::isinf)},
    {"IsNan", UNARY(at::isnan)},
    {"Lgamma", UNARY(at::lgamma)},
    {"Log1p", UNARY(at::log1p)},
    {"LogSigmoid", UNARY(at::log_sigmoid)},
    {"LogicalNot", UNARY(at::logical_not)},
    {"Mish", UNARY(at::mish)},
    {"Neg", UNARY(at::neg)},
    {"OnesLike", unary([](const Tensor& x) { return at::ones_like(x); })},
    {"Reciprocal", UNARY(at::reciprocal)},
    {"Relu", UNARY(at::relu)},
    {"Relu6", UNARY(at::relu6)},
    {"Round", unary([](const Tensor& x) { return at::round(x); })},
    {"Rsqrt", UNARY(at::rsqrt)},
    {"Selu", UNARY(at::selu)},
    {"Sigmoid", UNARY(at::sigmoid)},
    {"Sign", UNARY(at::sign)},
    {"Sin", UNARY(at::sin)},
    {"Sinh", UNARY(at::sinh)},
    {"Softplus", unary([](const Tensor& x) { return at::softplus(x); })},
    {"Sqrt", UNARY(at::sqrt)},
    {"Square", UNARY(at::square)},
    {"Tan", UNARY(at::tan)},
    {"Tanh", UNARY(at::tanh)},
    {"TensorMove", unary([](const Tensor& x) { return x.clone(); })},
    {"Trunc", UNARY(at::trunc)},
    {"ZerosLike", unary([](const Tensor& x) { return at::zeros_like(x); })},
});

const Kernels functions_with_attributes({
    {"Bitcast",
     [](const Call& call) {
       return Tensors{call[0].contiguous().view(type_of_code(call.i("type", 0)))};
     }},
    {"Cast",
     [](const Call& call) { return Tensors{call[0].to(type_of_code(call.i("dst_type", 0)))}; }},
    {"Elu",
     [](const Call& call) {
       return Tensors{at::elu(call[0], call.f("alpha", 1), call.f("scale", 1),
                              call.f("input_scale", 1))};
     }},
    {"Exp",
     [](const Call& call) {
       auto base = log_of_base(call);
       auto x = scaled(call);
       return Tensors{at::exp(base == 1 ? x : x * base)};
     }},
    {"Log",
     [](const Call& call) {
       auto base = log_of_base(call);
       auto result = at::log(scaled(call));
       return Tensors{base == 1 ? result : result / base};
     }},
    {"GeluV2",
     [](const Call& call) { return Tensors{at::gelu(call[0], call.s("approximate", "none"))}; }},
    {"HardSigmoid",
     [](const Call& call) {
       return Tensors{at::clamp(call[0] * call.f("alpha", 1 / 6.0) + call.f("beta", 0.5), 0, 1)};
     }},
    {"LeakyRelu",
     [](const Call& call) {
       return Tensors{at::leaky_relu(call[0], call.f("negative_slope", 0))};
     }},
    {"Muls", [](const Call& call) { return Tensors{call[0] * call.f("value", 1)}; }},
    {"NanToNum",
     [](const Call& call) {
       return Tensors{at::nan_to_num(call[0], call.f("nan", 0), call.f("posinf", 0),
                                     call.f("neginf", 0))};
     }},
    {"SoftplusV2",
     [](const Call& call) {
       return Tensors{at::softplus(call[0], call.f("beta", 1), call.f("threshold", 20))};
     }},
    {"Swish", [](const Call& call) { return Tensors{swish(call[0], call.f("scale", 1))}; }},
});

const Kernels of_two({
    {"Add", binary(add)},
    {"AddV2", binary(add)},
    {"Atan2", BINARY(at::atan2)},
    {"BitwiseAnd", BINARY(at::bitwise_and)},
    {"BitwiseOr", BINARY(at::bitwise_or)},
    {"BitwiseXor", BINARY(at::bitwise_xor)},
    {"Div", binary(divide)},
    {"Equal", BINARY(at::eq)},
    {"FloorDiv", BINARY(at::floor_divide)},
    {"FloorMod", BINARY(at::remainder)},
    {"Greater", BINARY(at::gt)},
    {"GreaterEqual", BINARY(at::ge)},
    {"LeftShift", BINARY(at::bitwise_left_shift)},
    {"Less", BINARY(at::lt)},
    {"LessEqual", BINARY(at::le)},
    {"LogicalAnd", BINARY(at::logical_and)},
    {"LogicalOr", BINARY(at::logical_or)},
    {"LogicalXor", BINARY(at::logical_xor)},
    {"Maximum", BINARY(at::maximum)},
    {"Minimum", BINARY(at::minimum)},
    {"Mod", BINARY(at::fmod)},
    {"Mul", BINARY(at::mul)},
    {"NotEqual", BINARY(at::ne)},
    {"PRelu", BINARY(at::prelu)},
    {"Pow", BINARY(at::pow)},
    {"RealDiv", BINARY(at::div)},
    {"RightShift", BINARY(at::bitwise_right_shift)},
    {"Sub", binary(subtract)},
    {"TruncateDiv",
     binary([](const Tensor& x, const Tensor& y) { return at::div(x, y, "trunc"); })},
    {"Xlogy", BINARY(at::xlogy)},
});

const Kernels of_more({
    {"Addcdiv",
     [](const Call& call) {
       return Tensors{at::addcdiv(call[0], call[1], call[2], call[3].item())};
     }},
    {"Addcmul",
     [](const Call& call) {
       return Tensors{at::addcmul(call[0], call[1], call[2], call[3].item())};
     }},
    {"Axpy", [](const Call& call) { return Tensors{axpy(call[0], call[1], call.f("alpha", 1))}; }},
    {"AxpyV2", [](const Call& call) { return Tensors{axpy(call[0], call[1], call[2].item())}; }},
    {"Sxpy",  // the first minus alpha times the second
     [](const Call& call) {
       auto alpha = call.optional(2);
       return Tensors{axpy(call[0], call[1], -(alpha ? alpha->item() : at::Scalar(1)))};
     }},
    {"ClipByValue",
     [](const Call& call) {
       return Tensors{at::minimum(at::maximum(call[0], call[1]), call[2])};
     }},
    {"ClipByValueV2",
     [](const Call& call) {
       return Tensors{at::minimum(at::maximum(call[0], call[1]), call[2])};
     }},
    {"Lerp", [](const Call& call) { return Tensors{at::lerp(call[0], call[1], call[2])}; }},
    {"MaskedFill",
     [](const Call& call) {
       auto value = call[2].to(call[0].scalar_type()).reshape({});
       return Tensors{at::where(call[1].to(at::kBool), value, call[0])};
     }},
    {"Select",
     [](const Call& call) {
       return Tensors{at::where(call[0].to(at::kBool), call[1], call[2])};
     }},
    {"SelectV2",
     [](const Call& call) {
       return Tensors{at::where(call[0].to(at::kBool), call[1], call[2])};
     }},
    {"ThresholdV2",
     [](const Call& call) {
       auto value = call.optional(2);
       return Tensors{at::threshold(call[0], call[1].item(), value ? value->item() : 0)};
     }},
});

// Operators on lists of tensors: x0, x1, ... and perhaps a number.
template <class Function>
Kernel each(Function function) {
  return [function](const Call& call) {
    Tensors results;
    auto lefts = call.list("x1"), rights = call.list("x2");
    for (size_t index = 0; index < lefts.size(); ++index) {
      results.push_back(function(lefts[index], rights[index]));
    }
    return results;
  };
}
template <class Function>
Kernel each_with_number(Function function) {
  return [function](const Call& call) {
    Tensors results;
    for (const auto& x : call.list("x")) results.push_back(function(x, call.in("scalar").item()));
    return results;
  };
}

const Kernels lists({
    {"ForeachAddList",
     [](const Call& call) {
       Tensors results;
       auto lefts = call.list("x1"), rights = call.list("x2");
       for (size_t index = 0; index < lefts.size(); ++index) {
         results.push_back(axpy(lefts[index], rights[index], call.in("alpha").item()));
       }
       return results;
     }},
    {"ForeachAddScalar",
     each_with_number([](const Tensor& x, const at::Scalar& y) { return at::add(x, y); })},
    {"ForeachMulList", each([](const Tensor& x, const Tensor& y) { return at::mul(x, y); })},
    {"ForeachMulScalar",
     each_with_number([](const Tensor& x, const at::Scalar& y) { return at::mul(x, y); })},
});

}  // namespace
}  // namespace sim::graph
