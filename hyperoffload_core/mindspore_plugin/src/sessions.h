// What handles mean, in this process.

#pragma once

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "failure.h"

namespace hyperoffload {

class Region;
class Session;

template <class Item>
class Table {
 public:
  explicit Table(std::string name) : name_(std::move(name)) {}

  int64_t add(std::shared_ptr<Item> item) {
    std::lock_guard lock(mutex_);
    items_.emplace(++last_, std::move(item));
    return last_;
  }

  // Throws Failure. Allocates nothing.
  std::shared_ptr<Item> get(int64_t handle) const {
    std::shared_lock lock(mutex_);
    return find(handle)->second;
  }

  // As get, and the handle means nothing any more.
  std::shared_ptr<Item> take(int64_t handle) {
    std::lock_guard lock(mutex_);
    const auto found = find(handle);
    std::shared_ptr<Item> item = found->second;
    items_.erase(found);
    return item;
  }

 private:
  using Items = std::unordered_map<int64_t, std::shared_ptr<Item>>;

  typename Items::const_iterator find(int64_t handle) const {
    const auto found = items_.find(handle);
    if (found == items_.end()) throw Failure(name_ + " " + std::to_string(handle) + " is not open");
    return found;
  }

  const std::string name_;
  mutable std::shared_mutex mutex_;
  Items items_;
  int64_t last_ = 0;
};

// Never destroyed: copy threads may still run when the process ends.
Table<Session> &sessions();
Table<Region> &regions();

}  // namespace hyperoffload
