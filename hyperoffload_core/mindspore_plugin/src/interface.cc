// The C functions: handles in, Failure turned into -1 and a sentence.

#include "interface.h"

#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "failure.h"
#include "session.h"
#include "sessions.h"

using namespace hyperoffload;

namespace {

template <class Result, class Body>
Result guarded(Result failed, Body body) {
  try {
    return body();
  } catch (const std::exception &error) {
    set_last_error(error.what());
    return failed;
  }
}

// 0, or -1 on failure.
template <class Body>
int guarded(Body body) {
  return guarded(-1, [&] {
    body();
    return 0;
  });
}

bool store_out(Pool &pool, char *memory, int64_t bytes, int64_t offset) {
  pool.write(memory, bytes, offset);
  return true;
}

bool fetch(Pool &pool, char *memory, int64_t bytes, int64_t offset) {
  pool.read(memory, bytes, offset);
  return true;
}

}  // namespace

const char *ho_error(void) { return last_error(); }

int64_t ho_open(const char *folder, int64_t pool_bytes, int64_t out_bytes_per_s, int64_t out_latency_ns,
                int64_t in_bytes_per_s, int64_t in_latency_ns, int half_duplex, int paced, int64_t random_delay_ns,
                uint64_t seed) {
  return guarded(int64_t{-1}, [&] {
    if (pool_bytes < 0) throw Failure("a pool of " + std::to_string(pool_bytes) + " bytes is none");
    if (paced && (out_bytes_per_s <= 0 || in_bytes_per_s <= 0))
      throw Failure("a paced link needs a bandwidth above zero");
    const Pacing pacing{
        {out_bytes_per_s, out_latency_ns}, {in_bytes_per_s, in_latency_ns}, paced != 0, random_delay_ns};
    auto pool = std::make_shared<Pool>(folder, pool_bytes);
    return sessions().add(std::make_shared<Session>(std::move(pool), pacing, half_duplex != 0, seed));
  });
}

int ho_close(int64_t session) {
  return guarded([&] { sessions().take(session)->close(); });
}

int ho_abandon(int64_t session) {
  return guarded([&] { sessions().get(session)->abandon("the step was abandoned"); });
}

const char *ho_failure(int64_t session) {
  thread_local std::string sentence;
  return guarded("", [&] {
    sentence = sessions().get(session)->failure();
    return sentence.c_str();
  });
}

int ho_tensor_command(int64_t session, int64_t index, int64_t kind, int64_t bytes, int64_t pool_offset) {
  return guarded([&] { sessions().get(session)->declare_tensor(index, kind, bytes, pool_offset); });
}

int ho_region_command(int64_t session, int64_t index, int64_t kind, int64_t region) {
  return guarded([&] { sessions().get(session)->declare_region(index, kind, regions().get(region)); });
}

int ho_command_after(int64_t session, int64_t index, int64_t other) {
  return guarded([&] { sessions().get(session)->declare_after(index, other); });
}

int64_t ho_region(int64_t session, int64_t bytes, int64_t pool_offset) {
  return guarded(int64_t{-1}, [&] {
    if (bytes < 0) throw Failure("a region of " + std::to_string(bytes) + " bytes is none");
    return regions().add(std::make_shared<Region>(sessions().get(session)->pool(), bytes, pool_offset));
  });
}

void *ho_region_address(int64_t region) {
  return guarded(static_cast<void *>(nullptr), [&] { return static_cast<void *>(regions().get(region)->address()); });
}

int ho_region_to_pool(int64_t region) {
  return guarded([&] {
    const auto it = regions().get(region);
    it->store(
        [&](char *memory, int64_t bytes, int64_t offset) { return store_out(it->pool(), memory, bytes, offset); });
  });
}

int ho_region_to_device(int64_t region) {
  return guarded([&] {
    const auto it = regions().get(region);
    it->prefetch([&](char *memory, int64_t bytes, int64_t offset) { return fetch(it->pool(), memory, bytes, offset); });
  });
}

int ho_region_free(int64_t region) {
  return guarded([&] { regions().take(region); });
}

int64_t ho_events(int64_t session, struct ho_event *out, int64_t capacity) {
  return guarded(int64_t{-1}, [&] { return sessions().get(session)->events().take(out, capacity); });
}

int ho_get_stats(int64_t session, struct ho_stats *out) {
  return guarded([&] { *out = sessions().get(session)->stats(); });
}
