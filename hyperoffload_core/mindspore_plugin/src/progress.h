// What the graph's thread and the copy threads of a session tell each other.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "interface.h"
#include "regions.h"

namespace hyperoffload {

enum class State { idle, issued, ended };  // of a command in the step that runs

// A cache operator. Declared between steps; from `state` on guarded by Progress::mutex.
struct Command {
  int64_t index;
  ho_kind kind;
  int64_t bytes;
  int64_t pool_offset;             // of a tensor
  std::shared_ptr<Region> region;  // null: a tensor, whose memory comes with the kernel's call
  std::vector<const Command *> after;

  State state = State::idle;
  char *address = nullptr;  // of the tensor
  Command *next = nullptr;  // in its copy thread's queue
  int64_t issued_ns = 0, start_ns = 0, end_ns = 0, waited_ns = 0;

  // The first that has to end before this one starts, or null.
  const Command *blocker() const;
};

struct Progress {
  std::mutex mutex;
  std::condition_variable changed;  // a command was issued or ended, or copying stops
  std::condition_variable stopped;  // `stopping` became true (wakes who sleeps to be as slow as a link)
  bool stopping = false;
  std::string failure;  // the first of this step

  // Both with the mutex held.
  void stop();
  void fail(const std::string &sentence);
};

}  // namespace hyperoffload
