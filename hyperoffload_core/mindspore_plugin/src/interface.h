// The C interface of libhyperoffload_kernels.so, called by kernels.py through ctypes.
//
// Functions returning int give 0, or -1 on failure; those returning int64_t give a handle or count, or -1;
// ho_region_address gives NULL. After a failure ho_error() says what happened in one sentence. Sizes are bytes, times
// nanoseconds of CLOCK_MONOTONIC (Python's perf_counter_ns). All functions may be called from any thread.
//
// A session has a pool (remote memory), one copy thread per link direction, and commands: the cache operators of a
// schedule, each with an index below 2^32. The op kernels (kernels.cc) name a command by session << 32 | index.

#pragma once

#include <cstdint>

#define HO_EXPORT extern "C" __attribute__((visibility("default")))

enum ho_kind : int64_t {
  ho_store = 1,     // device to pool; the device copy of a region is freed when done, a tensor's by a Release
  ho_prefetch = 2,  // pool to device
  ho_detach = 3,    // free the device copy of a region; the pool has a valid one
  ho_release = 4,   // give back the pages of a dead tensor
  ho_mark = 5,      // a time stamp; start = end
  ho_begin = 6,     // a step begins; start = end
  ho_end = 7,       // start: HyperEnd was called, end: all transfers had ended
  ho_done = 8,      // the Done of the command `index`; start: called, end: returned
};

// waited_ns: how long the graph was blocked (on a transfer; of ho_end and ho_done, on all it waited for).
struct ho_event {
  int64_t step, index, kind, issued_ns, start_ns, end_ns, waited_ns;
};

// bytes_out, bytes_in: moved over the links so far. device_region_bytes: regions of this session's pool that are on the
// device now; peak_region_bytes: the most so far, a region being fetched counted in full. events_lost: overwritten
// before ho_events took them.
struct ho_stats {
  int64_t pool_bytes, bytes_out, bytes_in, device_region_bytes, peak_region_bytes, steps, events_lost;
};

// The sentence of the last failure in this process.
HO_EXPORT const char *ho_error(void);

// Opens a session: > 0. The pool is a file in `folder` without a name (a killed process leaves nothing), or anonymous
// shared memory where `folder` is NULL. `random_delay_ns`: each transfer starts its copy up to this much late (tests).
HO_EXPORT int64_t ho_open(const char *folder, int64_t pool_bytes, int64_t out_bytes_per_s, int64_t out_latency_ns,
                          int64_t in_bytes_per_s, int64_t in_latency_ns, int half_duplex, int paced,
                          int64_t random_delay_ns, uint64_t seed);

// Stops what is being copied, joins the threads. Regions of the session stay, with their pool, until ho_region_free.
HO_EXPORT int ho_close(int64_t session);

// Ends a step that MindSpore left in the middle: when this returns, nothing is being copied.
HO_EXPORT int ho_abandon(int64_t session);

// Why the step that runs, or ran last, failed: a sentence, valid until this thread asks again; "" if it did not.
HO_EXPORT const char *ho_failure(int64_t session);

// Declares a Store or Prefetch of a tensor. Commands are declared between steps.
HO_EXPORT int ho_tensor_command(int64_t session, int64_t index, int64_t kind, int64_t bytes, int64_t pool_offset);

// Declares a Store, Prefetch or Detach of a region (of any session).
HO_EXPORT int ho_region_command(int64_t session, int64_t index, int64_t kind, int64_t region);

// The copy of `index` starts only when `other` has ended in the same step.
HO_EXPORT int ho_command_after(int64_t session, int64_t index, int64_t other);

// Reserves memory for a parameter: page-aligned, zero, on the device. Its slot in the session's pool begins at
// `pool_offset`, a multiple of the page size, and is rounded up to whole pages. Handles are unique in the process.
HO_EXPORT int64_t ho_region(int64_t session, int64_t bytes, int64_t pool_offset);
HO_EXPORT void *ho_region_address(int64_t region);

// Between steps: moves the contents to the pool and maps the pool over the region, or back.
HO_EXPORT int ho_region_to_pool(int64_t region);
HO_EXPORT int ho_region_to_device(int64_t region);
HO_EXPORT int ho_region_free(int64_t region);

// Takes up to `capacity` recorded events, oldest first; returns how many.
HO_EXPORT int64_t ho_events(int64_t session, struct ho_event *out, int64_t capacity);
HO_EXPORT int ho_get_stats(int64_t session, struct ho_stats *out);
