#include "regions.h"

#include <string>
#include <utility>

#include "failure.h"

namespace hyperoffload {

Region::Region(std::shared_ptr<Pool> pool, int64_t bytes, int64_t pool_offset)
    : pool_(std::move(pool)),
      bytes_(bytes),
      pool_offset_(pool_offset),
      pages_(Pages::anonymous(whole_pages(bytes > 0 ? bytes : 1))) {
  if (pool_offset % page_bytes() != 0)
    throw Failure("the pool offset " + std::to_string(pool_offset) + " of a region is not a multiple of " +
                  std::to_string(page_bytes()));
  pool_->check_slot(pages_.bytes(), pool_offset);
  pool_->count_device_bytes(bytes_);
}

Region::~Region() {
  if (on_device_) pool_->count_device_bytes(-bytes_);
}

void Region::show_pool() {
  pages_.become(pool_->map(pages_.bytes(), pool_offset_));
  on_device_ = false;
  pool_->count_device_bytes(-bytes_);
}

bool Region::store(const Move &write) {
  std::lock_guard lock(mutex_);
  if (!on_device_) return true;
  pool_valid_ = false;
  if (!write(address(), bytes_, pool_offset_)) return false;
  show_pool();
  return true;
}

bool Region::prefetch(const Move &read) {
  std::lock_guard lock(mutex_);
  if (on_device_) return true;
  pool_->count_device_bytes(bytes_);
  try {
    Pages fresh = Pages::anonymous(pages_.bytes());
    if (read(fresh.address(), bytes_, pool_offset_)) {
      pages_.become(std::move(fresh));
      on_device_ = true;
      pool_valid_ = true;
    }
  } catch (const Failure &) {
    pool_->count_device_bytes(-bytes_);
    throw;
  }
  if (!on_device_) pool_->count_device_bytes(-bytes_);
  return on_device_;
}

bool Region::detach(const Move &write) {
  std::lock_guard lock(mutex_);
  if (!on_device_) return true;
  if (!pool_valid_ && !write(address(), bytes_, pool_offset_)) return false;
  show_pool();
  return true;
}

}  // namespace hyperoffload
