#include "pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "failure.h"

namespace hyperoffload {

namespace {

int open_without_name(const std::string &folder) {
  int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {  // file systems without such files
    std::string path = folder + "/hyperoffload-pool-XXXXXX";
    fd = mkostemp(path.data(), O_CLOEXEC);
    if (fd >= 0) unlink(path.c_str());
  }
  if (fd < 0) system_failure("a pool file in the folder " + folder + " cannot be made");
  return fd;
}

int open_shared_memory() {
  const int fd = memfd_create("hyperoffload-pool", MFD_CLOEXEC);
  if (fd < 0) system_failure("shared memory for the pool cannot be made");
  return fd;
}

// What the system would still give without swapping.
int64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  int64_t kilobytes = 0;
  while (file >> word)
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
  throw Failure("/proc/meminfo does not say how much memory is free");
}

// Room for all of it, so that a lack is found now and not in the middle of a step (or, by a write into mapped pages, as
// a signal), and so that the first step is as fast as the others.
void reserve(int fd, int64_t bytes) {
  const std::string what = "a pool of " + std::to_string(bytes) + " bytes cannot be made";
  if (ftruncate(fd, bytes) != 0) system_failure(what);
  // Some file systems cannot.
  if (bytes > 0 && fallocate(fd, 0, 0, bytes) != 0 && errno != EOPNOTSUPP && errno != ENOSYS) system_failure(what);
}

}  // namespace

Pool::Pool(const char *folder, int64_t bytes)
    : name_(folder == nullptr ? "the pool in shared memory" : "the pool file in " + std::string(folder)),
      bytes_(whole_pages(bytes)),
      fd_(folder == nullptr ? open_shared_memory() : open_without_name(folder)) {
  try {
    if (folder == nullptr && bytes_ > available_memory_bytes())
      throw Failure("a pool of " + std::to_string(bytes_) + " bytes of shared memory cannot be made: " +
                    std::to_string(available_memory_bytes()) + " are free");
    reserve(fd_, bytes_);
  } catch (const Failure &) {
    close(fd_);
    throw;
  }
}

Pool::~Pool() { close(fd_); }

void Pool::write(const char *memory, int64_t bytes, int64_t offset) const {
  for (int64_t written = 0; written < bytes;) {
    const ssize_t now = pwrite(fd_, memory + written, static_cast<size_t>(bytes - written), offset + written);
    if (now < 0 && errno == EINTR) continue;
    if (now == 0) errno = ENOSPC;
    if (now <= 0) system_failure("writing " + std::to_string(bytes) + " bytes to " + name_);
    written += now;
  }
}

void Pool::read(char *memory, int64_t bytes, int64_t offset) const {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t now = pread(fd_, memory + done, static_cast<size_t>(bytes - done), offset + done);
    if (now < 0 && errno == EINTR) continue;
    if (now == 0) errno = EIO;  // the file was cut
    if (now <= 0) system_failure("reading " + std::to_string(bytes) + " bytes from " + name_);
    done += now;
  }
}

void Pool::check_slot(int64_t bytes, int64_t offset) const {
  if (bytes < 0 || offset < 0 || bytes > bytes_ || offset > bytes_ - bytes)
    throw Failure("a slot of " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                  " is not inside the pool of " + std::to_string(bytes_) + " bytes");
}

void Pool::count_device_bytes(int64_t more) {
  const int64_t now = device_bytes_ += more;
  int64_t peak = peak_device_bytes_;
  while (now > peak && !peak_device_bytes_.compare_exchange_weak(peak, now)) {
  }
}

}  // namespace hyperoffload
