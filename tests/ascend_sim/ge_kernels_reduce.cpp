// Reductions, sorting, cumulative sums, softmax.
#include "ge.h"

#include <limits>

namespace sim::graph {

namespace {

using at::Tensor;

// The dimensions are an input, or an attribute of the forms whose names end with D.
Ints axes_of(const Call& call) {
  return call.inputs.size() > 1 ? call.ints(1) : call.list_i("axes");
}

// No axes: nothing is reduced, as in the graph engine; a number has none.
template <class Function>
Kernel reduced(Function function) {
  return [function](const Call& call) {
    auto axes = axes_of(call);
    if (axes.empty()) return Tensors{call[0].clone()};
    return Tensors{function(call[0], axes, call.b("keep_dims", false))};
  };
}

Tensor product(Tensor x, Ints axes, bool keep) {
  for (auto& axis : axes) axis = at::maybe_wrap_dim(axis, x.dim());
  std::sort(axes.rbegin(), axes.rend());
  for (auto axis : axes) x = at::prod(x, axis, keep, x.scalar_type());
  return x;
}
Tensor any(const Tensor& x, const Ints& axes, bool keep) {
  return at::any(x.to(at::kBool), axes, keep);
}
Tensor all(const Tensor& x, const Ints& axes, bool keep) {
  return at::all(x.to(at::kBool), axes, keep);
}
Tensor sum(const Tensor& x, const Ints& axes, bool keep) {
  return at::sum(x, axes, keep, x.scalar_type());
}
Tensor mean(const Tensor& x, const Ints& axes, bool keep) { return at::mean(x, axes, keep); }
Tensor largest(const Tensor& x, const Ints& axes, bool keep) { return at::amax(x, axes, keep); }
Tensor smallest(const Tensor& x, const Ints& axes, bool keep) { return at::amin(x, axes, keep); }

const Kernels reductions({
    {"ReduceAll", reduced(all)},
    {"ReduceAny", reduced(any)},
    {"ReduceLogSumExp",
     reduced([](const Tensor& x, const Ints& axes, bool keep) {
       return at::logsumexp(x, axes, keep);
     })},
    {"ReduceMax", reduced(largest)},
    {"ReduceMaxD", reduced(largest)},
    {"ReduceMean", reduced(mean)},
    {"ReduceMeanD", reduced(mean)},
    {"ReduceMin", reduced(smallest)},
    {"ReduceMinD", reduced(smallest)},
    {"ReduceProd", reduced(product)},
    {"ReduceProdD", reduced(product)},
    {"ReduceSum", reduced(sum)},
    {"ReduceSumD", reduced(sum)},
    {"ReduceMeanWithCast",
     [](const Call& call) {
       auto type = type_of_code(call.i("dtype", 0));
       return Tensors{at::mean(call[0].to(type), axes_of(call), call.b("keep_dims", false))};
     }},
    {"ReduceStdV2",
     [](const Call& call) {
       auto dims = call.list_i("dim");
       auto [deviation, average] =
           at::std_mean(call[0], dims, call.i("correction", 1), call.b("keepdim", false));
       return Tensors{deviation, average};
     }},
    {"ReduceStdWithMean",  // inverted: 1 / sqrt(variance + epsilon)
     [](const Call& call) {
       auto dims = call.list_i("dim");
       int64_t correction = call.b("unbiased", true) ? call.i("correction", 1) : 0;
       auto variance = at::var(call[0], dims, correction, call.b("keepdim", false));
       if (!call.b("invert", false)) return Tensors{at::sqrt(variance)};
       return Tensors{at::rsqrt(variance + call.f("epsilon", 0.001))};
     }},
    {"LpNormV2",  // the largest and the smallest int32 stand for the infinities
     [](const Call& call) {
       double p = call.f("p", 2);
       constexpr double kInfinity = std::numeric_limits<double>::infinity();
       if (p >= std::numeric_limits<int32_t>::max()) p = kInfinity;
       if (p <= std::numeric_limits<int32_t>::min()) p = -kInfinity;
       auto axes = call.list_i("axes");
       auto dims = axes.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(axes);
       return Tensors{at::linalg_vector_norm(call[0], p, dims, call.b("keepdim", false))};
     }},
});

template <class Function>
Kernel extreme_with_place(Function function) {
  return [function](const Call& call) {
    auto [values, places] =
        function(call[0], call.i("dimension", 0), call.b("keep_dims", false));
    return Tensors{places.to(at::kInt), values};
  };
}

const Kernels places({
    {"ArgMaxV2",
     [](const Call& call) { return Tensors{at::argmax(call[0], call.integer(1))}; }},
    {"ArgMin", [](const Call& call) { return Tensors{at::argmin(call[0], call.integer(1))}; }},
    {"ArgMaxWithValue", extreme_with_place([](const Tensor& x, int64_t dim, bool keep) {
       return at::max(x, dim, keep);
     })},
    {"ArgMinWithValue", extreme_with_place([](const Tensor& x, int64_t dim, bool keep) {
       return at::min(x, dim, keep);
     })},
    {"Sort",
     [](const Call& call) {
       auto [values, indices] =
           at::sort(call[0], std::optional<bool>(true), call.i("axis", -1),
                    call.b("descending", false));
       return Tensors{values, indices.to(at::kInt)};
     }},
    {"TopKV2",
     [](const Call& call) {
       auto [values, indices] = at::topk(call[0], call.integer(1), call.i("dim", -1),
                                         call.b("largest", true), call.b("sorted", true));
       return Tensors{values, indices.to(at::kInt)};
     }},
    {"SearchSorted",
     [](const Call& call) {
       return Tensors{at::searchsorted(call[0], call[1], call.i("dtype", 9) == 3,
                                       call.b("right", false))};
     }},
});

const Kernels along_a_dimension({
    {"Cumsum",
     [](const Call& call) {
       if (call.b("exclusive", false) || call.b("reverse", false)) {
         throw Refused(kFeatureNotSupported, "exclusive and reverse sums are not simulated");
       }
       return Tensors{at::cumsum(call[0], call.integer(1), call[0].scalar_type())};
     }},
    {"SoftmaxV2",
     [](const Call& call) {
       auto axes = call.list_i("axes");
       auto x = call.b("half_to_float", false) ? call[0].to(at::kFloat) : call[0];
       return Tensors{at::softmax(x, axes.empty() ? -1 : axes[0])};
     }},
    {"LogSoftmaxV2",
     [](const Call& call) {
       auto axes = call.list_i("axes");
       return Tensors{at::log_softmax(call[0], axes.empty() ? -1 : axes[0])};
     }},
});

}  // namespace
}  // namespace sim::graph
