#pragma once

#include <chrono>
#include <cstdint>

namespace hyperoffload {

// CLOCK_MONOTONIC, as Python's perf_counter_ns.
inline int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline std::chrono::steady_clock::time_point at_ns(int64_t ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}

}  // namespace hyperoffload
