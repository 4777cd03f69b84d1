// Which call of MindSpore's graph each node of a plan is. Nothing of MindSpore is needed here.
#ifndef HYPEROFFLOAD_PASS_MATCH_H
#define HYPEROFFLOAD_PASS_MATCH_H

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pass_plan.h"

namespace hyperoffload {

struct GraphNode {
  std::string primitive;            // "" where the call is not of a primitive
  std::string scope;                // without the "-opN" at its end
  std::string result;               // "float32[2,3]", "(float32[2],int64[])"; "" where it is no tensor
  std::vector<std::string> inputs;  // n12, p:NAME; constants: i42, b1, U, "c" for others
};

struct GraphText {
  std::vector<GraphNode> nodes;      // in topological order; the last one is Return
  std::vector<std::string> weights;  // parameters that have a value of their own
  std::vector<std::string> inputs;   // parameters whose value the caller gives
};

// A plan's nodes are those of an exported graph. MindSpore exports a graph after it has put copies (TensorMove) behind
// the Loads of parameters that are read at several states, and has told UpdateStates which readers to wait for; a graph
// that is to be run reaches the pass before that.
struct Match {
  std::vector<std::optional<size_t>> calls;      // for each node of the plan its call; none for a copy not there yet
  std::map<size_t, size_t> copies;               // nodes that are such copies, and the Load each stands behind
  std::map<std::string, std::string> arguments;  // inputs of the graph by the plan's names: two compiles may differ
  std::vector<std::vector<std::string>> inputs;  // of each node of the plan, as they are in the graph
};

// Throws Refusal with the first difference between the graph and what the plan was made for.
Match match(const Plan &plan, const GraphText &graph);

}  // namespace hyperoffload

#endif  // HYPEROFFLOAD_PASS_MATCH_H
