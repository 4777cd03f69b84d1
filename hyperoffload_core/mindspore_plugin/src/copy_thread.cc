#include "copy_thread.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <system_error>

#include "clock.h"
#include "failure.h"

namespace hyperoffload {

namespace {

// Each chunk wakes a thread on the cores that compute.
constexpr int64_t CHUNK_BYTES = 4 << 20;
// A sleeping copy thread runs again 30 to 45 us late beside busy kernels (as measured for runtime/links.py). That is
// part of the link's latency, not on top of it.
constexpr int64_t WAKE_UP_NS = 40'000;
// How much nicer a copy thread is than the process. An op is shared out to all cores and takes as long as the core that
// gives most of its time to a copy; so copies take what ops leave, and a core where the graph waits for them.
constexpr int NICER = 10;

int64_t link_ns(const Link &link, int64_t bytes) {
  const double moving_ns = static_cast<double>(bytes) * 1e9 / static_cast<double>(link.bytes_per_s);
  return std::max<int64_t>(0, link.latency_ns - WAKE_UP_NS) + static_cast<int64_t>(moving_ns);
}

}  // namespace

CopyThread::CopyThread(const char *name, const Pacing &pacing, uint64_t seed, Pool &pool, Progress &progress)
    : name_(name),
      pacing_(pacing),
      random_(static_cast<std::minstd_rand::result_type>(seed)),
      pool_(pool),
      progress_(progress) {}

CopyThread::~CopyThread() { close(); }

void CopyThread::start() {
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error &error) {
    throw Failure("a copy thread cannot be started: " + error.code().message());
  }
}

void CopyThread::close() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(progress_.mutex);
    closing_ = true;
    progress_.stop();
  }
  thread_.join();
}

void CopyThread::issue(Command &command) {
  command.next = nullptr;
  (head_ == nullptr ? head_ : tail_->next) = &command;
  tail_ = &command;
  progress_.changed.notify_all();
}

void CopyThread::run() {
  pthread_setname_np(pthread_self(), name_);
  // Sleeps otherwise end up to 50 us late, as the kernel rounds wake-ups of ordinary threads.
  prctl(PR_SET_TIMERSLACK, 1);
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICER);  // on Linux of this thread alone
  std::unique_lock lock(progress_.mutex);
  for (;;) {
    progress_.changed.wait(lock, [&] { return closing_ || head_ != nullptr; });
    if (head_ == nullptr) return;
    Command &command = *head_;
    progress_.changed.wait(lock, [&] { return progress_.stopping || command.blocker() == nullptr; });
    if (!progress_.stopping) {
      command.start_ns = now_ns();
      lock.unlock();
      bool whole = false;
      std::string failure;
      try {
        whole = transfer(command);
      } catch (const std::exception &error) {
        failure = error.what();
      }
      lock.lock();
      command.end_ns = now_ns();
      if (whole) command.state = State::ended;
      if (!failure.empty()) progress_.fail(failure);
    }
    head_ = command.next;  // where copying stops, those that wait go one by one without being run
    progress_.changed.notify_all();
  }
}

bool CopyThread::transfer(const Command &command) {
  if (pacing_.random_delay_ns > 0) {
    std::uniform_int_distribution<int64_t> delay_ns(0, pacing_.random_delay_ns);
    if (!sleep_until(now_ns() + delay_ns(random_))) return false;
  }
  Region *const region = command.region.get();
  const bool out = command.kind != ho_prefetch;
  if (region == nullptr) return move(out, pool_, command.address, command.bytes, command.pool_offset, pacing_.paced);
  const bool on_link = command.kind != ho_detach;
  const auto move_region = [&](char *memory, int64_t bytes, int64_t pool_offset) {
    return move(out, region->pool(), memory, bytes, pool_offset, on_link && pacing_.paced);
  };
  if (command.kind == ho_store) return region->store(std::cref(move_region));
  if (command.kind == ho_prefetch) return region->prefetch(std::cref(move_region));
  return region->detach(std::cref(move_region));
}

bool CopyThread::move(bool out, Pool &pool, char *memory, int64_t bytes, int64_t pool_offset, bool paced) {
  const int64_t start_ns = now_ns();
  for (int64_t moved = 0; moved < bytes; moved += CHUNK_BYTES) {
    const int64_t chunk = std::min(CHUNK_BYTES, bytes - moved);
    if (out)
      pool.write(memory + moved, chunk, pool_offset + moved);
    else
      pool.read(memory + moved, chunk, pool_offset + moved);
    (out ? bytes_out_ : bytes_in_) += chunk;
    const Link &link = out ? pacing_.out : pacing_.in;
    if (!sleep_until(paced ? start_ns + link_ns(link, moved + chunk) : start_ns)) return false;
  }
  return true;
}

bool CopyThread::sleep_until(int64_t ns) {
  std::unique_lock lock(progress_.mutex);
  progress_.stopped.wait_until(lock, at_ns(ns), [&] { return progress_.stopping; });
  return !progress_.stopping;
}

}  // namespace hyperoffload
