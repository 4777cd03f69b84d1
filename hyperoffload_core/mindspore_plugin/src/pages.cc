#include "pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "failure.h"

namespace hyperoffload {

namespace {

constexpr int64_t HUGE_PAGE_BYTES = 2 << 20;

int64_t whole(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

char *map(int64_t bytes, int flags, int fd, int64_t offset) {
  void *address = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, flags, fd, offset);
  if (address == MAP_FAILED) system_failure("mapping " + std::to_string(bytes) + " bytes of memory");
  return static_cast<char *>(address);
}

void unmap(char *address, int64_t bytes) {
  if (bytes > 0) munmap(address, static_cast<size_t>(bytes));
}

}  // namespace

int64_t page_bytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

int64_t whole_pages(int64_t bytes) { return whole(bytes, page_bytes()); }

void prefer_huge_pages(const void *address) {
  static std::mutex mutex;
  static std::set<std::pair<uint64_t, uint64_t>> done;
  const auto wanted = reinterpret_cast<uint64_t>(address);
  const std::lock_guard<std::mutex> lock(mutex);
  for (const auto &[begin, end] : done)
    if (begin <= wanted && wanted < end) return;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0;
    uint64_t end = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &begin, &end) != 2 || wanted < begin || end <= wanted)
      continue;
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);
    done.emplace(begin, end);
    return;
  }
}

void release_pages(void *address, int64_t bytes) {
  const auto begin = reinterpret_cast<int64_t>(address);
  const auto end = begin + bytes;
  // A huge page that goes in part comes back as small ones, at a fault each.
  int64_t first = whole(begin, HUGE_PAGE_BYTES);
  int64_t last = end / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
  if (last <= first) {
    first = whole_pages(begin);
    last = end / page_bytes() * page_bytes();
  }
  // Refused only for locked memory, which then stays resident.
  if (last > first) madvise(reinterpret_cast<void *>(first), static_cast<size_t>(last - first), MADV_DONTNEED);
}

Pages Pages::anonymous(int64_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (bytes < HUGE_PAGE_BYTES) return {map(bytes, flags, -1, 0), bytes};
  // Aligned to a huge page: one more is mapped, and what lies before and after is cut off.
  char *mapped = map(bytes + HUGE_PAGE_BYTES, flags, -1, 0);
  const int64_t before = (HUGE_PAGE_BYTES - reinterpret_cast<int64_t>(mapped) % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
  unmap(mapped, before);
  unmap(mapped + before + bytes, HUGE_PAGE_BYTES - before);
  madvise(mapped + before, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return {mapped + before, bytes};
}

Pages Pages::of_file(int fd, int64_t bytes, int64_t offset) { return {map(bytes, MAP_SHARED, fd, offset), bytes}; }

Pages::~Pages() {
  if (address_ != nullptr) unmap(address_, bytes_);
}

void Pages::become(Pages &&other) {
  const auto size = static_cast<size_t>(bytes_);
  if (mremap(other.address_, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, address_) == MAP_FAILED)
    system_failure("replacing " + std::to_string(bytes_) + " bytes of a parameter's memory");
  other.address_ = nullptr;
}

}  // namespace hyperoffload
