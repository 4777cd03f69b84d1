// MindSpore's graph as plain text.
#ifndef HYPEROFFLOAD_PASS_GRAPH_H
#define HYPEROFFLOAD_PASS_GRAPH_H

#include <string>
#include <unordered_map>
#include <vector>

#include "mindspore/core/include/ir/anf.h"
#include "mindspore/core/include/ir/func_graph.h"
#include "pass_match.h"

namespace hyperoffload {

// The calls of a graph in the order in which MindIR lists them; the last one is Return.
std::vector<mindspore::CNodePtr> calls_of(const mindspore::FuncGraphPtr &graph);

GraphText describe(const mindspore::FuncGraphPtr &graph, const std::vector<mindspore::CNodePtr> &calls);

// One line for each call, in topological order: its name, primitive, inputs, result and scope. `names` gives the calls
// that have one; the others are x-something.
using Names = std::unordered_map<const mindspore::AnfNode *, std::string>;
std::string listing(const mindspore::FuncGraphPtr &graph, const Names &names);

}  // namespace hyperoffload

#endif  // HYPEROFFLOAD_PASS_GRAPH_H
