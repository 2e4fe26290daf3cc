// The graph engine (GE): the ge:: classes that torchair links against, a GE model as read from its
// serialised form, and what a kernel of the interpreter is given.
#pragma once

#include "sim.h"

#include <map>
#include <memory>
#include <optional>

// --- the vendor's classes: names and sizes are the ABI ------------------------------------------

namespace ge {

enum DataType : int {};
enum Format : int {};
enum Placement : int {};
constexpr Placement kHost = Placement(0);
constexpr Placement kDevice = Placement(1);
using Status = uint32_t;
constexpr Status kSuccess = 0;
constexpr Status kFailed = 0xFFFFFFFF;

class AscendString {
 public:
  AscendString() = default;
  AscendString(const char* text);
  const char* GetString() const;
  bool operator<(const AscendString& other) const;
  bool operator==(const AscendString& other) const;

 private:
  std::shared_ptr<std::string> text_;
};
using Options = std::map<AscendString, AscendString>;

struct ShapeImpl;
class Shape {
 public:
  explicit Shape(const std::vector<int64_t>& dims);
  std::vector<int64_t> GetDims() const;

 private:
  std::shared_ptr<ShapeImpl> impl_;
};

struct TensorDescImpl;
class TensorDesc {
 public:
  TensorDesc();
  Shape GetShape() const;
  Format GetFormat() const;
  void SetFormat(Format format);
  void SetOriginShape(const Shape& shape);
  void SetOriginFormat(Format format);
  DataType GetDataType() const;
  void SetDataType(DataType type);
  void SetPlacement(Placement placement);
  Placement GetPlacement() const;

 private:
  friend class Tensor;
  std::shared_ptr<TensorDescImpl> impl_;
};

struct TensorImpl;
class Tensor {
 public:
  using DeleteFunc = std::function<void(uint8_t*)>;
  Tensor();
  Status SetTensorDesc(const TensorDesc& desc);
  TensorDesc GetTensorDesc() const;
  Status SetDataType(const DataType& type);
  DataType GetDataType() const;
  Status SetPlacement(const Placement& placement);
  Placement GetPlacement() const;
  Status SetFormat(const Format& format);
  Format GetFormat() const;
  Status SetShapeDimNum(size_t count);
  size_t GetShapeDimNum() const;
  Status SetShapeDim(size_t index, int64_t size);
  int64_t GetShapeDim(size_t index) const;
  Status SetOriginShapeDimNum(size_t count);
  size_t GetOriginShapeDimNum() const;
  Status SetOriginShapeDim(size_t index, int64_t size);
  const uint8_t* GetData() const;
  uint8_t* GetData();
  Status SetData(uint8_t* data, size_t size, const DeleteFunc& deleter);
  Status ResetData(uint8_t* data, size_t size, const DeleteFunc& deleter);
  std::unique_ptr<uint8_t[], DeleteFunc> ResetData();

  // Not of the vendor: the memory as a CPU tensor, which owns nothing.
  at::Tensor view() const;


 private:
  std::shared_ptr<TensorImpl> impl_;
};

}  // namespace ge

// --- a model ------------------------------------------------------------------------------------

namespace sim::graph {

struct Attribute {
  std::string text;
  int64_t integer = 0;
  float real = 0;
  bool flag = false;
  std::vector<std::string> texts;
  std::vector<int64_t> integers;
  std::vector<float> reals;
  std::vector<std::vector<int64_t>> lists;
  at::Tensor tensor;
};
using Attributes = std::map<std::string, Attribute>;

struct Description {
  std::string name;
  std::optional<at::ScalarType> type;
  std::vector<int64_t> sizes;  // -1 a size that only a run knows, -2 alone: the rank too
  bool known = false;          // whether torchair gave it the type of the FX node
  bool absent = false;         // an optional input that is not there
};

struct Source {
  int node = -1;  // -1: absent
  int output = 0;
};

struct Node {
  std::string name, type;
  std::vector<Source> inputs;
  std::vector<int> after;  // nodes that must run before, without data
  Attributes attributes;
  std::vector<Description> input_descriptions, output_descriptions;
};

struct Model {
  std::string name;
  std::vector<Node> nodes;
  std::vector<int> order;  // what NetOutput needs, in the order of execution
  std::vector<int> data;   // the nodes of the inputs, by index
  int output = -1;         // NetOutput
};

// Read a serialised ge.proto.ModelDef. Throws Refused when it is not one.
std::shared_ptr<Model> parse(const void* bytes, size_t size);

// The type with a number of ge.proto.DataType; none for DT_UNDEFINED and types torch lacks.
std::optional<at::ScalarType> type_of_proto(int64_t number);

// The type with a number of ge.DataType, as attributes have it. Unsigned types that torch computes
// little with are int64.
at::ScalarType type_of_code(int64_t number);

// "float16[2, 3]", for error texts.
std::string words(const at::Tensor& value);

// --- kernels ------------------------------------------------------------------------------------

using Tensors = std::vector<at::Tensor>;
using Ints = std::vector<int64_t>;

// What a kernel is given. An input that is absent is an undefined tensor.
struct Call {
  const Node& node;
  Tensors inputs;

  const at::Tensor& operator[](size_t index) const;       // throws when it is absent
  const at::Tensor& in(const std::string& name) const;    // by name, undefined when absent
  Tensors list(const std::string& name) const;            // the inputs NAME0, NAME1, ...
  Ints ints(size_t index) const;                          // the values of an input
  Ints ints(const std::string& name) const;
  int64_t integer(size_t index) const;
  std::optional<at::Tensor> optional(size_t index) const;

  bool has(const std::string& attribute) const;
  int64_t i(const std::string& attribute, int64_t fallback) const;
  double f(const std::string& attribute, double fallback) const;
  bool b(const std::string& attribute, bool fallback) const;
  std::string s(const std::string& attribute, const std::string& fallback) const;
  Ints list_i(const std::string& attribute) const;
};

using Kernel = std::function<Tensors(const Call&)>;

// Registers the kernels of a file: static const Kernels some({{"Add", ...}, ...});
struct Kernels {
  enum Kind {
    kFresh,     // outputs have memory of their own
    kView,      // an output may share the memory of an input, as Reshape does
    kInPlace,   // the first outputs are written inputs
  };
  Kernels(std::initializer_list<std::pair<const char*, Kernel>> kernels, Kind kind = kFresh);
};

struct Entry {
  Kernel kernel;
  Kernels::Kind kind;
};
// The kernel of a type, or null.
const Entry* find_kernel(const std::string& type);

// float32 for half types, for what is accumulated.
at::Tensor wide(const at::Tensor& value);

// --- execution ----------------------------------------------------------------------------------

// Throw Refused when the model has a type that no kernel stands for; names type, node and inputs.
void check_types(const Model& model);

// Compute the outputs; inputs are by index and written by operators that write in place.
Tensors execute(const Model& model, const Tensors& inputs);

}  // namespace sim::graph
