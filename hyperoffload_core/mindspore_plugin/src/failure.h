// Failures: thrown inside as Failure, turned into a return value and ho_error() where C begins.

#pragma once

#include <stdexcept>
#include <string>

namespace hyperoffload {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `what` failed: the sentence with the system's reason (errno).
[[noreturn]] void system_failure(const std::string &what);

void set_last_error(const std::string &sentence);

// The last sentence set by any thread; valid until the calling thread asks again.
const char *last_error();

}  // namespace hyperoffload
