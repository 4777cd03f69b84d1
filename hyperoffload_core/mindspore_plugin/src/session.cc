#include "session.h"

#include <algorithm>
#include <utility>

#include "clock.h"
#include "failure.h"

namespace hyperoffload {

namespace {

constexpr int64_t EVENTS = 1 << 17;  // 7 MB, resident only as far as they are used
constexpr int64_t MAX_INDEX = (int64_t{1} << 32) - 1;

std::string name(ho_kind kind) {
  return kind == ho_store ? "Store" : kind == ho_prefetch ? "Prefetch" : kind == ho_detach ? "Detach" : "command";
}

std::string name(const Command &command) { return name(command.kind) + " " + std::to_string(command.index); }

}  // namespace

Session::Session(std::shared_ptr<Pool> pool, const Pacing &pacing, bool half_duplex, uint64_t seed)
    : pool_(std::move(pool)),
      events_(EVENTS),
      out_("ho-copy-out", pacing, 3 * seed + 1, *pool_, progress_),
      in_("ho-copy-in", pacing, 3 * seed + 2, *pool_, progress_),
      detaching_("ho-detach", pacing, 3 * seed + 3, *pool_, progress_),
      half_duplex_(half_duplex) {}

Session::~Session() { close(); }

ho_stats Session::stats() {
  Lock lock(progress_.mutex);
  return {pool_->bytes(),
          out_.bytes_out() + in_.bytes_out() + detaching_.bytes_out(),
          out_.bytes_in() + in_.bytes_in() + detaching_.bytes_in(),
          pool_->device_bytes(),
          pool_->peak_device_bytes(),
          step_,
          events_.lost()};
}

// Declaring.

Command &Session::find(int64_t index) {
  const auto found = commands_.find(index);
  if (found == commands_.end()) throw Failure("the session has no command " + std::to_string(index));
  return found->second;
}

void Session::check_between_steps() const {
  if (closed_) throw Failure("the session is closed");
  if (stepping_) throw Failure("commands can be declared only between steps");
}

void Session::declare(Command command) {
  Lock lock(progress_.mutex);
  check_between_steps();
  if (command.index < 0 || command.index > MAX_INDEX)
    throw Failure("a command's index is from 0 to 2^32 - 1, not " + std::to_string(command.index));
  thread_of(command).start();
  issued_.reserve(commands_.size() + 1);
  if (command.region != nullptr) regions_.insert(command.region);
  const std::string shown = name(command);
  if (!commands_.emplace(command.index, std::move(command)).second) throw Failure(shown + " is declared twice");
}

void Session::declare_tensor(int64_t index, int64_t kind, int64_t bytes, int64_t pool_offset) {
  if (kind != ho_store && kind != ho_prefetch)
    throw Failure("a tensor's command is a Store (1) or a Prefetch (2), not " + std::to_string(kind));
  pool_->check_slot(bytes, pool_offset);
  Command command{};
  command.index = index;
  command.kind = static_cast<ho_kind>(kind);
  command.bytes = bytes;
  command.pool_offset = pool_offset;
  declare(std::move(command));
}

void Session::declare_region(int64_t index, int64_t kind, std::shared_ptr<Region> region) {
  if (kind != ho_store && kind != ho_prefetch && kind != ho_detach)
    throw Failure("a region's command is a Store (1), a Prefetch (2) or a Detach (3), not " + std::to_string(kind));
  Command command{};
  command.index = index;
  command.kind = static_cast<ho_kind>(kind);
  command.bytes = region->bytes();
  command.region = std::move(region);
  declare(std::move(command));
}

void Session::declare_after(int64_t index, int64_t other) {
  Lock lock(progress_.mutex);
  check_between_steps();
  find(index).after.push_back(&find(other));
}

// A step.

void Session::begin(int64_t index) {
  Lock lock(progress_.mutex);
  if (closed_) throw Failure("the session is closed");
  stop_copies(lock);
  for (const auto &region : regions_) region->may_have_changed();
  for (Command *command : issued_) command->state = State::idle;
  issued_.clear();
  progress_.failure.clear();
  progress_.stopping = false;
  stepping_ = true;
  ++step_;
  const int64_t now = now_ns();
  events_.add({step_, index, ho_begin, now, now, now, 0});
}

void Session::end(int64_t index) {
  const int64_t called_ns = now_ns();
  Lock lock(progress_.mutex);
  check_step();
  const auto hangs = [&](const CopyThread &t) { return t.head() != nullptr && never_ends(*t.head()); };
  const auto over = [&] { return progress_.stopping || !busy() || hangs(out_) || hangs(in_) || hangs(detaching_); };
  const bool waits = !over();
  progress_.changed.wait(lock, over);
  check_step();
  for (const CopyThread *t : {&out_, &in_, &detaching_})
    if (t->head() != nullptr) throw Failure(name(*t->head()) + " waits for a command that is not issued");
  for (const Command *c : issued_)
    events_.add({step_, c->index, c->kind, c->issued_ns, c->start_ns, c->end_ns, c->waited_ns});
  const int64_t now = now_ns();
  events_.add({step_, index, ho_end, called_ns, called_ns, now, waits ? now - called_ns : 0});
  stepping_ = false;
}

void Session::check_step() const {
  if (closed_) throw Failure("the session is closed");
  if (!progress_.failure.empty()) throw Failure(progress_.failure);
  if (!stepping_ || progress_.stopping) throw Failure("a cache operator ran outside a step");
}

const Command &Session::command(int64_t index, ho_kind kind) {
  Lock lock(progress_.mutex);
  const Command &found = find(index);
  if (found.kind != kind) throw Failure("command " + std::to_string(index) + " is no " + name(kind));
  return found;
}

void Session::issue(int64_t index, char *tensor) {
  Lock lock(progress_.mutex);
  check_step();
  Command &command = find(index);
  if (command.state != State::idle) throw Failure(name(command) + " was issued twice in one step");
  command.state = State::issued;
  command.address = tensor;
  command.issued_ns = now_ns();
  command.start_ns = command.end_ns = command.waited_ns = 0;
  issued_.push_back(&command);
  thread_of(command).issue(command);
}

void Session::done(int64_t index, char *tensor) {
  const int64_t called_ns = now_ns();
  int64_t waited_ns = 0;
  {
    Lock lock(progress_.mutex);
    check_step();
    Command &command = find(index);
    if (command.state == State::idle) throw Failure(name(command) + " is waited for before it is issued");
    if (command.address != tensor) throw Failure(name(command) + " was issued for other memory than is waited for");
    if (command.state != State::ended) {
      progress_.changed.wait(
          lock, [&] { return command.state == State::ended || progress_.stopping || never_ends(command); });
      waited_ns = now_ns() - called_ns;
      command.waited_ns += waited_ns;
      if (command.state != State::ended) {
        check_step();
        throw Failure(name(command) + " waits, itself or by others, for a command that is not issued");
      }
    }
  }
  events_.add({step_, index, ho_done, called_ns, called_ns, now_ns(), waited_ns});
}

void Session::release(int64_t index, char *tensor, int64_t bytes) {
  const int64_t start_ns = now_ns();
  prefer_huge_pages(tensor);
  release_pages(tensor, bytes);
  events_.add({step_, index, ho_release, start_ns, start_ns, now_ns(), 0});
}

void Session::mark(int64_t index) {
  const int64_t now = now_ns();
  events_.add({step_, index, ho_mark, now, now, now, 0});
}

void Session::abandon(const std::string &sentence) {
  Lock lock(progress_.mutex);
  if (!stepping_ && progress_.failure.empty()) return;
  progress_.fail(sentence);
  stop_copies(lock);
  stepping_ = false;
}

void Session::close() {
  {
    Lock lock(progress_.mutex);
    closed_ = true;
    progress_.fail("the session is closed");
    stop_copies(lock);
    stepping_ = false;
  }
  out_.close();
  in_.close();
  detaching_.close();
}

std::string Session::failure() {
  Lock lock(progress_.mutex);
  return progress_.failure;
}

// Copy threads.

CopyThread &Session::thread_of(const Command &command) {
  if (command.kind == ho_detach) return detaching_;
  return command.kind == ho_store || half_duplex_ ? out_ : in_;
}

// Only the thread that runs the graph issues, so while it waits, a command behind one that waits for something not
// issued, or in a circle of commands that wait for each other, never ends.
bool Session::never_ends(const Command &command) {
  const Command *waiting = &command;
  for (int threads = 0; threads <= 3; ++threads) {
    if (waiting->state != State::issued) return waiting->state == State::idle;
    const Command *head = thread_of(*waiting).head();
    waiting = head == nullptr ? nullptr : head->blocker();
    if (waiting == nullptr) return false;
  }
  return true;
}

bool Session::busy() const { return out_.head() != nullptr || in_.head() != nullptr || detaching_.head() != nullptr; }

void Session::stop_copies(Lock &lock) {
  if (!busy()) return;
  progress_.stop();
  progress_.changed.wait(lock, [&] { return !busy(); });
}

}  // namespace hyperoffload
