// MindSpore's cache operators for Ascend, as kernels for CPU that copy at once and refuse whatever would lose data
// there. Detach destroys the device copy, so whoever reads a parameter that is not there computes something else.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

struct Remote {
  std::vector<char> copy;
  bool on_device = true;
};

struct Record {
  int op;
  int64_t bytes;
};

const char *const kNames[] = {"CopyToHost", "CopyToDevice", "UpdateToRemote", "UpdateToDevice", "Detach"};
std::map<void *, Remote> remotes;
std::vector<Record> records;

size_t item_bytes(const std::string &type) {
  const std::map<std::string, size_t> sizes = {{"float16", 2}, {"float32", 4}, {"float64", 8}, {"int32", 4},
                                               {"int64", 8},   {"bool", 1},    {"int8", 1},    {"uint8", 1}};
  const auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

// The first argument is the tensor, the last one the result.
struct Call {
  int count;
  void **params;
  size_t bytes;

  Call(int op, int count, void **params, const int *dimensions, int64_t **shapes, const char **types)
      : count(count), params(params), bytes(item_bytes(types[0])) {
    for (int i = 0; i < dimensions[0]; i++) {
      bytes *= static_cast<size_t>(shapes[0][i]);
    }
    records.push_back({op, static_cast<int64_t>(bytes)});
  }
  char *data() const { return static_cast<char *>(params[0]); }
  int give() const {
    if (params[0] != params[count - 1]) {
      std::memcpy(params[count - 1], params[0], bytes);
    }
    return bytes == 0;
  }
};

int to_remote(const Call &call) {
  Remote &remote = remotes[call.data()];
  if (!remote.on_device) {
    return 1;
  }
  remote.copy.assign(call.data(), call.data() + call.bytes);
  return call.give();
}

int to_device(const Call &call) {
  Remote &remote = remotes[call.data()];
  if (remote.copy.empty()) {  // the first step begins with everything on the device
    remote.copy.assign(call.data(), call.data() + call.bytes);
  } else if (remote.on_device) {
    return 1;
  }
  std::memcpy(call.data(), remote.copy.data(), call.bytes);
  remote.on_device = true;
  return call.give();
}

int detach(const Call &call) {
  Remote &remote = remotes[call.data()];
  const bool valid = remote.copy.size() == call.bytes && std::memcmp(remote.copy.data(), call.data(), call.bytes) == 0;
  if (!remote.on_device || !valid) {
    return 1;
  }
  std::memset(call.data(), 0xff, call.bytes);
  remote.on_device = false;
  return call.give();
}

}  // namespace

#define ARGUMENTS int n, void **params, int *dimensions, int64_t **shapes, const char **types, void *, void *
#define CALL(op) Call(op, n, params, dimensions, shapes, types)

extern "C" {
int CopyToHost(ARGUMENTS) { return CALL(0).give(); }
int CopyToDevice(ARGUMENTS) { return CALL(1).give(); }
int UpdateToRemote(ARGUMENTS) { return to_remote(CALL(2)); }
int UpdateToDevice(ARGUMENTS) { return to_device(CALL(3)); }
int Detach(ARGUMENTS) { return detach(CALL(4)); }

int GetRegisteredOpCount() { return 5; }
const char **GetAllRegisteredOps() { return const_cast<const char **>(kNames); }

// How many calls there were, and the operator and bytes of one.
int64_t ascend_count() { return static_cast<int64_t>(records.size()); }
int ascend_op(int64_t i) { return records[static_cast<size_t>(i)].op; }
int64_t ascend_bytes(int64_t i) { return records[static_cast<size_t>(i)].bytes; }

// Puts back every parameter that is remote; returns how many were.
int ascend_fetch_all() {
  int fetched = 0;
  for (auto &[data, remote] : remotes) {
    if (!remote.on_device) {
      std::memcpy(data, remote.copy.data(), remote.copy.size());
      remote.on_device = true;
      fetched++;
    }
  }
  return fetched;
}
}
