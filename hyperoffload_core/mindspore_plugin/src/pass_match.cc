#include "pass_match.h"

#include <algorithm>

namespace hyperoffload {
namespace {

std::optional<size_t> node_of(const std::string &ref) {
  const bool is_node = ref.size() > 1 && ref.size() < 10 && ref[0] == 'n' &&
                       std::all_of(ref.begin() + 1, ref.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_node ? std::optional<size_t>(std::stoul(ref.substr(1))) : std::nullopt;
}

bool is_constant(const std::string &ref) { return ref[0] == 'i' || ref[0] == 'b' || ref == "U" || ref == "c"; }

std::string shown(const std::string &primitive, const std::string &result) {
  const std::string name = primitive.empty() ? "a call of a function" : primitive;
  return result.empty() ? name : name + " " + result;
}

// A parameter, an input of the graph or a constant.
std::string shown_ref(const std::string &ref) { return ref.rfind("p:", 0) == 0 ? ref.substr(2) : "a constant"; }

bool contains(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Walks both graphs from their results to what those are made of. The order in which a graph lists its nodes says
// nothing: it depends on edges that an exported graph has and one that is to be run has not.
class Walk {
 public:
  Walk(const Plan &plan, const GraphText &graph) : plan_(plan), graph_(graph) {
    match_.calls.resize(plan.nodes.size());
    for (const ExpectedNode &node : plan.nodes) {
      match_.inputs.push_back(node.inputs);
    }
  }

  Match from_result() {
    const std::vector<std::string> &result = graph_.nodes.back().inputs;
    if (result.size() != 1) {
      throw Refusal("the graph returns " + std::to_string(result.size()) + " values");
    }
    pair(plan_.nodes.size(), 0, "n" + std::to_string(plan_.nodes.size() - 1), result[0]);
    while (!open_.empty()) {
      const size_t node = open_.back();
      open_.pop_back();
      compare(node, graph_.nodes[*match_.calls[node]]);
    }
    if (!differences_.empty()) {
      throw Refusal(differences_.begin()->second);
    }
    return match_;
  }

 private:
  void differs(size_t node, const std::string &is, const std::string &was) {
    differences_.emplace(
        node, is + ": schedule " + plan_.name + " was made for " + was + "; compile it again for this model");
  }

  void compare(size_t number, const GraphNode &node) {
    const ExpectedNode &expected = plan_.nodes[number];
    const bool same_result = expected.result.empty() || node.result == expected.result;
    if (node.primitive != expected.primitive || node.scope != expected.scope || !same_result) {
      const std::string other_scope = node.scope == expected.scope ? "" : " in " + expected.scope;
      differs(number,
              "node " + std::to_string(number) + " is " + shown(node.primitive, node.result) + " in " + node.scope,
              shown(expected.primitive, expected.result) + other_scope);
    }
    if (node.primitive != expected.primitive) {
      return;
    }
    const bool readers_missing = node.primitive == "UpdateState" && node.inputs.size() < expected.inputs.size();
    if (node.inputs.size() != expected.inputs.size() && !readers_missing) {
      differs(number, named(number) + " has " + std::to_string(node.inputs.size()) + " inputs",
              std::to_string(expected.inputs.size()));
      return;
    }
    match_.inputs[number].resize(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); i++) {
      pair(number, i, expected.inputs[i], node.inputs[i]);
    }
  }

  // Input `position` of node `user` is `input` in the graph.
  void pair(size_t user, size_t position, const std::string &expected, const std::string &input) {
    const std::optional<size_t> node = node_of(expected);
    const std::string &ref = without_stops(input, node);
    const std::optional<size_t> call = node_of(ref);
    if (node && *node >= plan_.nodes.size()) {
      throw Refusal("the plan cannot be read: node " + std::to_string(user) + " has an input " + expected);
    }
    if (node && is_missing_copy(*node, call)) {
      const size_t load = *node_of(plan_.nodes[*node].inputs[0]);
      match_.copies[*node] = load;
      pair(*node, 0, plan_.nodes[*node].inputs[0], ref);
    } else if (node && call) {
      pair_calls(user, position, *node, *call);
    } else if (!same_parameter(expected, ref) && !(expected.empty() && is_constant(ref))) {
      const std::string is = call ? shown(graph_.nodes[*call].primitive, graph_.nodes[*call].result) : shown_ref(ref);
      differs(user, named(user) + " has input " + std::to_string(position) + " from " + is,
              node ? shown(plan_.nodes[*node].primitive, plan_.nodes[*node].result) : shown_ref(expected));
    }
  }

  // An exported graph has no StopGradient any more where it passes its input on as it is.
  const std::string &without_stops(const std::string &ref, const std::optional<size_t> &expected) const {
    const bool stops = expected && *expected < plan_.nodes.size() && plan_.nodes[*expected].primitive == "StopGradient";
    const std::string *passed = &ref;
    for (auto call = node_of(ref); !stops && call && graph_.nodes[*call].primitive == "StopGradient";) {
      passed = &graph_.nodes[*call].inputs.at(0);
      call = node_of(*passed);
    }
    return *passed;
  }

  bool same_parameter(const std::string &expected, const std::string &ref) {
    if (expected.rfind("p:", 0) != 0 || ref.rfind("p:", 0) != 0) {
      return expected == ref;
    }
    const std::string name = ref.substr(2);
    const std::string as_expected = expected.substr(2);
    if (!contains(graph_.inputs, name) || contains(graph_.weights, as_expected)) {
      return expected == ref;
    }
    const auto known = match_.arguments.emplace(as_expected, name).first;
    return known->second == name && named_arguments_.emplace(name, as_expected).first->second == as_expected;
  }

  void pair_calls(size_t user, size_t position, size_t node, size_t call) {
    const bool known = match_.calls[node].has_value();
    if (known ? *match_.calls[node] == call : taken_.emplace(call, node).second) {
      if (!known) {
        match_.calls[node] = call;
        open_.push_back(node);
      }
      return;
    }
    differs(user, named(user) + " has input " + std::to_string(position) + " from another node",
            "the one from " + named(node));
  }

  bool is_missing_copy(size_t node, const std::optional<size_t> &call) const {
    const ExpectedNode &copy = plan_.nodes[node];
    if (copy.primitive != "TensorMove" || copy.inputs.size() != 1 ||
        (call && graph_.nodes[*call].primitive != "Load")) {
      return false;
    }
    const std::optional<size_t> load = node_of(copy.inputs[0]);
    return call && load && *load < plan_.nodes.size() && plan_.nodes[*load].primitive == "Load";
  }

  std::string named(size_t node) const {
    if (node == plan_.nodes.size()) {
      return "the graph's result";
    }
    return "node " + std::to_string(node) + " (" + plan_.nodes[node].primitive + " in " + plan_.nodes[node].scope + ")";
  }

  const Plan &plan_;
  const GraphText &graph_;
  Match match_;
  std::vector<size_t> open_;
  std::map<size_t, size_t> taken_;
  std::map<std::string, std::string> named_arguments_;
  std::map<size_t, std::string> differences_;
};

}  // namespace

Match match(const Plan &plan, const GraphText &graph) { return Walk(plan, graph).from_result(); }

}  // namespace hyperoffload
