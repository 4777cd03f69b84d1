// A graph as plain text, and whether a plan fits it. Nothing of MindSpore is needed here.
#ifndef HYPEROFFLOAD_PASS_CHECK_H
#define HYPEROFFLOAD_PASS_CHECK_H

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
  std::vector<GraphNode> nodes;  // in topological order; the last one is Return
  std::vector<std::string> parameters;
};

// Throws Refusal with the first difference between the graph and what the plan was made for, or the first edit that
// could not be applied, would close a circle, or would leave an op of the graph or a new node out of what is run.
void check_plan(const Plan &plan, const GraphText &graph);

}  // namespace hyperoffload

#endif  // HYPEROFFLOAD_PASS_CHECK_H
