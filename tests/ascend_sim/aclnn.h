// How an aclnn function is written: its parameters by kind, in the order of the ABI, and what it
// computes, with the CPU kernels of torch, in the outputs that the caller gives.
//
//   ACLNN(Add, Tensor x, Tensor y, Scalar alpha, Tensor out) { put(out, at::add(x, y, alpha)); }
//
// exports aclnnAddGetWorkspaceSize(x, y, alpha, out, size, executor) and
// aclnnAdd(workspace, size, executor, stream).
#pragma once

#include "sim.h"

#include <optional>
#include <tuple>
#include <utility>

namespace sim::aclnn {

// The kinds of parameters. A handle that may be absent is an undefined tensor, an empty list or an
// empty optional; the ABI has a null pointer for it.
using at::Scalar;
using at::Tensor;
using OptScalar = std::optional<at::Scalar>;
using Ints = std::vector<int64_t>;
using Tensors = std::vector<at::Tensor>;
using Scalars = std::vector<at::Scalar>;
using Int = int64_t;
using Bool = bool;
using Double = double;
using Float = float;
using Byte = int8_t;           // the precision of a matrix product, mostly
using Text = std::string;
struct Type {                  // a data type
  std::optional<at::ScalarType> type;
};
struct Grown {                 // an output whose shape the values decide
  at::Tensor room;
  void* handle = nullptr;
};

// What the caller passes for each kind.
using ABI_Scalar = void*;
using ABI_Tensor = void*;
using ABI_OptScalar = void*;
using ABI_Ints = void*;
using ABI_Tensors = void*;
using ABI_Scalars = void*;
using ABI_Int = int64_t;
using ABI_Bool = bool;
using ABI_Double = double;
using ABI_Float = float;
using ABI_Byte = int8_t;
using ABI_Text = const char*;
using ABI_Type = int32_t;
using ABI_Grown = void*;

// Read what was passed; throws Refused when the handle is not one of that kind.
void read(void* handle, Tensor& value);
void read(void* handle, Scalar& value);
void read(void* handle, OptScalar& value);
void read(void* handle, Ints& value);
void read(void* handle, Tensors& value);
void read(void* handle, Scalars& value);
void read(void* handle, Grown& value);
inline void read(int64_t passed, Int& value) { value = passed; }
inline void read(bool passed, Bool& value) { value = passed; }
inline void read(double passed, Double& value) { value = passed; }
inline void read(float passed, Float& value) { value = passed; }
inline void read(int8_t passed, Byte& value) { value = passed; }
inline void read(const char* passed, Text& value) { value = passed ? passed : ""; }
void read(int32_t passed, Type& value);

// A word for an error text: "Half[2, 3]" for a tensor, the value otherwise.
std::string describe(const Tensor& value);
std::string describe(const Scalar& value);
std::string describe(const Ints& value);
std::string describe(const Tensors& value);
inline std::string describe(const Text& value) { return '"' + value + '"'; }
template <class Number, std::enable_if_t<std::is_arithmetic_v<Number>, bool> = true>
std::string describe(const Number& value) {
  return std::to_string(value);
}
template <class Other>
std::string describe(const std::optional<Other>& value) {
  return value ? describe(*value) : "none";
}
inline std::string describe(const Scalars&) { return "scalars"; }
inline std::string describe(const Type& value) {
  return value.type ? c10::toString(*value.type) : "none";
}
inline std::string describe(const Grown& value) { return describe(value.room); }

// Keep a prepared call in a new executor, and launch it; the executor goes with the launch.
void keep(void** executor, const char* name, Task task);
int launch_kept(void* executor, void* stream);

template <class Value, class Passed>
Value value_of(int position, Passed passed) {
  try {
    Value value{};
    read(passed, value);
    return value;
  } catch (const Refused& error) {
    throw Refused(error.code, "argument " + std::to_string(position) + ": " + error.what());
  }
}

template <class... Values>
void call(void (*function)(Values...), const std::tuple<Values...>& values) {
  try {
    std::apply(function, values);
  } catch (const c10::Error& error) {
    std::string text = error.what_without_backtrace();
    std::apply([&](const auto&... value) { ((text += "; " + describe(value)), ...); }, values);
    throw Refused(kInternalError, text);
  }
}

template <class... Values, class... Passed, size_t... Position>
int prepare(const char* name, void (*function)(Values...), std::index_sequence<Position...>,
            uint64_t* workspace, void** executor, Passed... passed) {
  static_assert(sizeof...(Values) == sizeof...(Passed));
  return guarded(name, [&] {
    std::tuple<Values...> values{value_of<Values>(Position, passed)...};
    *workspace = 0;
    keep(executor, name, [function, values = std::move(values)] { call(function, values); });
  });
}

template <class... Values, class... Passed>
int prepare(const char* name, void (*function)(Values...), uint64_t* workspace, void** executor,
            Passed... passed) {
  return prepare(name, function, std::index_sequence_for<Values...>{}, workspace, executor,
                 passed...);
}

// --- for the bodies ---------------------------------------------------------------------------

// Write a result to an output: its own strides and data type; an absent output is skipped.
void put(const Tensor& out, const Tensor& value);

// Write a result to the start of the memory of an output, and give the output its shape, which the
// caller asks for with aclGetViewShape.
void put(const Grown& out, const Tensor& value);

// The type that the CPU computes a random or an accumulated value in: float32 for half types.
at::ScalarType wide(at::ScalarType type);

// A generator that a seed and an offset determine.
at::Generator generator(int64_t seed, int64_t offset);

// The first bits of a tensor of bytes, the lowest of a byte first, as a tensor of bools.
Tensor unpack_bits(const Tensor& bytes, int64_t count);

// Undefined tensors as empty optionals.
inline std::optional<Tensor> opt(const Tensor& value) {
  return value.defined() ? std::optional<Tensor>(value) : std::nullopt;
}

}  // namespace sim::aclnn

