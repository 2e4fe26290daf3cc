// Reading and writing by index.
#include "ge.h"

namespace sim::graph {

namespace {

using at::Tensor;
using Indices = c10::List<std::optional<Tensor>>;

Tensor whole(const Tensor& index) { return index.to(at::kLong); }

// Rows of a dimension; the indices may have any shape.
Tensor gather(const Tensor& x, const Tensor& index, int64_t dim, bool negative) {
  dim = at::maybe_wrap_dim(dim, x.dim());
  auto flat = whole(index).reshape({-1});
  if (negative) flat = at::where(flat.lt(0), flat + x.size(dim), flat);
  auto sizes = x.sizes().vec();
  sizes.erase(sizes.begin() + dim);
  sizes.insert(sizes.begin() + dim, index.sizes().begin(), index.sizes().end());
  return x.index_select(dim, flat).reshape(sizes);
}

Tensor gather(const Call& call, int64_t dim) {
  if (call.i("batch_dims", 0) != 0) {
    throw Refused(kFeatureNotSupported, "batch_dims is not simulated");
  }
  return gather(call[0], call[1], dim, call.b("negative_index_support", false));
}

// One entry for each dimension with a bit; the others are whole.
Indices with_holes(const Ints& mask, const Tensors& indices) {
  Indices result;
  size_t next = 0;
  for (auto taken : mask) {
    if (taken && next < indices.size()) {
      const auto& index = indices[next++];
      result.push_back(index.scalar_type() == at::kBool ? index : whole(index));
    } else {
      result.push_back(std::nullopt);
    }
  }
  return result;
}

const Kernels readers({
    {"Gather", [](const Call& call) { return Tensors{gather(call, 0)}; }},
    {"GatherV2", [](const Call& call) { return Tensors{gather(call, call.integer(2))}; }},
    {"GatherElements",
     [](const Call& call) {
       return Tensors{at::gather(call[0], call.i("dim", 0), whole(call[1]))};
     }},
    {"Index",
     [](const Call& call) {
       return Tensors{at::index(call[0], with_holes(call.ints(1), call.list("indices")))};
     }},
    {"IndexByTensor",
     [](const Call& call) {
       auto indices = with_holes(call.list_i("indices_mask"), call.list("indices"));
       return Tensors{at::index(call[0], indices)};
     }},
    {"MaskedSelect",
     [](const Call& call) { return Tensors{at::masked_select(call[0], call[1].to(at::kBool))}; }},
    {"NonZero",
     [](const Call& call) {
       auto places = at::nonzero(call[0]);
       return Tensors{call.b("transpose", false) ? places.t() : places};
     }},
    {"Where", [](const Call& call) { return Tensors{at::nonzero(call[0])}; }},
});

const Kernels bags({
    {"EmbeddingBag",
     [](const Call& call) {
       auto mode = call.s("mode", "mean");
       int64_t code = mode == "sum" ? 0 : mode == "max" ? 2 : 1;
       auto offsets = call.optional(2);
       if (!offsets) throw Refused(kFeatureNotSupported, "bags without offsets are not simulated");
       auto [result, bag_of, counts, largest] = at::_embedding_bag(
           call[0], whole(call[1]), whole(*offsets), call.b("scale_grad_by_freq", false), code,
           false, call.optional(3), call.b("include_last_offset", false),
           call.i("padding_idx", -1));
       return Tensors{result, bag_of, counts, largest};
     }},
    {"EmbeddingDenseGrad",
     [](const Call& call) {
       return Tensors{at::embedding_dense_backward(call[0], whole(call[1]),
                                                   call.i("num_weights", 0),
                                                   call.i("padding_idx", -1),
                                                   call.b("scale_grad_by_freq", false))};
     }},
});

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source,
               const std::string& reduction) {
  if (reduction == "none") return at::scatter(x, dim, whole(index), source);
  if (reduction == "add") return at::scatter_add(x, dim, whole(index), source);
  if (reduction == "mul") return at::scatter(x, dim, whole(index), source, "multiply");
  throw Refused(kFeatureNotSupported, "reduction " + reduction + " is not simulated");
}

const Kernels written_copies({
    {"ScatterElements",
     [](const Call& call) {
       return Tensors{scatter(call[0], call.i("axis", 0), call[1], call[2],
                              call.s("reduction", "none"))};
     }},
});

// Each entry of the first dimension gets its update at a place of its own along a dimension. Places
// are one number for each entry, or an entry and a place.
void update_slices(const Tensor& x, const Tensor& indices, const Tensor& updates, int64_t dim) {
  dim = at::maybe_wrap_dim(dim, x.dim());
  auto places = whole(indices);
  if (places.dim() == 0) places = places.reshape({1});
  for (int64_t row = 0; row < updates.size(0); ++row) {
    auto pair = places.dim() == 2;
    auto entry = pair ? places[row][0].item<int64_t>() : row;
    auto place = pair ? places[row][1].item<int64_t>() : places[row].item<int64_t>();
    x[entry].narrow(dim - 1, place, updates.size(dim)).copy_(updates[row]);
  }
}

// The last dimension of the indices is a place in the first dimensions of the target.
void update_places(const Tensor& x, const Tensor& indices, const Tensor& updates) {
  Indices parts;
  for (const auto& part : whole(indices).unbind(-1)) parts.push_back(part);
  x.index_put_(parts, updates.to(x.scalar_type()));
}

void only_update(const Call& call) {
  auto reduction = call.s("reduce", "update");
  if (reduction != "update") {
    throw Refused(kFeatureNotSupported, "reduce " + reduction + " is not simulated");
  }
}

// Tokens go to slots of a cache [blocks, tokens of a block, heads, width].
void fill_slots(const Tensor& cache, const Tensor& slots, const Tensor& tokens) {
  cache.flatten(0, 1).index_copy_(0, whole(slots).reshape({-1}), tokens.to(cache.scalar_type()));
}

const Kernels writers(
    {
        {"Assign",
         [](const Call& call) {
           call[0].copy_(call[1]);
           return Tensors{call[0]};
         }},
        {"IndexPutV2",
         [](const Call& call) {
           call[0].index_put_(with_holes(call.ints(2), call.list("indices")), call[1],
                              call.b("accumulate", false));
           return Tensors{call[0]};
         }},
        {"InplaceIndexAdd",
         [](const Call& call) {
           auto alpha = call.optional(3);
           call[0].index_add_(call.i("axis", 0), whole(call[1]), call[2],
                              alpha ? alpha->item() : at::Scalar(1));
           return Tensors{call[0]};
         }},
        {"Scatter",
         [](const Call& call) {
           only_update(call);
           update_slices(call[0], call[1], call[2], call.i("axis", 0));
           return Tensors{call[0]};
         }},
        {"ScatterList",
         [](const Call& call) {
           only_update(call);
           auto targets = call.list("var");
           auto places = whole(call.in("indice"));
           auto updates = call.in("updates");
           for (size_t index = 0; index < targets.size(); ++index) {
             auto dim = at::maybe_wrap_dim(call.i("axis", -2), updates.dim()) - 1;
             auto row = static_cast<int64_t>(index);
             targets[index]
                 .narrow(dim, places[row].item<int64_t>(), updates.size(dim + 1))
                 .copy_(updates[row]);
           }
           return targets;
         }},
        {"ScatterNdUpdate",
         [](const Call& call) {
           update_places(call[0], call[1], call[2]);
           return Tensors{call[0]};
         }},
        {"ScatterUpdate",
         [](const Call& call) {
           call[0].index_copy_(0, whole(call[1]).reshape({-1}), call[2]);
           return Tensors{call[0]};
         }},
        {"ScatterPaKvCache",
         [](const Call& call) {
           auto mode = call.s("cache_mode", "Norm");
           if (mode != "Norm") {
             throw Refused(kFeatureNotSupported, "cache_mode " + mode + " is not simulated");
           }
           fill_slots(call[1], call[2], call[0]);
           fill_slots(call[4], call[2], call[3]);
           return Tensors{call[1], call[4]};
         }},
    },
    Kernels::kInPlace);

}  // namespace
}  // namespace sim::graph
