// The kernels of the cache operators, as MindSpore's primitive Custom calls a function of a library: inputs first,
// outputs last. The first input is always session << 32 | index. Tokens only order the graph; a kernel writes its id
// into its own.
//
//   HyperBegin(id) -> token                      HyperEnd(id, token) -> token
//   HyperStore(id, x, token) -> token            HyperStoreDone(id, x, token) -> token
//   HyperPrefetch(id, token) -> y                HyperPrefetchDone(id, y, token) -> token
//   HyperDetach(id, token) -> token              HyperDetachDone(id, token) -> token
//   HyperRelease(id, x, token) -> token          HyperMark(id, token) -> token
//
// Of a region, Store and Prefetch are (id, token) -> token, and so are their Done. A Done names the command it waits
// for. Whatever fails stops all copies of the session before the kernel returns 1, and MindSpore raises.

#include <array>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "failure.h"
#include "interface.h"
#include "session.h"
#include "sessions.h"

namespace hyperoffload {
namespace {

struct Arguments {
  int count;
  void **params;
  const int *ndims;
  int64_t *const *shapes;
  const char *const *dtypes;
};

int64_t item_bytes(std::string_view dtype) {
  static constexpr std::array<std::pair<std::string_view, int64_t>, 16> known{{{"bool", 1},
                                                                               {"int8", 1},
                                                                               {"uint8", 1},
                                                                               {"int16", 2},
                                                                               {"uint16", 2},
                                                                               {"float16", 2},
                                                                               {"bfloat16", 2},
                                                                               {"int32", 4},
                                                                               {"uint32", 4},
                                                                               {"float32", 4},
                                                                               {"int64", 8},
                                                                               {"uint64", 8},
                                                                               {"float64", 8},
                                                                               {"complex64", 8},
                                                                               {"complex128", 16},
                                                                               {"float8_e4m3fn", 1}}};
  for (const auto &[name, bytes] : known)
    if (name == dtype) return bytes;
  throw Failure("a cache operator got a tensor of unknown type " + std::string(dtype));
}

int64_t bytes_of(const Arguments &arguments, int position) {
  int64_t bytes = item_bytes(arguments.dtypes[position]);
  for (int i = 0; i < arguments.ndims[position]; ++i) bytes *= arguments.shapes[position][i];
  return bytes;
}

// The memory of the tensor at `position`; null where the command moves a region.
char *tensor(const Arguments &arguments, int position, const Command &command) {
  if (command.region != nullptr) return nullptr;
  const int64_t bytes = bytes_of(arguments, position);
  if (bytes != command.bytes)
    throw Failure("command " + std::to_string(command.index) + " moves " + std::to_string(command.bytes) +
                  " bytes, but got a tensor of " + std::to_string(bytes));
  return static_cast<char *>(arguments.params[position]);
}

template <class Body>
int run(const Arguments &arguments, Body body) {
  try {
    if (arguments.count < 2) throw Failure("a cache operator got no id or has no output");
    int64_t id = 0;
    std::memcpy(&id, arguments.params[0], sizeof id);
    const auto session = sessions().get(id >> 32);
    try {
      body(*session, id & 0xffffffff);
    } catch (const std::exception &error) {
      session->abandon(error.what());
      throw;
    }
    return 0;
  } catch (const std::exception &error) {
    set_last_error(error.what());
    return 1;
  }
}

void write_token(const Arguments &arguments) {
  std::memcpy(arguments.params[arguments.count - 1], arguments.params[0], sizeof(int64_t));
}

int issue(const Arguments &arguments, ho_kind kind) {
  return run(arguments, [&](Session &session, int64_t index) {
    const Command &command = session.command(index, kind);
    const bool fills_output = kind == ho_prefetch && command.region == nullptr;
    session.issue(index, tensor(arguments, fills_output ? arguments.count - 1 : 1, command));
    if (!fills_output) write_token(arguments);
  });
}

int done(const Arguments &arguments, ho_kind kind) {
  return run(arguments, [&](Session &session, int64_t index) {
    session.done(index, tensor(arguments, 1, session.command(index, kind)));
    write_token(arguments);
  });
}

}  // namespace
}  // namespace hyperoffload

using namespace hyperoffload;

#define KERNEL(NAME) \
  HO_EXPORT int NAME(int count, void **params, int *ndims, int64_t **shapes, const char **dtypes, void *, void *)

KERNEL(HyperStore) { return issue({count, params, ndims, shapes, dtypes}, ho_store); }
KERNEL(HyperPrefetch) { return issue({count, params, ndims, shapes, dtypes}, ho_prefetch); }
KERNEL(HyperDetach) { return issue({count, params, ndims, shapes, dtypes}, ho_detach); }

KERNEL(HyperStoreDone) { return done({count, params, ndims, shapes, dtypes}, ho_store); }
KERNEL(HyperPrefetchDone) { return done({count, params, ndims, shapes, dtypes}, ho_prefetch); }
KERNEL(HyperDetachDone) { return done({count, params, ndims, shapes, dtypes}, ho_detach); }

KERNEL(HyperBegin) {
  const Arguments arguments{count, params, ndims, shapes, dtypes};
  return run(arguments, [&](Session &session, int64_t index) {
    session.begin(index);
    write_token(arguments);
  });
}

KERNEL(HyperEnd) {
  const Arguments arguments{count, params, ndims, shapes, dtypes};
  return run(arguments, [&](Session &session, int64_t index) {
    session.end(index);
    write_token(arguments);
  });
}

KERNEL(HyperMark) {
  const Arguments arguments{count, params, ndims, shapes, dtypes};
  return run(arguments, [&](Session &session, int64_t index) {
    session.mark(index);
    write_token(arguments);
  });
}

KERNEL(HyperRelease) {
  const Arguments arguments{count, params, ndims, shapes, dtypes};
  return run(arguments, [&](Session &session, int64_t index) {
    session.release(index, static_cast<char *>(params[1]), bytes_of(arguments, 1));
    write_token(arguments);
  });
}
