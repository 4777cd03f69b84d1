// A thread that runs the commands issued to it, first in, first out.
//
// A transfer starts when its predecessor and all it comes after have ended; nothing looks at predicted times. Memory
// inside one host has no slow link, so a paced copy moves a chunk, then sleeps until a link of the stated bandwidth,
// started when this transfer really started, would have moved as much. A late wake-up is made up by the next chunk.

#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>

#include "pool.h"
#include "progress.h"

namespace hyperoffload {

struct Link {
  int64_t bytes_per_s;
  int64_t latency_ns;
};

struct Pacing {
  Link out, in;
  bool paced;               // false: as fast as memory allows
  int64_t random_delay_ns;  // before each copy, at most
};

class CopyThread {
 public:
  // The thread itself starts with the first call of start(). `name` has at most 15 characters.
  CopyThread(const char *name, const Pacing &pacing, uint64_t seed, Pool &pool, Progress &progress);
  ~CopyThread();

  void start();
  void close();  // after Progress::stop(): ends the thread

  // With the mutex of Progress held. Neither allocates.
  void issue(Command &command);
  const Command *head() const { return head_; }  // what it runs or waits to run; null: touches no memory

  int64_t bytes_out() const { return bytes_out_; }
  int64_t bytes_in() const { return bytes_in_; }

 private:
  void run();
  bool transfer(const Command &command);
  bool move(bool out, Pool &pool, char *memory, int64_t bytes, int64_t pool_offset, bool paced);
  bool sleep_until(int64_t ns);  // false: copying stops

  const char *const name_;
  const Pacing pacing_;
  std::minstd_rand random_;
  Pool &pool_;
  Progress &progress_;
  Command *head_ = nullptr;
  Command *tail_ = nullptr;
  bool closing_ = false;
  std::atomic<int64_t> bytes_out_{0};
  std::atomic<int64_t> bytes_in_{0};
  std::thread thread_;
};

}  // namespace hyperoffload
