// Whole pages of memory, owned.

#pragma once

#include <cstdint>

namespace hyperoffload {

int64_t page_bytes();
int64_t whole_pages(int64_t bytes);  // rounded up

// Asks for huge pages in the whole mapping around an address: what gives pages back pays less when it uses them again.
void prefer_huge_pages(const void *address);

// Gives the whole pages inside [address, address + bytes) back to the system, only the huge ones where there are such;
// their contents are lost.
void release_pages(void *address, int64_t bytes);

// A mapping, unmapped when it goes.
class Pages {
 public:
  // Zero pages, nothing resident yet; huge pages where they fit. Throws Failure when address space is short.
  static Pages anonymous(int64_t bytes);
  // Pages of the file `fd` from `offset` on, shared with it.
  static Pages of_file(int fd, int64_t bytes, int64_t offset);

  Pages(Pages &&other) noexcept : address_(other.address_), bytes_(other.bytes_) { other.address_ = nullptr; }
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;
  Pages &operator=(Pages &&) = delete;
  ~Pages();

  char *address() const { return address_; }
  int64_t bytes() const { return bytes_; }

  // Puts the pages of `other` (of the same size) in the place of these, at this address, in one step: whoever reads
  // the address meanwhile sees either. Throws Failure and leaves both as they were where the system refuses.
  void become(Pages &&other);

 private:
  Pages(char *address, int64_t bytes) : address_(address), bytes_(bytes) {}

  char *address_;
  int64_t bytes_;
};

}  // namespace hyperoffload
