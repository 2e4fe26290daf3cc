// What tests read about the graph engine, as JSON.
#include "ge_session.h"

#include <sstream>

namespace sim::graph {

namespace {

std::string quoted(const std::string& text) {
  std::ostringstream out;
  out << '"';
  for (unsigned char character : text) {
    if (character == '"' || character == '\\') {
      out << '\\' << character;
    } else if (character < 0x20) {
      static const char* digits = "0123456789abcdef";
      out << "\\u00" << digits[character >> 4] << digits[character & 15];
    } else {
      out << character;
    }
  }
  out << '"';
  return out.str();
}

template <class Range, class Word>
std::string listed(const Range& range, const char* ends, Word word) {
  std::string text(1, ends[0]);
  for (const auto& item : range) text += (text.size() > 1 ? ", " : "") + word(item);
  return text + ends[1];
}

std::string json(const ge::Options& options) {
  return listed(options, "{}", [](const auto& option) {
    return quoted(option.first.GetString()) + ": " + quoted(option.second.GetString());
  });
}
std::string json(const std::vector<int64_t>& numbers) {
  return listed(numbers, "[]", [](int64_t number) { return std::to_string(number); });
}
std::string json(const std::string& name, const Description& description) {
  auto type = description.type ? c10::toString(*description.type) : "unknown";
  return "{\"name\": " + quoted(name) + ", \"dtype\": " + quoted(type) +
         ", \"shape\": " + json(description.sizes) + "}";
}

std::string inputs(const Model& model) {
  return listed(model.data, "[]", [&](int position) {
    const auto& node = model.nodes[position];
    return json(node.name, node.output_descriptions.at(0));
  });
}
std::string outputs(const Model& model) {
  return listed(model.nodes[model.output].input_descriptions, "[]",
                [](const Description& output) { return json(output.name, output); });
}
std::string operators(const Model& model) {
  return listed(model.order, "[]",
                [&](int position) { return quoted(model.nodes[position].type); });
}

std::string json(const Loaded& loaded) {
  const auto& model = *loaded.graph->model;
  const char* kind = !loaded.summary ? "null" : loaded.summary->is_static ? "true" : "false";
  return "{\"id\": " + std::to_string(loaded.id) + ", \"name\": " + quoted(model.name) +
         ", \"options\": " + json(loaded.options) + ", \"static\": " + kind +
         ", \"runs\": " + std::to_string(loaded.runs) + ", \"inputs\": " + inputs(model) +
         ", \"outputs\": " + outputs(model) + ", \"ops\": " + operators(model) + "}";
}

}  // namespace
}  // namespace sim::graph

// The options of GEInitialize and of the session, and all graphs since the last sim_ge_forget.
SIM_API const char* sim_ge_report() {
  thread_local std::string text;
  auto& state = sim::graph::state();
  std::lock_guard<std::mutex> lock(state.mutex);
  text = "{\"initialised\": " + sim::graph::json(state.initialised) +
         ", \"session\": " + sim::graph::json(state.session) + ", \"graphs\": " +
         sim::graph::listed(state.history, "[]",
                            [](const auto& loaded) { return sim::graph::json(*loaded); }) +
         "}";
  return text.c_str();
}

SIM_API void sim_ge_forget() {
  auto& state = sim::graph::state();
  std::lock_guard<std::mutex> lock(state.mutex);
  state.history.clear();
}
