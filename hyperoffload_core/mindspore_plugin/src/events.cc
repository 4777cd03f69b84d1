#include "events.h"

#include <algorithm>
#include <cstddef>

namespace hyperoffload {

// Left uninitialised, so that memory becomes resident only as events come.
Events::Events(int64_t capacity) : capacity_(capacity), ring_(new ho_event[static_cast<size_t>(capacity)]) {}

void Events::add(const ho_event &event) {
  std::lock_guard lock(mutex_);
  ring_[static_cast<size_t>(added_ % capacity_)] = event;
  ++added_;
  if (added_ - taken_ > capacity_) {
    ++taken_;
    ++lost_;
  }
}

int64_t Events::take(ho_event *out, int64_t capacity) {
  std::lock_guard lock(mutex_);
  const int64_t count = std::min(capacity, added_ - taken_);
  for (int64_t i = 0; i < count; ++i) out[i] = ring_[static_cast<size_t>((taken_ + i) % capacity_)];
  taken_ += count;
  if (taken_ == added_) taken_ = added_ = 0;  // begins at the front again: pages never reached stay free
  return count;
}

int64_t Events::lost() const {
  std::lock_guard lock(mutex_);
  return lost_;
}

}  // namespace hyperoffload
