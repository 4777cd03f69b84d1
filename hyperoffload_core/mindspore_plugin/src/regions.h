// Memory of a parameter that keeps its address while its contents move between the device and the pool.
//
// On the device a region is anonymous memory. In the pool its address shows the pool's own pages, so that whoever reads
// or writes the parameter between steps reads and writes the pool's copy.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "pages.h"
#include "pool.h"

namespace hyperoffload {

// Copies `bytes` between memory and the pool; false: given up in the middle.
using Move = std::function<bool(char *memory, int64_t bytes, int64_t pool_offset)>;

class Region {
 public:
  Region(std::shared_ptr<Pool> pool, int64_t bytes, int64_t pool_offset);
  ~Region();
  Region(const Region &) = delete;
  Region &operator=(const Region &) = delete;

  char *address() const { return pages_.address(); }
  int64_t bytes() const { return bytes_; }
  Pool &pool() const { return *pool_; }

  // Each returns false where `move` gave up, and throws Failure where it failed; the region is then as it was.
  bool store(const Move &write);    // nothing to do in the pool
  bool prefetch(const Move &read);  // nothing to do on the device
  bool detach(const Move &write);   // `write` only where it was not fetched since may_have_changed

  // Whoever uses the memory may have written it while no step ran. Does not wait for a copy.
  void may_have_changed() { pool_valid_ = false; }

 private:
  void show_pool();

  const std::shared_ptr<Pool> pool_;
  const int64_t bytes_;
  const int64_t pool_offset_;
  std::mutex mutex_;
  Pages pages_;
  bool on_device_ = true;
  // On the device: the pool has the same, unless ops wrote since (which the schedule then has to Store).
  std::atomic<bool> pool_valid_{false};
};

}  // namespace hyperoffload
