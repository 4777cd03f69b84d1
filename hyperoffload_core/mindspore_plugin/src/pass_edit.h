// A plan applied to MindSpore's graph.
#ifndef HYPEROFFLOAD_PASS_EDIT_H
#define HYPEROFFLOAD_PASS_EDIT_H

#include "pass_graph.h"
#include "pass_plan.h"

namespace hyperoffload {

struct Applied {
  size_t new_nodes;
  size_t changed_inputs;
  Names names;  // of all calls, as the plan names them
};

// Applies all edits of a plan that check_edits has found to fit. Nothing of the graph has changed where this throws.
// A new node whose primitive is a function of the library `kernels` becomes a call of that function.
Applied apply(const Plan &plan, const Match &match, const std::string &kernels, const mindspore::FuncGraphPtr &graph,
              const std::vector<mindspore::CNodePtr> &calls);

}  // namespace hyperoffload

#endif  // HYPEROFFLOAD_PASS_EDIT_H
