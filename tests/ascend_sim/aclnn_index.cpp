// Functions that move elements: by index, by shape, and the tensors that are made of a rule.
#include "aclnn.h"

using namespace sim::aclnn;

// An absent index is passed as a tensor without elements, of the type of the indexed one. An index
// that selects nothing looks the same when that type is an integer; then what it selects is empty.
static c10::List<std::optional<Tensor>> optional_list(const Tensors& indices,
                                                      const Tensor& selected) {
  c10::List<std::optional<Tensor>> list;
  for (const auto& index : indices) {
    bool is_index = index.defined() && at::isIntegralType(index.scalar_type(), true);
    bool is_given = is_index && (index.numel() > 0 || selected.numel() == 0);
    list.push_back(is_given ? opt(index) : std::nullopt);
  }
  return list;
}

// --- reading by index -------------------------------------------------------------------------

ACLNN(Index, Tensor x, Tensors indices, Tensor out) {
  put(out, at::index(x, optional_list(indices, out)));
}
ACLNN(IndexSelect, Tensor x, Int dim, Tensor index, Tensor out) {
  put(out, at::index_select(x, dim, index));
}
ACLNN(Gather, Tensor x, Int dim, Tensor index, Tensor out) {
  put(out, at::gather(x, dim, index.to(at::kLong)));
}
ACLNN(Take, Tensor x, Tensor index, Tensor out) { put(out, at::take(x, index.to(at::kLong))); }
ACLNN(Embedding, Tensor weight, Tensor index, Tensor out) {
  put(out, at::embedding(weight, index));
}
ACLNN(EmbeddingBag, Tensor weight, Tensor indices, Tensor offsets, Bool scaled, Int mode,
      Bool sparse, Tensor weights, Bool last, Int padding, Tensor out, Tensor bag_of,
      Tensor sizes, Tensor places) {
  auto type = indices.scalar_type() == at::kLong || offsets.scalar_type() == at::kLong ? at::kLong
                                                                                      : at::kInt;
  auto [result, bags, counts, largest] =
      at::_embedding_bag(weight, indices.to(type), offsets.to(type), scaled, mode, false,
                         opt(weights), last, padding);
  put(out, result);
  // The others serve the backward pass; the caller sizes them for its own kernels.
  if (bag_of.numel() == bags.numel()) put(bag_of, bags);
  if (sizes.numel() == counts.numel()) put(sizes, counts);
  if (places.numel() == largest.numel()) put(places, largest);
}
ACLNN(EmbeddingRenorm, Tensor weight, Tensor index, Double limit, Double p) {
  at::embedding_renorm_(weight, index.to(at::kLong), limit, p);
}
ACLNN(OneHot, Tensor x, Int classes, Tensor on, Tensor off, Int dim, Tensor out) {
  auto hit = at::one_hot(x.to(at::kLong), classes).to(at::kBool);
  put(out, at::where(hit, on.reshape({}), off.reshape({})));
}

// --- writing by index -------------------------------------------------------------------------

ACLNN(IndexPutImpl, Tensor x, Tensors indices, Tensor values, Bool accumulate, Bool unsafe) {
  at::index_put_(x, optional_list(indices, values), values, accumulate);
}
ACLNN(IndexAdd, Tensor x, Int dim, Tensor index, Tensor source, Scalar alpha, Tensor out) {
  put(out, at::index_add(x, dim, index, source, alpha));
}
ACLNN(IndexCopy, Tensor x, Int dim, Tensor index, Tensor source, Tensor out) {
  put(out, at::index_copy(x, dim, index.to(at::kLong), source));
}
ACLNN(InplaceIndexCopy, Tensor x, Int dim, Tensor index, Tensor source) {
  x.index_copy_(dim, index.to(at::kLong), source);
}
ACLNN(IndexFill, Tensor x, Int dim, Tensor index, Scalar value, Tensor out) {
  put(out, at::index_fill(x, dim, index.to(at::kLong), value));
}
ACLNN(InplaceIndexFill, Tensor x, Int dim, Tensor index, Scalar value) {
  x.index_fill_(dim, index.to(at::kLong), value);
}

// Reductions of a scatter: 0 none, 1 sum, 2 product.
template <class Source>
static Tensor scattered(const Tensor& x, int64_t dim, const Tensor& index, const Source& source,
                        int64_t reduction) {
  auto places = index.to(at::kLong);
  if (reduction == 0) return at::scatter(x, dim, places, source);
  return at::scatter(x, dim, places, source, reduction == 1 ? "add" : "multiply");
}

