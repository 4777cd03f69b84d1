// Drives the kernels as MindSpore does, for sanitizers: several sessions in threads of their own, steps that fail, are
// abandoned or closed in the middle, and the count of allocations. Ends with 0, or says which check did not hold.

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "interface.h"

#define DECLARE(NAME) extern "C" int NAME(int, void **, int *, int64_t **, const char **, void *, void *)
DECLARE(HyperBegin);
DECLARE(HyperEnd);
DECLARE(HyperStore);
DECLARE(HyperStoreDone);
DECLARE(HyperPrefetch);
DECLARE(HyperPrefetchDone);
DECLARE(HyperDetach);
DECLARE(HyperDetachDone);
DECLARE(HyperRelease);
DECLARE(HyperMark);

namespace {
std::atomic<long> allocations{0};
}

void *operator new(std::size_t bytes) {
  ++allocations;
  if (void *memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

namespace {

#define CHECK(CONDITION)                                                                        \
  do {                                                                                          \
    if (!(CONDITION)) {                                                                         \
      std::fprintf(stderr, "line %d: %s (last error: %s)\n", __LINE__, #CONDITION, ho_error()); \
      std::exit(1);                                                                             \
    }                                                                                           \
  } while (false)

using Op = int (*)(int, void **, int *, int64_t **, const char **, void *, void *);

// Calls with (id, token) -> token, (id, x, token) -> token, or (id, token) -> y.
int call(Op op, int64_t session, int64_t index) {
  int64_t id = session << 32 | index, token = 0, result = 0;
  void *params[] = {&id, &token, &result};
  const int failed = op(3, params, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (failed == 0) CHECK(result == id);
  return failed;
}

int call(Op op, int64_t session, int64_t index, std::vector<int64_t> &tensor) {
  const bool output = op == HyperPrefetch;
  int64_t id = session << 32 | index, token = 0, result = 0, one = 1;
  int64_t size = static_cast<int64_t>(tensor.size());
  void *x = tensor.data();
  void *params[] = {&id, output ? &token : x, output ? x : &token, &result};
  int ndims[] = {0, 1, 1, 1};
  int64_t *shapes[] = {nullptr, output ? &one : &size, output ? &size : &one, &one};
  const char *dtypes[] = {"int64", "int64", "int64", "int64"};
  return op(output ? 3 : 4, params, ndims, shapes, dtypes, nullptr, nullptr);
}

constexpr int64_t TENSOR = 40'000;  // numbers
constexpr int64_t TENSOR_BYTES = 8 * TENSOR;
constexpr int64_t REGION_BYTES = 3'000'000;  // not whole pages
constexpr int64_t SLOT = 4 << 20;
enum Index : int64_t { STORE_X, FETCH_X, STORE_R, FETCH_R, DETACH_R, FETCH_R_AGAIN, BEHIND_NOTHING };

struct Open {
  int64_t session, region;
  int64_t *weights;
};

Open open(const char *folder, bool half_duplex, bool paced, int64_t delay_ns, uint64_t seed) {
  constexpr int64_t RATE = 2'000'000'000;
  const int64_t s = ho_open(folder, 2 * SLOT, RATE, 50'000, RATE, 50'000, half_duplex, paced, delay_ns, seed);
  CHECK(s > 0);
  const int64_t region = ho_region(s, REGION_BYTES, SLOT);
  CHECK(region > 0);
  CHECK(ho_tensor_command(s, STORE_X, ho_store, TENSOR_BYTES, 0) == 0);
  CHECK(ho_tensor_command(s, FETCH_X, ho_prefetch, TENSOR_BYTES, 0) == 0);
  CHECK(ho_region_command(s, STORE_R, ho_store, region) == 0);
  CHECK(ho_region_command(s, FETCH_R, ho_prefetch, region) == 0);
  CHECK(ho_region_command(s, DETACH_R, ho_detach, region) == 0);
  CHECK(ho_region_command(s, FETCH_R_AGAIN, ho_prefetch, region) == 0);
  CHECK(ho_command_after(s, FETCH_X, STORE_X) == 0);
  CHECK(ho_command_after(s, FETCH_R, STORE_R) == 0);
  CHECK(ho_command_after(s, FETCH_R_AGAIN, DETACH_R) == 0);
  return {s, region, static_cast<int64_t *>(ho_region_address(region))};
}

void close(const Open &o) {
  CHECK(ho_close(o.session) == 0);
  CHECK(ho_region_free(o.region) == 0);
}

// One step, whose results are checked; `before`, `after`: buffers of the caller, so that nothing is allocated here.
void step(const Open &o, int64_t number, std::vector<int64_t> &before, std::vector<int64_t> &after) {
  const int64_t s = o.session;
  for (int64_t i = 0; i < TENSOR; ++i) before[static_cast<size_t>(i)] = number + i;
  o.weights[0] = o.weights[REGION_BYTES / 8 - 1] = number;
  CHECK(call(HyperBegin, s, 0) == 0);
  CHECK(call(HyperStore, s, STORE_X, before) == 0);
  CHECK(call(HyperStore, s, STORE_R) == 0);
  CHECK(call(HyperPrefetch, s, FETCH_R) == 0);
  CHECK(call(HyperPrefetch, s, FETCH_X, after) == 0);
  CHECK(call(HyperMark, s, 17) == 0);
  CHECK(call(HyperStoreDone, s, STORE_X, before) == 0);
  CHECK(call(HyperPrefetchDone, s, FETCH_R) == 0);
  CHECK(o.weights[0] == number);
  CHECK(call(HyperDetach, s, DETACH_R) == 0);
  CHECK(call(HyperPrefetchDone, s, FETCH_X, after) == 0);
  for (int64_t i = 0; i < TENSOR; ++i) CHECK(after[static_cast<size_t>(i)] == number + i);
  CHECK(call(HyperRelease, s, 18, after) == 0);
  CHECK(call(HyperDetachDone, s, DETACH_R) == 0);
  CHECK(o.weights[0] == number && o.weights[REGION_BYTES / 8 - 1] == number);
  CHECK(call(HyperPrefetch, s, FETCH_R_AGAIN) == 0);
  CHECK(call(HyperEnd, s, 19) == 0);
  CHECK(o.weights[0] == number && o.weights[REGION_BYTES / 8 - 1] == number);
}

void many_sessions(const char *folder) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([t, folder] {
      std::vector<int64_t> before(TENSOR), after(TENSOR);
      std::vector<ho_event> events(1000);
      for (unsigned round = 0; round < 2; ++round) {
        const Open o = open(t % 2 == 0 ? folder : nullptr, t > 1, round == 0, 300'000, t);
        std::atomic<bool> over{false};
        std::atomic<int64_t> taken{0};
        std::thread taking([&] {
          ho_stats stats;
          while (!over) {
            taken += ho_events(o.session, events.data(), 1000);
            CHECK(ho_get_stats(o.session, &stats) == 0);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        });
        for (int64_t number = 1; number <= 8; ++number) step(o, 1000 * t + number, before, after);
        over = true;
        taking.join();
        taken += ho_events(o.session, events.data(), 1000);
        CHECK(taken == 8 * (3 + 4 + 1 + 6));  // begin, mark, end; dones; release; commands
        close(o);
      }
    });
  for (std::thread &thread : threads) thread.join();
}

void steps_allocate_nothing(const char *folder) {
  std::vector<int64_t> before(TENSOR), after(TENSOR);
  const Open o = open(folder, false, true, 10'000, 1);
  step(o, 1, before, after);
  const long at_first = allocations;
  for (int64_t number = 2; number < 6; ++number) step(o, number, before, after);
  CHECK(allocations == at_first);
  close(o);
}

void ended_from_elsewhere(bool by_closing) {
  std::vector<int64_t> x(TENSOR);
  // 1 MB/s: the Store would take 0.3 s.
  const int64_t s = ho_open(nullptr, SLOT, 1'000'000, 0, 1'000'000, 0, 0, 1, 0, 0);
  CHECK(ho_tensor_command(s, STORE_X, ho_store, TENSOR_BYTES, 0) == 0);
  CHECK(call(HyperBegin, s, 0) == 0);
  CHECK(call(HyperStore, s, STORE_X, x) == 0);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK((by_closing ? ho_close(s) : ho_abandon(s)) == 0);
  });
  CHECK(call(HyperStoreDone, s, STORE_X, x) == 1);
  other.join();
  CHECK(call(HyperEnd, s, 0) == 1);
  if (by_closing) return;
  CHECK(call(HyperBegin, s, 0) == 0);
  CHECK(call(HyperEnd, s, 0) == 0);
  CHECK(ho_close(s) == 0);
}

void failed_write_loses_nothing(const char *folder) {
  std::vector<int64_t> before(TENSOR), after(TENSOR);
  const Open o = open(folder, false, false, 0, 0);
  step(o, 1, before, after);
  rlimit limit{};
  CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlim_t unlimited = limit.rlim_cur;
  limit.rlim_cur = SLOT + 1'000'000;  // the region's slot ends behind it
  std::signal(SIGXFSZ, SIG_IGN);
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  o.weights[0] = 5;
  CHECK(call(HyperBegin, o.session, 0) == 0);
  CHECK(call(HyperStore, o.session, STORE_R) == 0);
  CHECK(call(HyperStoreDone, o.session, STORE_R) == 1);
  CHECK(std::string(ho_error()).find("File too large") != std::string::npos);
  CHECK(o.weights[0] == 5 && o.weights[REGION_BYTES / 8 - 1] == 1);
  o.weights[0] = 6;
  limit.rlim_cur = unlimited;
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  step(o, 7, before, after);
  close(o);
}

#ifdef __SANITIZE_THREAD__
constexpr int ROUNDS = 5;  // mapping memory is slow under it
#else
constexpr int ROUNDS = 100;
#endif

// An op may read what a Store still copies: only writers wait for it.
void readers_see_contents_while_they_move() {
  const Open o = open(nullptr, false, false, 0, 0);
  for (int64_t i = 0; i < REGION_BYTES / 8; ++i) o.weights[i] = 3;
  std::atomic<bool> over{false};
  std::thread reader([&] {
    const volatile int64_t *weights = o.weights;
    while (!over)
      for (int64_t i = 0; i < REGION_BYTES / 8; i += 512) CHECK(weights[i] == 3);
  });
  for (int round = 0; round < ROUNDS; ++round) {
    CHECK(call(HyperBegin, o.session, 0) == 0);
    CHECK(call(HyperStore, o.session, STORE_R) == 0);
    CHECK(call(HyperPrefetch, o.session, FETCH_R) == 0);
    CHECK(call(HyperPrefetchDone, o.session, FETCH_R) == 0);
    CHECK(call(HyperDetach, o.session, DETACH_R) == 0);
    CHECK(call(HyperPrefetch, o.session, FETCH_R_AGAIN) == 0);
    CHECK(call(HyperEnd, o.session, 0) == 0);
  }
  over = true;
  reader.join();
  close(o);
}

void what_would_hang_fails() {
  std::vector<int64_t> x(TENSOR);
  const Open o = open(nullptr, false, false, 0, 0);
  const int64_t s = o.session;
  CHECK(ho_tensor_command(s, BEHIND_NOTHING, ho_prefetch, TENSOR_BYTES, 0) == 0);
  CHECK(ho_command_after(s, BEHIND_NOTHING, FETCH_R) == 0);  // FETCH_R itself comes after STORE_R
  CHECK(call(HyperBegin, s, 0) == 0);
  CHECK(call(HyperPrefetch, s, FETCH_R) == 0);
  CHECK(call(HyperPrefetch, s, BEHIND_NOTHING, x) == 0);
  CHECK(call(HyperPrefetchDone, s, BEHIND_NOTHING, x) == 1);
  CHECK(call(HyperBegin, s, 0) == 0);
  CHECK(call(HyperPrefetch, s, FETCH_R) == 0);
  CHECK(call(HyperEnd, s, 0) == 1);
  CHECK(call(HyperBegin, s, 0) == 0);
  CHECK(call(HyperStoreDone, s, STORE_R) == 1);
  close(o);
}

}  // namespace

int main(int, char **arguments) {
  const char *folder = arguments[1];
  steps_allocate_nothing(folder);
  many_sessions(folder);
  ended_from_elsewhere(false);
  ended_from_elsewhere(true);
  failed_write_loses_nothing(folder);
  readers_see_contents_while_they_move();
  what_would_hang_fails();
  return 0;
}
