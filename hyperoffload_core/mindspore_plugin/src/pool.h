// The remote memory of a session: a file without a name, or anonymous shared memory.
//
// Copies go through the descriptor (pread, pwrite), so pool pages never count as resident in the process.

#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "pages.h"

namespace hyperoffload {

class Pool {
 public:
  // `folder` NULL: shared memory. Throws Failure where there is no room for `bytes`.
  Pool(const char *folder, int64_t bytes);
  ~Pool();
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  int64_t bytes() const { return bytes_; }

  // Throw Failure; the pool's bytes are then unknown, the memory's untouched (write) or unknown (read).
  void write(const char *memory, int64_t bytes, int64_t offset) const;
  void read(char *memory, int64_t bytes, int64_t offset) const;

  Pages map(int64_t bytes, int64_t offset) const { return Pages::of_file(fd_, bytes, offset); }

  // Throws Failure where [offset, offset + bytes) is not inside the pool.
  void check_slot(int64_t bytes, int64_t offset) const;

  // Regions of this pool that are on the device.
  void count_device_bytes(int64_t more);
  int64_t device_bytes() const { return device_bytes_; }
  int64_t peak_device_bytes() const { return peak_device_bytes_; }

 private:
  std::string name_;
  int64_t bytes_;
  int fd_;
  std::atomic<int64_t> device_bytes_{0};
  std::atomic<int64_t> peak_device_bytes_{0};
};

}  // namespace hyperoffload
