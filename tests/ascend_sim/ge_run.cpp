// Compiles a graph, which finds the shapes of its outputs, and runs it on a stream.
#include "ge_session.h"

#include <cstdlib>
#include <cstring>
#include <sstream>

SIM_API int aclrtMalloc(void** pointer, size_t size, int policy);
SIM_API int aclrtFree(void* pointer);

namespace sim::graph {

namespace {

using Summary = ge::CompiledGraphSummary;

bool is_fixed(const std::vector<int64_t>& sizes) {
  for (auto size : sizes) {
    if (size < 0) return false;
  }
  return true;
}

const std::vector<Description>& promised(const Model& model) {
  return model.nodes[model.output].input_descriptions;
}

// Every size of the inputs and of the outputs is known.
bool has_fixed_sizes(const Model& model) {
  for (int position : model.data) {
    if (!is_fixed(model.nodes[position].output_descriptions.at(0).sizes)) return false;
  }
  for (const auto& output : promised(model)) {
    if (!is_fixed(output.sizes)) return false;
  }
  const char* dynamic = std::getenv("ASCEND_SIM_GE_DYNAMIC");
  return dynamic == nullptr || std::strcmp(dynamic, "1") != 0;
}

Tensors zeros(const Model& model) {
  Tensors inputs;
  for (int position : model.data) {
    const auto& input = model.nodes[position].output_descriptions.at(0);
    if (!input.type) {
      throw Refused(kParamInvalid, "input " + model.nodes[position].name + " has no type");
    }
    inputs.push_back(at::zeros(input.sizes, at::TensorOptions().dtype(*input.type)));
  }
  return inputs;
}

// What the model says about its outputs.
void take_promises(const Model& model, Summary& summary) {
  for (const auto& output : promised(model)) {
    if (!output.type) throw Refused(kParamInvalid, "output " + output.name + " has no type");
    summary.shapes.push_back(output.sizes);
    summary.types.push_back(ge::DataType(acl_dtype(*output.type)));
  }
}

void write(const at::Tensor& value, const at::Tensor& target, size_t index) {
  if (target.sizes() != value.sizes()) {
    throw Refused(kParamInvalid, "output " + std::to_string(index) + " is " + words(value) +
                                     ", the memory given for it is " + words(target));
  }
  target.copy_(value);
}

// Values that are inputs, or views of them, are copied before anything is written to an input.
Tensors kept(Tensors values, const Tensors& inputs) {
  for (auto& value : values) {
    if (!value.defined()) throw Refused(kInternalError, "an output of the graph has no value");
    for (const auto& input : inputs) {
      if (value.storage().data() == input.storage().data()) {
        value = value.clone();
        break;
      }
    }
  }
  return values;
}

void give(ge::Tensor& output, const at::Tensor& value) {
  void* memory = nullptr;
  auto bytes = std::max<size_t>(value.nbytes(), 1);
  int code = aclrtMalloc(&memory, bytes, 0);
  if (code != 0) {
    throw Refused(code, "no memory for an output of " + std::to_string(bytes) + " bytes");
  }
  auto contiguous = value.contiguous();
  if (value.nbytes()) std::memcpy(memory, contiguous.data_ptr(), value.nbytes());
  ge::TensorDesc desc;
  desc.SetDataType(ge::DataType(acl_dtype(value.scalar_type())));
  desc.SetPlacement(ge::kDevice);
  desc.SetOriginShape(ge::Shape(value.sizes().vec()));
  output.SetTensorDesc(desc);
  output.SetShapeDimNum(value.dim());
  for (int64_t dim = 0; dim < value.dim(); ++dim) output.SetShapeDim(dim, value.size(dim));
  output.SetData(static_cast<uint8_t*>(memory), bytes, [](uint8_t* data) { aclrtFree(data); });
}

std::string option(const ge::Options& options, const char* name) {
  auto found = options.find(ge::AscendString(name));
  return found == options.end() ? "" : found->second.GetString();
}

// A graph with gears runs for the listed sizes only: "2,8;4,8" for the sizes that are -1.
void check_gears(const Loaded& loaded, const std::vector<ge::Tensor>& inputs) {
  auto gears = option(loaded.options, "ge.dynamicDims");
  if (gears.empty()) return;
  const auto& model = *loaded.graph->model;
  std::string actual;
  for (size_t index = 0; index < inputs.size(); ++index) {
    const auto& sizes = model.nodes[model.data[index]].output_descriptions.at(0).sizes;
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      if (sizes[dim] >= 0) continue;
      actual += (actual.empty() ? "" : ",") + std::to_string(inputs[index].GetShapeDim(dim));
    }
  }
  std::istringstream each(gears);
  for (std::string gear; std::getline(each, gear, ';');) {
    if (gear == actual) return;
  }
  throw Refused(kParamInvalid, "the sizes " + actual + " of the inputs of graph " + model.name +
                                   " are none of the gears " + gears);
}

}  // namespace

std::shared_ptr<Summary> compile(const Model& model) {
  check_types(model);
  auto summary = std::make_shared<Summary>();
  summary->is_static = has_fixed_sizes(model);
  if (!summary->is_static) {
    take_promises(model, *summary);
    return summary;
  }
  try {
    for (const auto& value : execute(model, zeros(model))) {
      summary->shapes.push_back(value.sizes().vec());
      summary->types.push_back(ge::DataType(acl_dtype(value.scalar_type())));
    }
  } catch (const std::exception&) {
    // Zeros need not be legal values, as an index into nothing is not. A graph that is wrong for
    // every value fails again when it runs.
    *summary = {};
    summary->is_static = true;
    take_promises(model, *summary);
  }
  return summary;
}

int run_graph(const Loaded& loaded, void* stream, const std::vector<ge::Tensor>& inputs,
              std::vector<ge::Tensor>& outputs) {
  auto model = loaded.graph->model;
  if (inputs.size() != model->data.size()) {
    throw Refused(kParamInvalid, "graph " + model->name + " has " +
                                     std::to_string(model->data.size()) + " inputs, " +
                                     std::to_string(inputs.size()) + " are given");
  }
  check_gears(loaded, inputs);
  outputs.resize(promised(*model).size());
  Tensors arguments;
  for (const auto& input : inputs) {
    auto value = input.view();
    // Host memory is the caller's and may be gone when a stream gets to the graph.
    arguments.push_back(input.GetPlacement() == ge::kHost ? value.clone() : value);
  }
  Tensors targets(outputs.size());  // undefined: it is allocated
  bool allocates = false;
  for (size_t index = 0; index < outputs.size(); ++index) {
    auto given = outputs[index].view();
    if (outputs[index].GetData() != nullptr) {
      targets[index] = given;
    } else if (given.numel() != 0) {  // an empty output has sizes and no memory
      allocates = true;
    }
  }
  auto values = std::make_shared<Tensors>();
  int code = launch(stream, "ge:" + model->name, [=] {
    auto results = kept(execute(*model, arguments), arguments);
    for (size_t index = 0; index < results.size(); ++index) {
      if (targets[index].defined()) write(results[index], targets[index], index);
    }
    if (allocates) *values = std::move(results);
  });
  if (code != 0 || !allocates) return code;
  if (values->size() != outputs.size()) {
    throw Refused(kFeatureNotSupported,
                  "graph " + model->name + " allocates outputs whose sizes only a run knows; on a "
                  "stream that captures or waits they are not there when the call returns");
  }
  for (size_t index = 0; index < outputs.size(); ++index) {
    if (!targets[index].defined()) give(outputs[index], (*values)[index]);
  }
  return 0;
}

}  // namespace sim::graph
