// Sessions, graphs and the life of the graph engine.
#include "ge_session.h"

#include "streams.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ge {

class GNode {
 public:
  Status GetType(AscendString& type) const;

 private:
  std::shared_ptr<void> impl_;
};

class Graph {
 public:
  explicit Graph(const char* name);
  Status LoadFromSerializedModelArray(const void* model, size_t size);
  Status CopyFrom(const Graph& other);
  Status SaveToFile(const char* path) const;
  std::vector<GNode> GetAllNodes() const;
  const std::shared_ptr<GraphImpl>& impl() const { return impl_; }

 private:
  std::shared_ptr<GraphImpl> impl_;
};

class Allocator;

// The object is the caller's, one pointer large, and stays empty: torchair has one session.
class Session {
 public:
  explicit Session(const Options& options);
  ~Session();
  Status AddGraph(uint32_t id, const Graph& graph, const Options& options);
  Status RemoveGraph(uint32_t id);
  Status CompileGraph(uint32_t id);
  std::shared_ptr<CompiledGraphSummary> GetCompiledGraphSummary(uint32_t id);
  Status RunGraph(uint32_t id, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
  Status RunGraphWithStreamAsync(uint32_t id, void* stream, const std::vector<Tensor>& inputs,
                                 std::vector<Tensor>& outputs);
  Status SetGraphConstMemoryBase(uint32_t id, const void* memory, size_t size);
  Status UpdateGraphFeatureMemoryBase(uint32_t id, const void* memory, size_t size);
  Status SetGraphFixedFeatureMemoryBase(uint32_t id, const void* memory, size_t size);
  Status UpdateGraphRefreshableFeatureMemoryBase(uint32_t id, const void* memory, size_t size);
  Status RegisterExternalAllocator(const void* stream, std::shared_ptr<Allocator> allocator) const;
};

}  // namespace ge

namespace sim::graph {

State& state() {
  static State all;
  return all;
}

ge::Status answer(const char* function, const std::function<int()>& body) {
  int code = 0;
  int thrown = guarded(function, [&] { code = body(); });
  if (thrown == 0 && code == 0) return ge::kSuccess;
  std::string text = aclGetRecentErrMsg();
  std::lock_guard<std::mutex> lock(state().mutex);
  state().error = text.empty() ? std::string(function) + " failed" : text;
  return ge::kFailed;
}

namespace {

std::shared_ptr<Loaded> find(uint32_t id) {
  std::lock_guard<std::mutex> lock(state().mutex);
  auto found = state().graphs.find(id);
  if (found == state().graphs.end()) {
    throw Refused(kParamInvalid, "there is no graph " + std::to_string(id));
  }
  return found->second;
}

void dump(const ge::GraphImpl& graph) {
  const char* directory = std::getenv("ASCEND_SIM_GE_DUMP");
  if (directory == nullptr || *directory == 0) return;
  std::filesystem::create_directories(directory);
  auto path = std::filesystem::path(directory) / (graph.name + ".model");
  std::ofstream(path, std::ios::binary) << graph.bytes;
}

}  // namespace
}  // namespace sim::graph

using sim::graph::answer;
using sim::graph::state;

SIM_API const char* sim_ge_error() {
  thread_local std::string given;
  std::lock_guard<std::mutex> lock(state().mutex);
  given = state().error;
  return given.c_str();
}

// Operators are not registered with their signatures: torchair then makes no converter for them.
SIM_API int GetRegisteredIrDef(const char*, void*, void*, void*) { return 1; }

namespace ge {

Status GEInitialize(const Options& options) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().initialised = options;
  return kSuccess;
}
Status GEFinalize() {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().graphs.clear();
  return kSuccess;
}
AscendString GEGetWarningMsgV2() { return AscendString(""); }
AscendString GetFormatName(Format format) {
  return AscendString(("format " + std::to_string(format)).c_str());
}

Graph::Graph(const char* name) : impl_(new GraphImpl{name, {}, nullptr}) {}
Status Graph::LoadFromSerializedModelArray(const void* model, size_t size) {
  return answer("Graph::LoadFromSerializedModelArray", [&] {
    // A graph that was made without a name has no memory yet.
    if (!impl_) impl_ = std::make_shared<GraphImpl>();
    impl_->bytes.assign(static_cast<const char*>(model), size);
    impl_->model = sim::graph::parse(model, size);
    impl_->name = impl_->model->name;
    sim::graph::dump(*impl_);
    return 0;
  });
}
Status Graph::CopyFrom(const Graph& other) {
  impl_ = other.impl_ ? std::make_shared<GraphImpl>(*other.impl_) : nullptr;
  return kSuccess;
}
Status Graph::SaveToFile(const char* path) const {
  return answer("Graph::SaveToFile", [&] {
    std::ofstream file(path, std::ios::binary);
    if (impl_) file << impl_->bytes;
    if (!file) throw sim::Refused(sim::kParamInvalid, std::string("cannot write ") + path);
    return 0;
  });
}
// torchair looks for PrintV2 among them, which is not simulated anyway.
std::vector<GNode> Graph::GetAllNodes() const { return {}; }
Status GNode::GetType(AscendString&) const { return kFailed; }

Session::Session(const Options& options) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().session = options;
}
Session::~Session() {}

