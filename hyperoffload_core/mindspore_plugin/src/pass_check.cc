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
constexpr std::array<const char *, 5> kPassive = {"Depend", "Load", "MakeTuple", "TupleGetItem", "UpdateState"};

bool passive(const std::string &primitive) {
  return std::find(kPassive.begin(), kPassive.end(), primitive) != kPassive.end();
}

std::string node_name(size_t index) { return "n" + std::to_string(index); }
std::string new_name(size_t number) { return "x" + std::to_string(number); }

std::string shown(const std::string &primitive, const std::string &result) {
  const std::string name = primitive.empty() ? "a call of a function" : primitive;
  return result.empty() ? name : name + " " + result;
}

[[noreturn]] void differs(const Plan &plan, const std::string &is, const std::string &was) {
  throw Refusal(is + ": schedule " + plan.name + " was made for " + was + "; compile it again for this model");
}

void compare_node(const Plan &plan, size_t index, const GraphNode &node, const ExpectedNode &expected) {
  const bool same_result = expected.result.empty() || node.result == expected.result;
  if (node.primitive == expected.primitive && node.scope == expected.scope && same_result) {
    return;
  }
  const std::string other_scope = node.scope == expected.scope ? "" : " in " + expected.scope;
  differs(plan, "node " + std::to_string(index) + " is " + shown(node.primitive, node.result) + " in " + node.scope,
          shown(expected.primitive, expected.result) + other_scope);
}

// "" expects a constant, whatever its value.
bool same_input(const std::string &ref, const std::string &expected) {
  const bool is_constant = ref[0] == 'i' || ref[0] == 'b' || ref == "U" || ref == "c";
  return ref == expected || (expected.empty() && is_constant);
}

void compare_inputs(const Plan &plan, size_t index, const GraphNode &node, const std::vector<std::string> &expected) {
  const std::string is = "node " + std::to_string(index) + " (" + node.primitive + " in " + node.scope + ") has ";
  // An UpdateState names the Loads it comes after in an exported graph, and not in one that is compiled to be run.
  const bool loads_left_out = node.primitive == "UpdateState" && node.inputs.size() < expected.size();
  if (node.inputs.size() != expected.size() && !loads_left_out) {
    differs(plan, is + std::to_string(node.inputs.size()) + " inputs", std::to_string(expected.size()));
  }
  for (size_t i = 0; i < node.inputs.size(); i++) {
    if (!same_input(node.inputs[i], expected[i])) {
      differs(plan, is + "input " + std::to_string(i) + " from " + node.inputs[i],
              expected[i].empty() ? "a constant" : expected[i]);
    }
  }
}

void compare(const Plan &plan, const GraphText &graph) {
  const size_t count = graph.nodes.size() - 1;  // a plan does not list Return
  for (size_t i = 0; i < std::min(count, plan.nodes.size()); i++) {
    compare_node(plan, i, graph.nodes[i], plan.nodes[i]);
  }
  if (count != plan.nodes.size()) {
    differs(plan, "the graph has " + std::to_string(count) + " nodes", std::to_string(plan.nodes.size()));
  }
  const bool names_inputs =
    std::any_of(plan.nodes.begin(), plan.nodes.end(), [](const ExpectedNode &n) { return !n.inputs.empty(); });
  for (size_t i = 0; names_inputs && i < count; i++) {
    compare_inputs(plan, i, graph.nodes[i], plan.nodes[i].inputs);
  }
}

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
Names values_of(const GraphText &graph) {
  Names values;
  Names twice;
  for (const std::string &name : graph.parameters) {
    if (!values.insert("p:" + name).second) {
      twice.insert("p:" + name);
    }
  }
  for (const std::string &name : twice) {
    values.erase(name);
  }
  for (size_t i = 0; i + 1 < graph.nodes.size(); i++) {
    values.insert(node_name(i));
  }
  return values;
}

void check_new(const Edit &edit, const GraphText &graph, const Names &values, Inputs *inputs) {
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
  if (edit.primitive.rfind("clone n", 0) == 0) {
    const size_t source = number_in(edit.primitive, 7, edit.line);
    if (source + 1 >= graph.nodes.size() || graph.nodes[source].primitive.empty()) {
      bad_edit(edit, "clones n" + std::to_string(source) + ", which is no node with a primitive");
    }
    const std::vector<std::string> &kept = graph.nodes[source].inputs;
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

void check_set(const Edit &edit, const GraphText &graph, const Names &values, Inputs *inputs) {
  if (edit.node >= graph.nodes.size()) {
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

void check_plan(const Plan &plan, const GraphText &graph) {
  compare(plan, graph);
  Names values = values_of(graph);
  Inputs inputs;
  for (size_t i = 0; i < graph.nodes.size(); i++) {
    inputs[node_name(i)] = graph.nodes[i].inputs;
  }
  for (const Edit &edit : plan.edits) {
    if (edit.kind == Edit::Kind::kNewNode) {
      check_new(edit, graph, values, &inputs);
      values.insert(new_name(edit.node));
    } else {
      check_set(edit, graph, values, &inputs);
    }
  }
  const Names run = reached(plan, inputs, node_name(graph.nodes.size() - 1));
  for (size_t i = 0; i < plan.nodes.size(); i++) {
    if (run.count(node_name(i)) == 0 && !passive(plan.nodes[i].primitive)) {
      throw Refusal("the plan does not fit the graph: with its edits node " + std::to_string(i) + " (" +
                    plan.nodes[i].primitive + " in " + plan.nodes[i].scope + ") would not run any more");
    }
  }
  for (const Edit &edit : plan.edits) {
    if (edit.kind == Edit::Kind::kNewNode && run.count(new_name(edit.node)) == 0 && !passive(edit.primitive)) {
      bad_edit(edit, "makes " + edit.primitive + ", which nothing waits for: it would not run");
    }
  }
}

}  // namespace hyperoffload