// Apply a macro to each argument, with commas between the results.
#define SIM_PARENS ()
#define SIM_EXPAND(...) SIM_EXPAND3(SIM_EXPAND3(SIM_EXPAND3(SIM_EXPAND3(__VA_ARGS__))))
#define SIM_EXPAND3(...) SIM_EXPAND2(SIM_EXPAND2(SIM_EXPAND2(SIM_EXPAND2(__VA_ARGS__))))
#define SIM_EXPAND2(...) SIM_EXPAND1(SIM_EXPAND1(SIM_EXPAND1(SIM_EXPAND1(__VA_ARGS__))))
#define SIM_EXPAND1(...) __VA_ARGS__
#define SIM_EACH(MACRO, ...) __VA_OPT__(SIM_EXPAND(SIM_EACH_STEP(MACRO, __VA_ARGS__)))
#define SIM_EACH_STEP(MACRO, FIRST, ...) \
  MACRO(FIRST) __VA_OPT__(, SIM_EACH_AGAIN SIM_PARENS(MACRO, __VA_ARGS__))
#define SIM_EACH_AGAIN() SIM_EACH_STEP

// "Tensor x" pasted to ABI_ is a parameter of the C function; pasted to SIM_NAME_ it is "x".
#define SIM_PASSED(PARAMETER) ABI_##PARAMETER
#define SIM_NAME(PARAMETER) SIM_NAME_##PARAMETER
#define SIM_NAME_Scalar
#define SIM_NAME_Tensor
#define SIM_NAME_OptScalar
#define SIM_NAME_Ints
#define SIM_NAME_Tensors
#define SIM_NAME_Scalars
#define SIM_NAME_Int
#define SIM_NAME_Bool
#define SIM_NAME_Double
#define SIM_NAME_Float
#define SIM_NAME_Byte
#define SIM_NAME_Text
#define SIM_NAME_Type
#define SIM_NAME_Grown

#define ACLNN_EXPORT(NAME, SUFFIX, ...)                                                          \
  SIM_API int aclnn##NAME##SUFFIX(SIM_EACH(SIM_PASSED, __VA_ARGS__), uint64_t* sim_workspace,    \
                                  void** sim_executor) {                                         \
    return prepare("aclnn" #NAME, &NAME##_body, sim_workspace, sim_executor,                     \
                   SIM_EACH(SIM_NAME, __VA_ARGS__));                                             \
  }

#define ACLNN(NAME, ...)                                                                         \
  static void NAME##_body(__VA_ARGS__);                                                          \
  ACLNN_EXPORT(NAME, GetWorkspaceSize, __VA_ARGS__)                                              \
  SIM_API int aclnn##NAME(void*, uint64_t, void* executor, void* stream) {                       \
    return launch_kept(executor, stream);                                                        \
  }                                                                                              \
  static void NAME##_body(__VA_ARGS__)
