// Recorded events in memory set aside in advance; when nobody takes them, the oldest are overwritten.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "interface.h"

namespace hyperoffload {

class Events {
 public:
  explicit Events(int64_t capacity);

  void add(const ho_event &event);                // allocates nothing
  int64_t take(ho_event *out, int64_t capacity);  // oldest first
  int64_t lost() const;

 private:
  const int64_t capacity_;
  const std::unique_ptr<ho_event[]> ring_;
  mutable std::mutex mutex_;
  int64_t added_ = 0;
  int64_t taken_ = 0;
  int64_t lost_ = 0;
};

}  // namespace hyperoffload
