// Reductions, scans, sorting and searching.
#include "aclnn.h"

#include <numeric>

using namespace sim::aclnn;

// An empty list of dimensions is all of them.
static Ints all_dims(const Tensor& x, const Ints& dims) {
  if (!dims.empty()) return dims;
  Ints every(x.dim());
  std::iota(every.begin(), every.end(), 0);
  return every;
}

// --- sums -------------------------------------------------------------------------------------

ACLNN(ReduceSum, Tensor x, Ints dims, Bool keep, Type type, Tensor out) {
  put(out, at::sum(x, all_dims(x, dims), keep, type.type));
}
ACLNN(ReduceNansum, Tensor x, Ints dims, Bool keep, Type type, Tensor out) {
  put(out, at::nansum(x, all_dims(x, dims), keep, type.type));
}
ACLNN(Mean, Tensor x, Ints dims, Bool keep, Type type, Tensor out) {
  put(out, at::mean(x, all_dims(x, dims), keep, type.type));
}
ACLNN(Prod, Tensor x, Type type, Tensor out) { put(out, at::prod(x, type.type)); }
ACLNN(ProdDim, Tensor x, Int dim, Bool keep, Type type, Tensor out) {
  put(out, at::prod(x, dim, keep, type.type));
}
ACLNN(Trace, Tensor x, Tensor out) { put(out, at::trace(x)); }
ACLNN(LogSumExp, Tensor x, Ints dims, Bool keep, Tensor out) {
  put(out, at::logsumexp(x, dims, keep));
}
ACLNN(Norm, Tensor x, Scalar p, Ints dims, Bool keep, Tensor out) {
  put(out, at::norm(x, p, all_dims(x, dims), keep));
}
ACLNN(LinalgVectorNorm, Tensor x, Scalar p, Ints dims, Bool keep, Type type, Tensor out) {
  put(out, at::linalg_vector_norm(x, p, all_dims(x, dims), keep, type.type));
}
ACLNN(VarCorrection, Tensor x, Ints dims, Int correction, Bool keep, Tensor out) {
  put(out, at::var(x, all_dims(x, dims), correction, keep));
}
ACLNN(Std, Tensor x, Ints dims, Int correction, Bool keep, Tensor out) {
  put(out, at::std(x, all_dims(x, dims), correction, keep));
}
ACLNN(VarMean, Tensor x, Ints dims, Int correction, Bool keep, Tensor var, Tensor mean) {
  auto [v, m] = at::var_mean(x, all_dims(x, dims), correction, keep);
  put(var, v);
  put(mean, m);
}
ACLNN(StdMeanCorrection, Tensor x, Ints dims, Int correction, Bool keep, Tensor std, Tensor mean) {
  auto [s, m] = at::std_mean(x, all_dims(x, dims), correction, keep);
  put(std, s);
  put(mean, m);
}

// --- extremes ---------------------------------------------------------------------------------

ACLNN(Max, Tensor x, Tensor out) { put(out, at::max(x)); }
ACLNN(Min, Tensor x, Tensor out) { put(out, at::min(x)); }
ACLNN(Amax, Tensor x, Ints dims, Bool keep, Tensor out) { put(out, at::amax(x, dims, keep)); }
ACLNN(Amin, Tensor x, Ints dims, Bool keep, Tensor out) { put(out, at::amin(x, dims, keep)); }
ACLNN(MaxDim, Tensor x, Int dim, Bool keep, Tensor out, Tensor indices) {
  auto [values, places] = at::max(x, dim, keep);
  put(out, values);
  put(indices, places);
}
ACLNN(MinDim, Tensor x, Int dim, Bool keep, Tensor out, Tensor indices) {
  auto [values, places] = at::min(x, dim, keep);
  put(out, values);
  put(indices, places);
}
ACLNN(Aminmax, Tensor x, Ints dims, Bool keep, Tensor low, Tensor high) {
  put(low, at::amin(x, dims, keep));
  put(high, at::amax(x, dims, keep));
}
ACLNN(AminmaxDim, Tensor x, Int dim, Bool keep, Tensor low, Tensor high) {
  put(low, at::amin(x, dim, keep));
  put(high, at::amax(x, dim, keep));
}
ACLNN(AminmaxAll, Tensor x, Tensor low, Tensor high) {
  put(low, at::min(x));
  put(high, at::max(x));
}
ACLNN(ArgMax, Tensor x, Int dim, Bool keep, Tensor out) { put(out, at::argmax(x, dim, keep)); }
ACLNN(ArgMin, Tensor x, Int dim, Bool keep, Tensor out) { put(out, at::argmin(x, dim, keep)); }
ACLNN(Any, Tensor x, Ints dims, Bool keep, Tensor out) {
  put(out, at::any(x, at::OptionalIntArrayRef(all_dims(x, dims)), keep));
}
ACLNN(All, Tensor x, Ints dims, Bool keep, Tensor out) {
  put(out, at::all(x, at::OptionalIntArrayRef(all_dims(x, dims)), keep));
}

