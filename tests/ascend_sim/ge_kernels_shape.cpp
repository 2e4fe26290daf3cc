// Shapes: what changes them, reads them, joins and cuts; values made from a shape.
#include "ge.h"

namespace sim::graph {

namespace {

using at::Tensor;

at::ScalarType type_attribute(const Call& call, const char* name, int64_t fallback) {
  return type_of_code(call.i(name, fallback));
}

Tensor number_tensor(const Ints& values, at::ScalarType type) {
  return at::tensor(values, at::kLong).to(type);
}

// The axes in ascending order of the result, as Unsqueeze counts them.
Tensor unsqueeze(Tensor x, Ints axes) {
  auto rank = x.dim() + static_cast<int64_t>(axes.size());
  for (auto& axis : axes) axis = at::maybe_wrap_dim(axis, rank);
  std::sort(axes.begin(), axes.end());
  for (auto axis : axes) x = x.unsqueeze(axis);
  return x;
}
Tensor squeeze(Tensor x, Ints axes) {
  if (axes.empty()) return x.squeeze();
  for (auto& axis : axes) axis = at::maybe_wrap_dim(axis, x.dim());
  std::sort(axes.rbegin(), axes.rend());
  for (auto axis : axes) {
    if (x.size(axis) != 1) {
      throw Refused(kParamInvalid, "dimension " + std::to_string(axis) + " of " + words(x) +
                                       " is not 1, it cannot be squeezed");
    }
    x = x.squeeze(axis);
  }
  return x;
}

const Kernels same_memory(
    {
        {"ExpandDims",
         [](const Call& call) { return Tensors{call[0].unsqueeze(call.integer(1))}; }},
        {"FlattenV2",
         [](const Call& call) {
           return Tensors{call[0].flatten(call.i("axis", 1), call.i("end_axis", -1))};
         }},
        {"Reshape", [](const Call& call) { return Tensors{call[0].reshape(call.ints(1))}; }},
        {"Squeeze",
         [](const Call& call) { return Tensors{squeeze(call[0], call.list_i("axis"))}; }},
        {"Unsqueeze",
         [](const Call& call) { return Tensors{unsqueeze(call[0], call.list_i("axes"))}; }},
    },
    Kernels::kView);

const Kernels sizes({
    {"Shape",
     [](const Call& call) {
       return Tensors{number_tensor(call[0].sizes().vec(), type_attribute(call, "dtype", 3))};
     }},
    {"Size",
     [](const Call& call) {
       return Tensors{at::scalar_tensor(call[0].numel(), type_attribute(call, "dtype", 3))};
     }},
    {"Rank", [](const Call& call) { return Tensors{at::scalar_tensor(call[0].dim(), at::kInt)}; }},
});

const Kernels order({
    {"Permute", [](const Call& call) { return Tensors{call[0].permute(call.list_i("order"))}; }},
    {"ReverseV2", [](const Call& call) { return Tensors{call[0].flip(call.ints(1))}; }},
    {"Transpose", [](const Call& call) { return Tensors{call[0].permute(call.ints(1))}; }},
    {"TransposeD", [](const Call& call) { return Tensors{call[0].permute(call.list_i("perm"))}; }},
});

const Kernels larger({
    {"BroadcastTo", [](const Call& call) { return Tensors{call[0].expand(call.ints(1))}; }},
    {"Expand", [](const Call& call) { return Tensors{call[0].expand(call.ints(1))}; }},
    {"Tile", [](const Call& call) { return Tensors{call[0].repeat(call.ints(1))}; }},
    {"PadV3",  // for each dimension: before, after
     [](const Call& call) {
       auto pairs = call.ints(1);
       Ints paddings;  // torch counts them from the last dimension
       for (auto dim = static_cast<int64_t>(pairs.size()) / 2 - 1; dim >= 0; --dim) {
         paddings.push_back(pairs[2 * dim]);
         paddings.push_back(pairs[2 * dim + 1]);
       }
       auto mode = call.s("mode", "constant");
       if (mode != "constant") {
         throw Refused(kFeatureNotSupported, "padding mode " + mode + " is not simulated");
       }
       auto value = call.optional(2);
       return Tensors{
           at::constant_pad_nd(call[0], paddings, value ? value->reshape({}).item() : 0)};
     }},
});

Kernel concatenated(const char* dimension) {
  return [dimension](const Call& call) {
    auto dim = call.in(dimension);
    auto axis = dim.defined() ? dim.item<int64_t>() : call.i(dimension, 0);
    auto parts = call.list("x");
    for (auto& part : parts) {
      if (part.dim() == 0) part = part.reshape({1});  // a number is a list of one
    }
    return Tensors{at::cat(parts, axis)};
  };
}

const Kernels joined({
    {"ConcatV2", concatenated("concat_dim")},
    {"ConcatD", concatenated("concat_dim")},
    {"Pack",
     [](const Call& call) { return Tensors{at::stack(call.list("x"), call.i("axis", 0))}; }},
    {"Unpack",
     [](const Call& call) {
       Tensors parts;
       for (const auto& part : call[0].unbind(call.i("axis", 0))) parts.push_back(part);
       return parts;
     }},
});

// One size may be -1: the rest.
Tensors split(const Tensor& x, Ints parts, int64_t dim) {
  int64_t known = 0;
  for (auto size : parts) known += std::max<int64_t>(size, 0);
  for (auto& size : parts) {
    if (size < 0) size = x.size(dim) - known;
  }
  return x.split_with_sizes(parts, dim);
}

bool bit(int64_t mask, size_t position) { return (mask >> position) & 1; }

struct Slice {
  int64_t axis, begin, end, step;
};

Tensor cut(Tensor x, const std::vector<Slice>& slices) {
  for (const auto& slice : slices) {
    if (slice.step < 1) {
      throw Refused(kFeatureNotSupported,
                    "steps of " + std::to_string(slice.step) + " are not simulated");
    }
    x = x.slice(slice.axis, slice.begin, slice.end, slice.step);
  }
  return x;
}

std::vector<Slice> slices(const Call& call) {
  auto begin = call.ints("begin"), end = call.ints("end");
  auto axes = call.ints("axes"), steps = call.ints("strides");
  for (const char* mask : {"ellipsis_mask", "new_axis_mask"}) {
    if (call.i(mask, 0)) {
      throw Refused(kFeatureNotSupported, std::string(mask) + " is not simulated");
    }
  }
  std::vector<Slice> result;
  for (size_t index = 0; index < begin.size(); ++index) {
    result.push_back({axes.empty() ? static_cast<int64_t>(index) : axes[index],
                      bit(call.i("begin_mask", 0), index) ? 0 : begin[index],
                      bit(call.i("end_mask", 0), index) ? INT64_MAX : end[index],
                      steps.empty() ? 1 : steps[index]});
  }
  return result;
}

Tensors strided_slice(const Call& call) {
  auto where = slices(call);
  auto result = cut(call[0], where);
  Ints shrunk;
  for (size_t index = 0; index < where.size(); ++index) {
    if (bit(call.i("shrink_axis_mask", 0), index)) shrunk.push_back(where[index].axis);
  }
  return {shrunk.empty() ? result : squeeze(result, shrunk)};
}

const Kernels cuts({
    {"Slice",
     [](const Call& call) {
       auto offsets = call.ints(1), lengths = call.ints(2);
       Tensor result = call[0];
       for (size_t dim = 0; dim < offsets.size(); ++dim) {
         auto end = lengths[dim] < 0 ? INT64_MAX : offsets[dim] + lengths[dim];
         result = result.slice(dim, offsets[dim], end);
       }
       return Tensors{result};
     }},
    {"SplitV",
     [](const Call& call) { return split(call[0], call.ints(1), call.integer(2)); }},
    {"SplitVD",
     [](const Call& call) {
       return split(call[0], call.list_i("size_splits"), call.i("split_dim", 0));
     }},
    {"StridedSlice", strided_slice},
    {"StridedSliceV2", strided_slice},
    {"AsStrided",
     [](const Call& call) {
       return Tensors{call[0].contiguous().as_strided(call.ints(1), call.ints(2),
                                                      call.integer(3))};
     }},
});

const Kernels slices_written(
    {{"StridedSliceAssign",
      [](const Call& call) {
        cut(call[0], slices(call)).copy_(call.in("input_value"));
        return Tensors{call[0]};
      }}},
    Kernels::kInPlace);

const Kernels copies_into_a_view({
    {"ViewCopy",  // the converters use it as a function, so the target is not the input itself
     [](const Call& call) {
       auto target = call[0].clone();
       auto source = call[4].contiguous().as_strided(call.ints(5), call.ints(6), call.integer(7));
       target.as_strided(call.ints(1), call.ints(2), call.integer(3)).copy_(source);
       return Tensors{target};
     }},
});

const Kernels made({
    {"Empty",
     [](const Call& call) {
       return Tensors{at::zeros(call.ints(0), type_attribute(call, "dtype", 3))};
     }},
    {"Fill",
     [](const Call& call) {
       return Tensors{call[1].reshape({}).expand(call.ints(0)).clone()};
     }},
    {"LinSpace",
     [](const Call& call) {
       return Tensors{at::linspace(call[0].item(), call[1].item(), call.integer(2),
                                   call[0].scalar_type())};
     }},
    {"Range",
     [](const Call& call) {
       auto type = at::result_type(at::add(call[0].reshape({}), call[1].reshape({})),
                                   call[2].reshape({}));
       return Tensors{at::arange(call[0].item(), call[1].item(), call[2].item(), type)};
     }},
    {"Tril", [](const Call& call) { return Tensors{at::tril(call[0], call.i("diagonal", 0))}; }},
    {"Triu", [](const Call& call) { return Tensors{at::triu(call[0], call.i("diagonal", 0))}; }},
});

}  // namespace
}  // namespace sim::graph
