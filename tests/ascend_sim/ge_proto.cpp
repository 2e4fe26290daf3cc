// Reads the wire format of ge.proto.ModelDef, as much of it as an execution needs. The numbers of
// the fields are those of ge_ir.proto, which torchair has in its generated modules.
#include "ge.h"

#include <cstring>
#include <set>

namespace sim::graph {

namespace {

[[noreturn]] void refuse(const std::string& text) { throw Refused(kParamInvalid, text); }

struct Field {
  int number = 0;
  uint64_t value = 0;       // of the wire types 0, 1 and 5
  std::string_view bytes;   // of the wire type 2

  float real() const {
    auto bits = static_cast<uint32_t>(value);
    float number_with_bits;
    std::memcpy(&number_with_bits, &bits, sizeof number_with_bits);
    return number_with_bits;
  }
  std::string text() const { return std::string(bytes); }
  int64_t integer() const { return static_cast<int64_t>(value); }
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool done() const { return rest_.empty(); }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= uint64_t(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse("the model has a number of more than 64 bits");
  }

  std::string_view take(size_t count) {
    if (count > rest_.size()) refuse("the model ends in the middle of a field");
    auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  bool next(Field& field) {
    if (done()) return false;
    auto key = varint();
    field = {static_cast<int>(key >> 3), 0, {}};
    switch (key & 7) {
      case 0: field.value = varint(); break;
      case 1: std::memcpy(&field.value, take(8).data(), 8); break;
      case 2: field.bytes = take(varint()); break;
      case 5: std::memcpy(&field.value, take(4).data(), 4); break;
      default: refuse("the model has a field of wire type " + std::to_string(key & 7));
    }
    return true;
  }

 private:
  std::string_view rest_;
};

// A repeated number is packed or not; the writer decides.
template <class Value, class Single, class Packed>
void append(std::vector<Value>& values, const Field& field, Single single, Packed packed) {
  if (field.bytes.data() == nullptr) {
    values.push_back(single(field));
    return;
  }
  for (Reader reader(field.bytes); !reader.done();) values.push_back(packed(reader));
}
void append(std::vector<int64_t>& values, const Field& field) {
  append(values, field, [](const Field& one) { return one.integer(); },
         [](Reader& reader) { return static_cast<int64_t>(reader.varint()); });
}
void append(std::vector<float>& values, const Field& field) {
  append(values, field, [](const Field& one) { return one.real(); }, [](Reader& reader) {
    float value;
    std::memcpy(&value, reader.take(4).data(), 4);
    return value;
  });
}

template <class Handle>
void each(std::string_view bytes, Handle handle) {
  Field field;
  for (Reader reader(bytes); reader.next(field);) handle(field);
}

std::pair<std::string, std::string_view> entry(std::string_view bytes) {
  std::pair<std::string, std::string_view> pair;
  each(bytes, [&](const Field& field) {
    if (field.number == 1) pair.first = field.text();
    if (field.number == 2) pair.second = field.bytes;
  });
  return pair;
}

Description description(std::string_view bytes) {
  Description result;
  each(bytes, [&](const Field& field) {
    if (field.number == 1) result.name = field.text();
    if (field.number == 2) result.type = type_of_proto(field.integer());
    if (field.number == 3) {
      each(field.bytes, [&](const Field& dim) { append(result.sizes, dim); });
    }
    if (field.number == 5) {
      auto name = entry(field.bytes).first;
      result.known = result.known || name == "_meta";
      result.absent = result.absent || name == "_is_unfed_optional";
    }
  });
  return result;
}

at::Tensor tensor(std::string_view bytes) {
  Description desc;
  std::string_view data;
  each(bytes, [&](const Field& field) {
    if (field.number == 1) desc = description(field.bytes);
    if (field.number == 2) data = field.bytes;
  });
  if (!desc.type) refuse("a constant of the model has a type that is not simulated");
  auto value = at::empty(desc.sizes, at::TensorOptions().dtype(*desc.type));
  if (data.size() < value.nbytes()) {
    refuse("a constant of the model has " + std::to_string(data.size()) + " bytes, " +
           words(value) + " needs " + std::to_string(value.nbytes()));
  }
  if (value.nbytes()) std::memcpy(value.data_ptr(), data.data(), value.nbytes());
  return value;
}

void read_list(std::string_view bytes, Attribute& attribute) {
  each(bytes, [&](const Field& field) {
    if (field.number == 2) attribute.texts.push_back(field.text());
    if (field.number == 3 || field.number == 5 || field.number == 12) {
      append(attribute.integers, field);
    }
    if (field.number == 4) append(attribute.reals, field);
  });
}

Attribute attribute(std::string_view bytes) {
  Attribute result;
  each(bytes, [&](const Field& field) {
    switch (field.number) {
      case 1: read_list(field.bytes, result); break;
      case 2: result.text = field.text(); break;
      case 3: result.integer = field.integer(); break;
      case 4: result.real = field.real(); break;
      case 5: result.flag = field.value != 0; break;
      case 12: result.tensor = tensor(field.bytes); break;
      case 14:
        each(field.bytes, [&](const Field& list) {
          result.lists.emplace_back();
          each(list.bytes, [&](const Field& one) { append(result.lists.back(), one); });
        });
        break;
      case 15: result.integer = field.integer(); break;
      default: break;
    }
  });
  return result;
}

struct Named {
  Node node;
  std::vector<std::string> inputs;
};

Named named_node(std::string_view bytes) {
  Named result;
  each(bytes, [&](const Field& field) {
    auto& node = result.node;
    switch (field.number) {
      case 1: node.name = field.text(); break;
      case 2: node.type = field.text(); break;
      case 5: result.inputs.push_back(field.text()); break;
      case 10: {
        auto [name, value] = entry(field.bytes);
        node.attributes[name] = attribute(value);
        break;
      }
      case 33: node.input_descriptions.push_back(description(field.bytes)); break;
      case 34: node.output_descriptions.push_back(description(field.bytes)); break;
      default: break;
    }
  });
  return result;
}

// Turn the names of inputs, "node:output", into positions; output -1 is an order without data.
void connect(Node& node, const std::vector<std::string>& inputs,
             const std::map<std::string, int>& positions) {
  for (const auto& input : inputs) {
    if (input.empty()) {
      node.inputs.push_back({});
      continue;
    }
    auto colon = input.rfind(':');
    auto found = positions.find(input.substr(0, colon));
    if (colon == std::string::npos || found == positions.end()) {
      refuse("node " + node.name + " has the input " + input + ", which no node has as an output");
    }
    auto output = std::stoi(input.substr(colon + 1));
    if (output < 0) {
      node.after.push_back(found->second);
    } else {
      node.inputs.push_back({found->second, output});
    }
  }
}

// What a node needs before itself; the order of the model decides where dependencies do not.
void visit(Model& model, int node, std::set<int>& seen) {
  if (!seen.insert(node).second) return;
  std::set<int> needed(model.nodes[node].after.begin(), model.nodes[node].after.end());
  for (const auto& source : model.nodes[node].inputs) {
    if (source.node >= 0) needed.insert(source.node);
  }
  for (int before : needed) visit(model, before, seen);
  model.order.push_back(node);
}

void sort(Model& model) {
  std::set<int> needed;
  visit(model, model.output, needed);
  model.order.clear();
  std::set<int> seen;
  for (int node : needed) {
    if (node != model.output) visit(model, node, seen);
  }
}

void find_ends(Model& model) {
  std::map<int64_t, int> by_index;
  for (size_t position = 0; position < model.nodes.size(); ++position) {
    auto& node = model.nodes[position];
    if (node.type == "NetOutput") model.output = static_cast<int>(position);
    if (node.type == "Data" || node.type == "RefData") {
      by_index[node.attributes["index"].integer] = static_cast<int>(position);
    }
  }
  if (model.output < 0) refuse("graph " + model.name + " has no NetOutput");
  for (const auto& [index, position] : by_index) {
    if (index != static_cast<int64_t>(model.data.size())) {
      refuse("graph " + model.name + " has no input " + std::to_string(model.data.size()));
    }
    model.data.push_back(position);
  }
}

}  // namespace

std::optional<at::ScalarType> type_of_proto(int64_t number) {
  static const std::map<int64_t, at::ScalarType> types = {
      {1, at::kFloat},   {2, at::kHalf},    {3, at::kChar},          {4, at::kByte},
      {5, at::kShort},   {6, at::kUInt16},  {7, at::kInt},           {8, at::kLong},
      {9, at::kUInt32},  {10, at::kUInt64}, {11, at::kBool},         {12, at::kDouble},
      {16, at::kComplexFloat}, {17, at::kComplexDouble}, {27, at::kBFloat16},
  };
  auto found = types.find(number);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

std::shared_ptr<Model> parse(const void* bytes, size_t size) {
  auto model = std::make_shared<Model>();
  std::vector<Named> nodes;
  each({static_cast<const char*>(bytes), size}, [&](const Field& field) {
    if (field.number != 7 || !nodes.empty()) return;  // the first graph is the whole one
    each(field.bytes, [&](const Field& part) {
      if (part.number == 1) model->name = part.text();
      if (part.number == 6) nodes.push_back(named_node(part.bytes));
    });
  });
  std::map<std::string, int> positions;
  for (auto& [node, inputs] : nodes) positions[node.name] = static_cast<int>(positions.size());
  for (auto& [node, inputs] : nodes) {
    connect(node, inputs, positions);
    model->nodes.push_back(std::move(node));
  }
  find_ends(*model);
  sort(*model);
  return model;
}

}  // namespace sim::graph
