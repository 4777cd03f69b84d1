// The compiler pass "hyperoffload": puts a plan's nodes into the graph MindSpore is compiling, all of them or none.
#include "mindspore/ccsrc/include/backend/common/pass_manager/pass.h"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mindspore/ccsrc/include/utils/custom_pass/custom_pass_plugin.h"
#include "pass_check.h"
#include "pass_edit.h"
#include "pass_graph.h"
#include "pass_match.h"
#include "pass_plan.h"

namespace hyperoffload {
namespace {

// MindSpore compiles in whatever thread called it.
std::mutex mutex;
std::string plan_text;
std::string report;
std::string kernels_path;
std::string dump_folder;

// PLAN-N.before.txt and PLAN-N.after.txt, N being the first number that is free.
class Dump {
 public:
  explicit Dump(const std::string &plan) {
    if (dump_folder.empty()) {
      return;
    }
    std::string name = plan;
    for (char &c : name) {
      const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
      c = plain ? c : '_';
    }
    for (int number = 1; stem_.empty(); number++) {
      const std::string stem = dump_folder + "/" + name + "-" + std::to_string(number);
      std::FILE *file = std::fopen((stem + ".before.txt").c_str(), "wxe");
      if (file != nullptr) {
        std::fclose(file);
        stem_ = stem;
      } else if (errno != EEXIST) {
        return;
      }
    }
  }

  void write(const char *stage, const std::string &text) const {
    if (!stem_.empty()) {
      std::ofstream(stem_ + "." + stage + ".txt") << text;
    }
  }

 private:
  std::string stem_;
};

Match matched(const Plan &plan, const mindspore::FuncGraphPtr &graph, const std::vector<mindspore::CNodePtr> &calls,
              const Dump &dump) {
  const GraphText text = describe(graph, calls);
  Names names;
  for (const auto &call : calls) {
    names[call.get()] = "n" + std::to_string(names.size());
  }
  dump.write("before", listing(graph, names));
  const Match found = match(plan, text);
  names.clear();
  for (size_t i = 0; i < found.calls.size(); i++) {
    if (found.calls[i]) {
      names[calls[*found.calls[i]].get()] = "n" + std::to_string(i);
    }
  }
  names[calls.back().get()] = "n" + std::to_string(found.calls.size());
  dump.write("before", listing(graph, names));  // the same nodes, now as the plan numbers them
  check_edits(plan, found, text);
  return found;
}

std::string run(const mindspore::FuncGraphPtr &graph) {
  const Plan plan = read_plan(plan_text);
  const Dump dump(plan.name);
  const std::vector<mindspore::CNodePtr> calls = calls_of(graph);
  const Match found = matched(plan, graph, calls, dump);
  const Applied applied = apply(plan, found, kernels_path, graph, calls);
  dump.write("after", listing(graph, applied.names));
  return "applied\t" + std::to_string(applied.new_nodes) + "\t" + std::to_string(applied.changed_inputs);
}

class HyperOffloadPass : public mindspore::opt::Pass {
 public:
  HyperOffloadPass() : Pass("hyperoffload") {}

  bool Run(const mindspore::FuncGraphPtr &graph) override {
    const std::lock_guard<std::mutex> lock(mutex);
    if (plan_text.empty() || graph == nullptr) {
      return false;
    }
    try {
      report = run(graph);
      return true;
    } catch (const Refusal &refusal) {
      report = std::string("refused\t") + refusal.what();
    } catch (const std::exception &error) {
      report = std::string("refused\tMindSpore's graph could not be changed: ") + error.what();
    }
    return false;
  }
};

class HyperOffloadPlugin : public mindspore::opt::CustomPassPlugin {
 public:
  std::string GetPluginName() const override { return "hyperoffload"; }
  std::vector<std::string> GetAvailablePassNames() const override { return {"hyperoffload"}; }
  std::shared_ptr<mindspore::opt::Pass> CreatePass(const std::string &name) const override {
    return name == "hyperoffload" ? std::make_shared<HyperOffloadPass>() : nullptr;
  }
};

}  // namespace
}  // namespace hyperoffload

EXPORT_CUSTOM_PASS_PLUGIN(hyperoffload::HyperOffloadPlugin)

extern "C" {

// The plan of every graph compiled from now on (edits.py: plan_text); "" for none.
__attribute__((visibility("default"))) void hyperoffload_pass_set_plan(const char *text) {
  const std::lock_guard<std::mutex> lock(hyperoffload::mutex);
  hyperoffload::plan_text = text == nullptr ? "" : text;
  hyperoffload::report.clear();
}

// The library whose functions the cache operators are; "" where MindSpore has them itself.
__attribute__((visibility("default"))) void hyperoffload_pass_set_kernels(const char *path) {
  const std::lock_guard<std::mutex> lock(hyperoffload::mutex);
  hyperoffload::kernels_path = path == nullptr ? "" : path;
}

// What became of the plan in the last compile: "applied<TAB>new nodes<TAB>changed inputs", "refused<TAB>sentence", or
// "" where nothing was compiled since it was set. Valid in the calling thread until its next call.
__attribute__((visibility("default"))) const char *hyperoffload_pass_report() {
  static thread_local std::string copy;
  const std::lock_guard<std::mutex> lock(hyperoffload::mutex);
  copy = hyperoffload::report;
  return copy.c_str();
}

// Where graphs are written before and after edits; "" for nowhere.
__attribute__((visibility("default"))) void hyperoffload_pass_set_dump(const char *folder) {
  const std::lock_guard<std::mutex> lock(hyperoffload::mutex);
  hyperoffload::dump_folder = folder == nullptr ? "" : folder;
}
}
