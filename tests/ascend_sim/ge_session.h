// Graphs that were added to sessions: what ge_session.cpp keeps and ge_report.cpp tells.
#pragma once

#include "ge.h"

#include <mutex>

namespace ge {

struct GraphImpl {
  std::string name;
  std::string bytes;  // the model as it was given
  std::shared_ptr<sim::graph::Model> model;
};

// What compiling a graph tells. Only made here, so its layout is free.
class CompiledGraphSummary {
 public:
  bool IsStatic() const;
  Status GetConstMemorySize(size_t& size) const;
  Status GetFeatureMemorySize(size_t& size) const;
  Status GetFixedFeatureMemorySize(size_t& size) const;
  Status GetFeatureMemoryBaseRefreshable(bool& refreshable) const;
  Status GetOutputShapes(std::vector<Shape>& shapes) const;
  Status GetOutputDtypes(std::vector<DataType>& types) const;

  bool is_static = false;
  std::vector<std::vector<int64_t>> shapes;  // of a dynamic graph: with -1
  std::vector<DataType> types;
};

}  // namespace ge

namespace sim::graph {

struct Loaded {
  uint32_t id;
  ge::Options options;
  std::shared_ptr<ge::GraphImpl> graph;
  std::shared_ptr<ge::CompiledGraphSummary> summary;  // once it is compiled
  int runs = 0;
};

struct State {
  std::mutex mutex;
  ge::Options initialised, session;
  std::map<uint32_t, std::shared_ptr<Loaded>> graphs;
  std::vector<std::shared_ptr<Loaded>> history;  // removed graphs too, in the order of AddGraph
  std::string error;
};
State& state();

// Run a body of a ge:: function; what it throws, and the code it gives, become a status and a text.
// Graphs are compiled in a thread of its own, so the text is not one of a thread.
ge::Status answer(const char* function, const std::function<int()>& body);

// Find out what the outputs are like. Throws Refused when the graph cannot be executed.
std::shared_ptr<ge::CompiledGraphSummary> compile(const Model& model);

// Put the execution of a graph on a stream, and fill in the outputs.
int run_graph(const Loaded& loaded, void* stream, const std::vector<ge::Tensor>& inputs,
              std::vector<ge::Tensor>& outputs);

}  // namespace sim::graph
