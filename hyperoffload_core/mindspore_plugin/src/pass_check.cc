#include "pass_check.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

namespace hyperoffload {
namespace {

using Names = std::unordered_set<std::string>;
using Inputs = std::unordered_map<std::string, std::vector<std::string>>;

// Nodes that compute nothing: edits may leave them behind.
constexpr std::array<const char *, 10> kPassive = {"Depend",       "ExpandDims", "Flatten", "Load",
                                                   "MakeTuple",    "Reshape",    "Squeeze", "StopGradient",
                                                   "TupleGetItem", "UpdateState"};

constexpr const char *kClone = "clone n";

size_t cloned(const Edit &edit) { return number_in(edit.primitive, std::string(kClone).size(), edit.line); }

bool passive(const std::string &primitive) {
  return std::find(kPassive.begin(), kPassive.end(), primitive) != kPassive.end();
}

std::string node_name(size_t index) { return "n" + std::to_string(index); }
std::string new_name(size_t number) { return "x" + std::to_string(number); }

[[noreturn]] void bad_edit(const Edit &edit, const std::string &what) {
  throw Refusal("the plan does not fit the graph: line " + std::to_string(edit.line) + " " + what);
}

bool constant(const std::string &ref) {
  if (ref == "U" || ref == "b0" || ref == "b1") {
    return true;
  }
  const size_t digits = ref.size() > 1 && ref[1] == '-' ? 2 : 1;
  return ref.size() > digits && ref.size() <= digits + 18 && ref[0] == 'i' &&
         std::all_of(ref.begin() + static_cast<std::ptrdiff_t>(digits), ref.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

void check_ref(const Edit &edit, const std::string &ref, const Names &values) {
  if (values.count(ref) == 0 && !constant(ref)) {
    bad_edit(edit, "refers to \"" + ref + "\", which is no node, parameter or constant");
  }
}

// Every value an edit may refer to. A name that two parameters share is none.
Names values_of(const Plan &plan, const Match &match, const GraphText &graph) {
  std::vector<std::string> parameters = graph.weights;
  for (const auto &[name, in_graph] : match.arguments) {
    parameters.push_back(name);
  }
  Names values;
  Names twice;
  for (const std::string &name : parameters) {
    if (!values.insert("p:" + name).second) {
      twice.insert("p:" + name);
    }
  }
  for (const std::string &name : twice) {
    values.erase(name);
  }
  for (size_t i = 0; i < plan.nodes.size(); i++) {
    values.insert(node_name(i));
  }
  return values;
}

void check_new(const Edit &edit, const Plan &plan, const Names &values, Inputs *inputs) {
  if (values.count(new_name(edit.node)) != 0) {
    bad_edit(edit, "makes new node " + std::to_string(edit.node) + " a second time");
  }
  if (edit.result.rfind("like ", 0) == 0) {
    const std::string like = edit.result.substr(5);
    if (values.count(like) == 0) {
      bad_edit(edit, "wants a result like \"" + like + "\", which is no node or parameter");
    }
  } else if (edit.result != "token" && edit.result != "U") {
    bad_edit(edit, "has a result \"" + edit.result + "\", which is not token, U or like REF");
  }
  std::vector<std::string> refs = edit.refs;
  if (edit.primitive.rfind(kClone, 0) == 0) {
    const size_t source = cloned(edit);
    if (source >= plan.nodes.size() || plan.nodes[source].primitive.empty()) {
      bad_edit(edit, "clones n" + std::to_string(source) + ", which is no node with a primitive");
    }
    const std::vector<std::string> &kept = plan.nodes[source].inputs;
    if (kept.size() < refs.size()) {
      bad_edit(edit, "clones a node of " + std::to_string(kept.size()) + " inputs with " + std::to_string(refs.size()));
    }
    for (size_t i = 0; i < refs.size(); i++) {
      if (refs[i].empty()) {
        refs[i] = kept[i];
      } else {
        check_ref(edit, refs[i], values);
      }
    }
  } else {
    if (edit.primitive.empty() || edit.primitive.find(' ') != std::string::npos) {
      bad_edit(edit, "has no primitive's name in \"" + edit.primitive + "\"");
    }
    for (const std::string &ref : refs) {
      check_ref(edit, ref, values);
    }
  }
  (*inputs)[new_name(edit.node)] = refs;
}

void check_set(const Edit &edit, const Plan &plan, const Names &values, Inputs *inputs) {
  if (edit.node > plan.nodes.size()) {
    bad_edit(edit, "sets an input of node " + std::to_string(edit.node) + ", which is none of the graph");
  }
  std::vector<std::string> &refs = (*inputs)[node_name(edit.node)];
  if (edit.input >= refs.size()) {
    bad_edit(edit, "sets input " + std::to_string(edit.input) + " of node " + std::to_string(edit.node) +
                       ", which has " + std::to_string(refs.size()));
  }
  check_ref(edit, edit.refs[0], values);
  refs[edit.input] = edit.refs[0];
}

// What the edited graph runs: all its result needs. Throws where a node would need itself.
Names reached(const Plan &plan, const Inputs &inputs, const std::string &result) {
  struct Visit {
    std::string name;
    size_t next;
  };
  Names open;
  Names done;
  std::vector<Visit> path = {{result, 0}};
  open.insert(result);
  while (!path.empty()) {
    const std::vector<std::string> &refs = inputs.at(path.back().name);
    if (path.back().next == refs.size()) {
      done.insert(path.back().name);
      path.pop_back();
      continue;
    }
    const std::string &ref = refs[path.back().next++];
    if (inputs.count(ref) == 0 || done.count(ref) != 0) {
      continue;
    }
    if (!open.insert(ref).second) {
      throw Refusal("the plan does not fit the graph: with the edits of " + plan.name + ", " + ref +
                    " would wait for itself");
    }
    path.push_back({ref, 0});
  }
  return done;
}

}  // namespace

void check_edits(const Plan &plan, const Match &match, const GraphText &graph) {
  const std::string result = node_name(plan.nodes.size());
  Names values = values_of(plan, match, graph);
  Inputs inputs;
  for (size_t i = 0; i < plan.nodes.size(); i++) {
    inputs[node_name(i)] = match.inputs[i];
  }
  inputs[result] = {node_name(plan.nodes.size() - 1)};
  for (const Edit &edit : plan.edits) {
    if (edit.kind == Edit::Kind::kNewNode) {
      check_new(edit, plan, values, &inputs);
      values.insert(new_name(edit.node));
    } else {
      check_set(edit, plan, values, &inputs);
    }
  }
  const Names run = reached(plan, inputs, result);
  for (size_t i = 0; i < plan.nodes.size(); i++) {
    if (run.count(node_name(i)) == 0 && !passive(plan.nodes[i].primitive)) {
      throw Refusal("the plan does not fit the graph: with its edits node " + std::to_string(i) + " (" +
                    plan.nodes[i].primitive + " in " + plan.nodes[i].scope + ") would not run any more");
    }
  }
  for (const Edit &edit : plan.edits) {
    if (edit.kind != Edit::Kind::kNewNode || run.count(new_name(edit.node)) != 0) {
      continue;
    }
    const bool is_clone = edit.primitive.rfind(kClone, 0) == 0;
    const std::string primitive = is_clone ? plan.nodes[cloned(edit)].primitive : edit.primitive;
    if (!passive(primitive)) {
      bad_edit(edit, "makes " + primitive + ", which nothing waits for: it would not run");
    }
  }
}

}  // namespace hyperoffload