ACLNN(Scatter, Tensor x, Int dim, Tensor index, Tensor source, Int reduction, Tensor out) {
  put(out, scattered(x, dim, index, source, reduction));
}
ACLNN(InplaceScatter, Tensor x, Int dim, Tensor index, Tensor source, Int reduction) {
  put(x, scattered(x, dim, index, source, reduction));
}
ACLNN(ScatterValue, Tensor x, Int dim, Tensor index, Scalar value, Int reduction, Tensor out) {
  put(out, scattered(x, dim, index, value, reduction));
}
ACLNN(InplaceScatterValue, Tensor x, Int dim, Tensor index, Scalar value, Int reduction) {
  put(x, scattered(x, dim, index, value, reduction));
}
ACLNN(ScatterAdd, Tensor x, Int dim, Tensor index, Tensor source, Tensor out) {
  put(out, at::scatter_add(x, dim, index.to(at::kLong), source));
}
ACLNN(ScatterNdUpdate, Tensor x, Tensor indices, Tensor updates) {
  c10::List<std::optional<Tensor>> columns;
  for (const auto& column : indices.to(at::kLong).unbind(-1)) columns.push_back(column);
  at::index_put_(x, columns, updates.to(x.scalar_type()));
}
// Each batch of the updates goes to where its index says, along a dimension.
ACLNN(InplaceScatterUpdate, Tensor x, Tensor indices, Tensor updates, Int dim) {
  auto along = (dim < 0 ? dim + x.dim() : dim) - 1;
  auto starts = indices.reshape({updates.size(0), -1}).select(1, 0).to(at::kLong);
  for (int64_t batch = 0; batch < updates.size(0); ++batch) {
    auto length = updates[batch].size(along);
    x[batch].narrow(along, starts[batch].item<int64_t>(), length).copy_(updates[batch]);
  }
}
ACLNN(InplaceMaskedScatter, Tensor x, Tensor mask, Tensor source) {
  x.masked_scatter_(mask.to(at::kBool), source);
}
ACLNN(InplacePut, Tensor x, Tensor index, Tensor source, Bool accumulate) {
  x.put_(index.to(at::kLong), source, accumulate);
}

// --- by shape ---------------------------------------------------------------------------------

ACLNN(Cat, Tensors parts, Int dim, Tensor out) { put(out, at::cat(parts, dim)); }
ACLNN(Stack, Tensors parts, Int dim, Tensor out) { put(out, at::stack(parts, dim)); }
ACLNN(Repeat, Tensor x, Ints times, Tensor out) { put(out, x.repeat(times)); }
ACLNN(RepeatInterleave, Tensor x, Tensor times, Int size, Tensor out) {
  put(out, at::repeat_interleave(x, times));
}
ACLNN(RepeatInterleaveWithDim, Tensor x, Tensor times, Int dim, Int size, Tensor out) {
  put(out, at::repeat_interleave(x, times, dim));
}
ACLNN(RepeatInterleaveInt, Tensor x, Int times, Int size, Tensor out) {
  put(out, at::repeat_interleave(x, times));
}
ACLNN(RepeatInterleaveIntWithDim, Tensor x, Int times, Int dim, Int size, Tensor out) {
  put(out, at::repeat_interleave(x, times, dim));
}
ACLNN(RepeatInterleaveTensor, Tensor times, Int size, Tensor out) {
  put(out, at::repeat_interleave(times));
}
ACLNN(Roll, Tensor x, Ints shifts, Ints dims, Tensor out) { put(out, at::roll(x, shifts, dims)); }
ACLNN(Flip, Tensor x, Ints dims, Tensor out) { put(out, at::flip(x, dims)); }
ACLNN(Triu, Tensor x, Int diagonal, Tensor out) { put(out, at::triu(x, diagonal)); }
ACLNN(Tril, Tensor x, Int diagonal, Tensor out) { put(out, at::tril(x, diagonal)); }
ACLNN(InplaceTriu, Tensor x, Int diagonal) { put(x, at::triu(x, diagonal)); }
ACLNN(InplaceTril, Tensor x, Int diagonal) { put(x, at::tril(x, diagonal)); }
ACLNN(ChannelShuffle, Tensor x, Int groups, Tensor out) {
  put(out, at::channel_shuffle(x, groups));
}
ACLNN(Im2col, Tensor x, Ints kernel, Ints dilation, Ints padding, Ints stride, Tensor out) {
  put(out, at::im2col(x, kernel, dilation, padding, stride));
}

// The inverse of Im2col: overlapping values are added.
ACLNN(Im2colBackward, Tensor x, Ints size, Ints kernel, Ints dilation, Ints padding, Ints stride,
      Tensor out) {
  put(out, at::col2im(x, size, kernel, dilation, padding, stride));
}

// --- by rule ----------------------------------------------------------------------------------

ACLNN(Arange, Scalar start, Scalar end, Scalar step, Tensor out) {
  Tensor whole = at::arange(start, end, step, out.scalar_type());
  put(out, whole);
}
ACLNN(Range, Scalar start, Scalar end, Scalar step, Tensor out) {
  put(out, at::range(start, end, step, out.scalar_type()));
}
ACLNN(Linspace, Scalar start, Scalar end, Int steps, Tensor out) {
  put(out, at::linspace(start, end, steps, out.scalar_type()));
}
ACLNN(LogSpace, Scalar start, Scalar end, Int steps, Double base, Tensor out) {
  put(out, at::logspace(start, end, steps, base, out.scalar_type()));
}
ACLNN(Eye, Int rows, Int columns, Tensor out) { put(out, at::eye(rows, columns)); }
