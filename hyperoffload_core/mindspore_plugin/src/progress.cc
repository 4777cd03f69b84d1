#include "progress.h"

namespace hyperoffload {

const Command *Command::blocker() const {
  for (const Command *other : after)
    if (other->state != State::ended) return other;
  return nullptr;
}

void Progress::stop() {
  stopping = true;
  changed.notify_all();
  stopped.notify_all();
}

void Progress::fail(const std::string &sentence) {
  if (failure.empty()) failure = sentence;
  stop();
}

}  // namespace hyperoffload
