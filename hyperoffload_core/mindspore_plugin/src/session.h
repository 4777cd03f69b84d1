// One attached graph: its pool, its copy threads, its commands and what was recorded.
//
// Steps are run by one thread at a time (the graph is one chain); everything throws Failure.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "copy_thread.h"
#include "events.h"
#include "pool.h"
#include "progress.h"
#include "regions.h"

namespace hyperoffload {

class Session {
 public:
  Session(std::shared_ptr<Pool> pool, const Pacing &pacing, bool half_duplex, uint64_t seed);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  const std::shared_ptr<Pool> &pool() const { return pool_; }
  Events &events() { return events_; }
  ho_stats stats();

  // Between steps.
  void declare_tensor(int64_t index, int64_t kind, int64_t bytes, int64_t pool_offset);
  void declare_region(int64_t index, int64_t kind, std::shared_ptr<Region> region);
  void declare_after(int64_t index, int64_t other);

  // What the op kernels do. `begin` first ends a step that was left in the middle.
  void begin(int64_t index);
  void end(int64_t index);
  const Command &command(int64_t index, ho_kind kind);
  void issue(int64_t index, char *tensor);
  void done(int64_t index, char *tensor);
  void release(int64_t index, char *tensor, int64_t bytes);
  void mark(int64_t index);

  // Ends the step: nothing is being copied any more, kernels that still come fail with this sentence.
  void abandon(const std::string &sentence);
  // After it every call fails.
  void close();
  // Why the step that runs, or ran last, failed; "" if it did not.
  std::string failure();

 private:
  using Lock = std::unique_lock<std::mutex>;

  Command &find(int64_t index);
  void declare(Command command);
  void check_between_steps() const;
  void check_step() const;
  CopyThread &thread_of(const Command &command);
  bool never_ends(const Command &command);
  bool busy() const;
  void stop_copies(Lock &lock);

  const std::shared_ptr<Pool> pool_;
  Events events_;
  Progress progress_;
  CopyThread out_, in_, detaching_;
  const bool half_duplex_;
  std::unordered_map<int64_t, Command> commands_;
  std::vector<Command *> issued_;  // of this step, in order
  std::unordered_set<std::shared_ptr<Region>> regions_;
  int64_t step_ = 0;
  bool stepping_ = false;
  bool closed_ = false;
};

}  // namespace hyperoffload
