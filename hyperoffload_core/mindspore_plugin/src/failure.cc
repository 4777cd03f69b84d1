#include "failure.h"

#include <cerrno>
#include <mutex>
#include <system_error>

namespace hyperoffload {

namespace {

// Never destroyed: copy threads may outlive static objects when the process ends.
std::mutex &mutex() {
  static auto &it = *new std::mutex;
  return it;
}

std::string &sentence_of_process() {
  static auto &it = *new std::string;
  return it;
}

}  // namespace

void system_failure(const std::string &what) { throw Failure(what + ": " + std::generic_category().message(errno)); }

void set_last_error(const std::string &sentence) {
  std::lock_guard lock(mutex());
  sentence_of_process() = sentence;
}

const char *last_error() {
  thread_local std::string copy;
  std::lock_guard lock(mutex());
  copy = sentence_of_process();
  return copy.c_str();
}

}  // namespace hyperoffload
