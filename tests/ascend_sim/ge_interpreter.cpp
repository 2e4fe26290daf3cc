// Executes a model node by node on the CPU kernels of torch.
#include "ge.h"

#include <set>
#include <sstream>

namespace sim::graph {

namespace {

std::map<std::string, Entry>& kernels() {
  static std::map<std::string, Entry> all;
  return all;
}

// What is not computed: where values come from and go to.
const std::set<std::string> kStructure = {
    "Data", "RefData", "Const", "Constant", "ConstPlaceHolder", "NetOutput", "NoOp"};

std::string signature(const Node& node, const Tensors& inputs) {
  std::ostringstream text;
  text << node.type << "(";
  for (size_t index = 0; index < inputs.size(); ++index) {
    const auto& descriptions = node.input_descriptions;
    text << (index ? ", " : "") << (index < descriptions.size() ? descriptions[index].name : "")
         << "=" << words(inputs[index]);
  }
  text << ") of node " << node.name;
  return text.str();
}

std::string words(const Description& description) {
  if (description.absent) return "none";
  std::ostringstream text;
  text << (description.type ? c10::toString(*description.type) : "unknown") << "[";
  for (size_t index = 0; index < description.sizes.size(); ++index) {
    text << (index ? ", " : "") << description.sizes[index];
  }
  text << "]";
  return text.str();
}

std::string described(const Node& node) {
  std::string text;
  for (const auto& description : node.input_descriptions) {
    text += (text.empty() ? "" : ", ") + description.name + "=" + words(description);
  }
  return text;
}

bool shares_memory(const at::Tensor& value, const Tensors& others) {
  for (const auto& other : others) {
    if (other.defined() && value.storage().data() == other.storage().data() && value.numel() &&
        other.numel()) {
      return true;
    }
  }
  return false;
}

// A weight that is not an input but an address, with its shape and type as attributes.
at::Tensor placeholder(const Node& node) {
  const auto& attributes = node.attributes;
  auto* data = reinterpret_cast<void*>(attributes.at("addr").integer);
  auto type = scalar_type(static_cast<int>(attributes.at("dtype").integer));
  return at::from_blob(data, attributes.at("origin_shape").integers,
                       at::TensorOptions().dtype(type));
}

// An input in the shape that the model has for it: a number comes as one element, for example.
at::Tensor input(const Node& node, const at::Tensor& value) {
  const auto& sizes = node.output_descriptions.at(0).sizes;
  for (auto size : sizes) {
    if (size < 0) return value;
  }
  if (value.numel() != c10::multiply_integers(sizes)) {
    throw Refused(kParamInvalid, "input " + node.name + " is " + sim::graph::words(value) +
                                     ", the graph was compiled for " +
                                     words(node.output_descriptions[0]));
  }
  return value.reshape(sizes);
}

Tensors compute(const Node& node, const Tensors& inputs) {
  const auto* entry = find_kernel(node.type);
  if (entry == nullptr) {
    throw Refused(kFeatureNotSupported,
                  "operator " + signature(node, inputs) + " is not simulated");
  }
  Tensors outputs;
  try {
    outputs = entry->kernel(Call{node, inputs});
  } catch (const Refused& error) {
    throw Refused(error.code, signature(node, inputs) + ": " + error.what());
  } catch (const c10::Error& error) {
    throw Refused(kInternalError,
                  signature(node, inputs) + ": " + error.what_without_backtrace());
  }
  if (entry->kind == Kernels::kInPlace) return outputs;
  for (auto& output : outputs) {
    if (!output.defined()) continue;
    output = output.contiguous();
    if (entry->kind == Kernels::kFresh && shares_memory(output, inputs)) output = output.clone();
  }
  return outputs;
}

// The types of the FX nodes win over those that the CPU kernels choose.
void convert(const Node& node, Tensors& outputs) {
  for (size_t index = 0; index < outputs.size(); ++index) {
    if (index >= node.output_descriptions.size() || !outputs[index].defined()) continue;
    const auto& description = node.output_descriptions[index];
    if (description.known && description.type) {
      outputs[index] = outputs[index].to(*description.type);
    }
  }
}

}  // namespace

Kernels::Kernels(std::initializer_list<std::pair<const char*, Kernel>> entries, Kind kind) {
  for (const auto& [type, kernel] : entries) kernels()[type] = {kernel, kind};
}

const Entry* find_kernel(const std::string& type) {
  auto found = kernels().find(type);
  return found == kernels().end() ? nullptr : &found->second;
}

at::ScalarType type_of_code(int64_t number) {
  bool is_unsigned = number == 7 || number == 8 || number == 10;
  return is_unsigned ? at::kLong : scalar_type(static_cast<int>(number));
}

std::string words(const at::Tensor& value) {
  if (!value.defined()) return "none";
  std::ostringstream text;
  text << c10::toString(value.scalar_type()) << value.sizes();
  return text.str();
}

at::Tensor wide(const at::Tensor& value) {
  if (!value.defined()) return value;
  auto type = value.scalar_type();
  return type == at::kHalf || type == at::kBFloat16 ? value.to(at::kFloat) : value;
}

void check_types(const Model& model) {
  for (int position : model.order) {
    const auto& node = model.nodes[position];
    if (kStructure.count(node.type) || find_kernel(node.type)) continue;
    throw Refused(kFeatureNotSupported, "operator " + node.type + "(" + described(node) +
                                            ") of node " + node.name + " is not simulated");
  }
}

Tensors execute(const Model& model, const Tensors& inputs) {
  std::vector<Tensors> values(model.nodes.size());
  auto value_of = [&](const Source& source) {
    if (source.node < 0) return at::Tensor();
    const auto& outputs = values[source.node];
    if (static_cast<size_t>(source.output) < outputs.size()) return outputs[source.output];
    throw Refused(kInternalError, "node " + model.nodes[source.node].name + " gives " +
                                      std::to_string(outputs.size()) + " values, value " +
                                      std::to_string(source.output) + " is asked for");
  };
  for (size_t index = 0; index < model.data.size(); ++index) {
    values[model.data[index]] = {input(model.nodes[model.data[index]], inputs.at(index))};
  }
  for (int position : model.order) {
    const auto& node = model.nodes[position];
    if (node.type == "Const" || node.type == "Constant") {
      values[position] = {node.attributes.at("value").tensor};
    } else if (node.type == "ConstPlaceHolder") {
      values[position] = {placeholder(node)};
    } else if (!kStructure.count(node.type)) {
      Tensors arguments;
      for (const auto& source : node.inputs) arguments.push_back(value_of(source));
      values[position] = compute(node, arguments);
      convert(node, values[position]);
    }
  }
  Tensors outputs;
  for (const auto& source : model.nodes[model.output].inputs) outputs.push_back(value_of(source));
  return outputs;
}

// --- what a kernel asks for -------------------------------------------------------------------

const at::Tensor& Call::operator[](size_t index) const {
  if (index >= inputs.size() || !inputs[index].defined()) {
    throw Refused(kParamInvalid, "input " + std::to_string(index) + " is absent");
  }
  return inputs[index];
}

const at::Tensor& Call::in(const std::string& name) const {
  static const at::Tensor none;
  for (size_t index = 0; index < node.input_descriptions.size(); ++index) {
    if (node.input_descriptions[index].name == name && index < inputs.size()) {
      return inputs[index];
    }
  }
  return none;
}

Tensors Call::list(const std::string& name) const {
  Tensors found;
  while (true) {
    const auto& next = in(name + std::to_string(found.size()));
    if (!next.defined()) return found;
    found.push_back(next);
  }
}

static Ints values_of(const at::Tensor& tensor) {
  auto flat = tensor.to(at::kLong).reshape({-1}).contiguous();
  return Ints(flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel());
}

Ints Call::ints(size_t index) const { return values_of((*this)[index]); }
Ints Call::ints(const std::string& name) const {
  const auto& tensor = in(name);
  return tensor.defined() ? values_of(tensor) : Ints{};
}

int64_t Call::integer(size_t index) const {
  auto values = ints(index);
  if (values.size() != 1) {
    throw Refused(kParamInvalid, "input " + std::to_string(index) + " is not one number");
  }
  return values[0];
}

std::optional<at::Tensor> Call::optional(size_t index) const {
  if (index >= inputs.size() || !inputs[index].defined()) return std::nullopt;
  return inputs[index];
}

bool Call::has(const std::string& attribute) const { return node.attributes.count(attribute); }
int64_t Call::i(const std::string& attribute, int64_t fallback) const {
  auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? fallback : found->second.integer;
}
double Call::f(const std::string& attribute, double fallback) const {
  auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? fallback : found->second.real;
}
bool Call::b(const std::string& attribute, bool fallback) const {
  auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? fallback : found->second.flag;
}
std::string Call::s(const std::string& attribute, const std::string& fallback) const {
  auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? fallback : found->second.text;
}
Ints Call::list_i(const std::string& attribute) const {
  auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? Ints{} : found->second.integers;
}

}  // namespace sim::graph