Status Session::AddGraph(uint32_t id, const Graph& graph, const Options& options) {
  return answer("Session::AddGraph", [&] {
    if (!graph.impl() || !graph.impl()->model) {
      throw sim::Refused(sim::kParamInvalid, "graph " + std::to_string(id) + " has no model");
    }
    std::lock_guard<std::mutex> lock(state().mutex);
    auto loaded = std::make_shared<sim::graph::Loaded>();
    loaded->id = id;
    loaded->options = options;
    loaded->graph = graph.impl();
    if (!state().graphs.emplace(id, loaded).second) {
      throw sim::Refused(sim::kParamInvalid, "there is a graph " + std::to_string(id) + " already");
    }
    state().history.push_back(loaded);
    return 0;
  });
}
Status Session::RemoveGraph(uint32_t id) {
  return answer("Session::RemoveGraph", [&] {
    sim::graph::find(id);
    std::lock_guard<std::mutex> lock(state().mutex);
    state().graphs.erase(id);
    return 0;
  });
}
Status Session::CompileGraph(uint32_t id) {
  return answer("Session::CompileGraph", [&] {
    auto loaded = sim::graph::find(id);
    sim::run([&] { loaded->summary = sim::graph::compile(*loaded->graph->model); });
    return 0;
  });
}
std::shared_ptr<CompiledGraphSummary> Session::GetCompiledGraphSummary(uint32_t id) {
  std::shared_ptr<CompiledGraphSummary> summary;
  answer("Session::GetCompiledGraphSummary", [&] {
    summary = sim::graph::find(id)->summary;
    return 0;
  });
  return summary;
}

Status Session::RunGraphWithStreamAsync(uint32_t id, void* stream,
                                        const std::vector<Tensor>& inputs,
                                        std::vector<Tensor>& outputs) {
  return answer("Session::RunGraphWithStreamAsync", [&] {
    auto loaded = sim::graph::find(id);
    if (!loaded->summary) {
      throw sim::Refused(sim::kParamInvalid, "graph " + loaded->graph->name + " is not compiled");
    }
    ++loaded->runs;
    return sim::graph::run_graph(*loaded, stream, inputs, outputs);
  });
}
Status Session::RunGraph(uint32_t id, const std::vector<Tensor>& inputs,
                         std::vector<Tensor>& outputs) {
  return RunGraphWithStreamAsync(id, nullptr, inputs, outputs);
}

// Memory that torchair gives for weights and workspaces is not needed.
Status Session::SetGraphConstMemoryBase(uint32_t, const void*, size_t) { return kSuccess; }
Status Session::UpdateGraphFeatureMemoryBase(uint32_t, const void*, size_t) { return kSuccess; }
Status Session::SetGraphFixedFeatureMemoryBase(uint32_t, const void*, size_t) { return kSuccess; }
Status Session::UpdateGraphRefreshableFeatureMemoryBase(uint32_t, const void*, size_t) {
  return kSuccess;
}
Status Session::RegisterExternalAllocator(const void*, std::shared_ptr<Allocator>) const {
  return kSuccess;
}

bool CompiledGraphSummary::IsStatic() const { return is_static; }
Status CompiledGraphSummary::GetConstMemorySize(size_t& size) const {
  size = 0;
  return kSuccess;
}
Status CompiledGraphSummary::GetFeatureMemorySize(size_t& size) const {
  size = 512;  // torchair allocates it and asserts that it got something
  return kSuccess;
}
Status CompiledGraphSummary::GetFixedFeatureMemorySize(size_t& size) const {
  size = 512;
  return kSuccess;
}
Status CompiledGraphSummary::GetFeatureMemoryBaseRefreshable(bool& refreshable) const {
  refreshable = true;
  return kSuccess;
}
Status CompiledGraphSummary::GetOutputShapes(std::vector<Shape>& given) const {
  given.clear();
  for (const auto& dims : shapes) given.emplace_back(dims);
  return kSuccess;
}
Status CompiledGraphSummary::GetOutputDtypes(std::vector<DataType>& given) const {
  given = types;
  return kSuccess;
}

// torchair asks whether an installed CANN knows an operator with the inputs and attributes that it
// is about to use. All inputs are known, and the attributes of the operators that it asks about.
class Operator {
 public:
  Operator() = default;
  explicit Operator(const char* type) : type_(std::make_shared<std::string>(type)) {}
  virtual ~Operator() = default;
  Status UpdateInputDesc(const char* name, const TensorDesc& desc);
  Status GetAllIrAttrNamesAndTypes(std::map<AscendString, AscendString>& types) const;

 private:
  std::shared_ptr<std::string> type_;
};
Status Operator::UpdateInputDesc(const char*, const TensorDesc&) { return kSuccess; }
Status Operator::GetAllIrAttrNamesAndTypes(std::map<AscendString, AscendString>& types) const {
  static const std::map<std::string, std::map<const char*, const char*>> known = {
      {"GeGluV2", {{"dim", "VT_INT"}, {"approximate", "VT_INT"}, {"activate_left", "VT_BOOL"}}},
      {"GeluV2", {{"approximate", "VT_STRING"}}},
      {"ScatterPaKvCache",
       {{"cache_mode", "VT_STRING"},
        {"scatter_mode", "VT_STRING"},
        {"strides", "VT_LIST_INT"},
        {"offsets", "VT_LIST_INT"}}},
      {"TransposeBatchMatMul",
       {{"perm_x1", "VT_LIST_INT"},
        {"perm_x2", "VT_LIST_INT"},
        {"perm_y", "VT_LIST_INT"},
        {"enable_hf32", "VT_BOOL"},
        {"batch_split_factor", "VT_INT"}}},
  };
  auto found = type_ ? known.find(*type_) : known.end();
  if (found == known.end()) return kSuccess;
  for (const auto& [name, type] : found->second) types[name] = type;
  return kSuccess;
}

class OperatorFactory {
 public:
  static bool IsExistOp(const char* type);
  static Operator CreateOperator(const char* name, const char* type);
};
bool OperatorFactory::IsExistOp(const char*) { return true; }
Operator OperatorFactory::CreateOperator(const char*, const char* type) { return Operator(type); }

}  // namespace ge