#define WITH_PLACES(NAME, FUNCTION)                                                   \
  ACLNN(NAME, Tensor x, Int dim, Bool keep, Tensor out, Tensor indices) {             \
    auto [values, places] = FUNCTION(x, dim, keep);                                   \
    put(out, values);                                                                 \
    put(indices, places);                                                             \
  }
WITH_PLACES(MedianDim, at::median)
WITH_PLACES(NanMedianDim, at::nanmedian)
ACLNN(Median, Tensor x, Tensor out) { put(out, at::median(x)); }
ACLNN(NanMedian, Tensor x, Tensor out) { put(out, at::nanmedian(x)); }
ACLNN(Kthvalue, Tensor x, Int k, Int dim, Bool keep, Tensor out, Tensor indices) {
  auto [values, places] = at::kthvalue(x, k, dim, keep);
  put(out, values);
  put(indices, places);
}

// --- scans ------------------------------------------------------------------------------------

ACLNN(Cumsum, Tensor x, Int dim, Type type, Tensor out) { put(out, at::cumsum(x, dim, type.type)); }
ACLNN(Cumprod, Tensor x, Scalar dim, Type type, Tensor out) {
  put(out, at::cumprod(x, dim.toLong(), type.type));
}
ACLNN(Cummax, Tensor x, Int dim, Tensor out, Tensor indices) {
  auto [values, places] = at::cummax(x, dim);
  put(out, values);
  put(indices, places);
}
ACLNN(Cummin, Tensor x, Int dim, Tensor out, Tensor indices) {
  auto [values, places] = at::cummin(x, dim);
  put(out, values);
  put(indices, places);
}

// --- sorting ----------------------------------------------------------------------------------

ACLNN(Sort, Tensor x, Bool stable, Int dim, Bool descending, Tensor out, Tensor indices) {
  auto [values, places] = at::sort(x, stable, dim, descending);
  put(out, values);
  put(indices, places);
}
ACLNN(Topk, Tensor x, Int k, Int dim, Bool largest, Bool sorted, Tensor out, Tensor indices) {
  auto [values, places] = at::topk(x, k, dim, largest, sorted);
  put(out, values);
  put(indices, places);
}
ACLNN(SearchSorted, Tensor sorted, Tensor x, Bool small, Bool right, Tensor sorter, Tensor out) {
  put(out, at::searchsorted(sorted, x, small, right, std::nullopt, opt(sorter)));
}
ACLNN(SearchSorteds, Tensor sorted, Scalar x, Bool small, Bool right, Tensor sorter, Tensor out) {
  put(out, at::searchsorted(sorted, x, small, right, std::nullopt, opt(sorter)));
}
ACLNN(Histc, Tensor x, Int bins, Scalar low, Scalar high, Tensor out) {
  put(out, at::histc(x.to(at::kFloat), bins, low, high));
}
ACLNN(Bincount, Tensor x, Tensor weights, Int least, Tensor out) {
  put(out, at::bincount(x, opt(weights), least));
}

// --- results whose shape the values decide ----------------------------------------------------

ACLNN(Nonzero, Tensor x, Grown out) { put(out, at::nonzero(x)); }
ACLNN(NonzeroV2, Tensor x, Grown out) { put(out, at::nonzero(x).t().contiguous()); }
ACLNN(MaskedSelect, Tensor x, Tensor mask, Grown out) {
  put(out, at::masked_select(x, mask.to(at::kBool)));
}
ACLNN(Unique, Tensor x, Bool sorted, Bool inverse, Grown out, Tensor places) {
  auto [values, where] = at::_unique(x, sorted, inverse);
  put(out, values);
  if (inverse) put(places, where);
}
ACLNN(Unique2, Tensor x, Bool sorted, Bool inverse, Bool counted, Grown out, Tensor places,
      Grown counts) {
  auto [values, where, count] = at::_unique2(x, sorted, inverse, counted);
  put(out, values);
  if (inverse) put(places, where);
  if (counted) put(counts, count);
}
ACLNN(UniqueConsecutive, Tensor x, Bool inverse, Bool counted, Int dim, Grown out, Grown places,
      Grown counts) {
  constexpr int64_t kFlat = 1000;  // the dimension that stands for none
  auto [values, where, count] = at::unique_consecutive(
      x, inverse, counted, dim == kFlat ? std::nullopt : std::optional<int64_t>(dim));
  put(out, values);
  if (inverse) put(places, where);
  if (counted) put(counts, count);
}
ACLNN(UniqueDim, Tensor x, Bool sorted, Bool inverse, Int dim, Grown out, Grown places,
      Grown counts) {
  auto [values, where, count] = at::unique_dim(x, dim, sorted, inverse, true);
  put(out, values);
  put(places, where);
  put(counts, count);
}
