// Whether a plan's edits can be made, and leave a graph that runs everything. Nothing of MindSpore is needed here.
#ifndef HYPEROFFLOAD_PASS_CHECK_H
#define HYPEROFFLOAD_PASS_CHECK_H

#include <string>
#include <vector>

#include "pass_match.h"
#include "pass_plan.h"

namespace hyperoffload {

// Throws Refusal with the first edit that could not be made, would close a circle, or would leave an op of the graph or
// a new node out of what is run.
void check_edits(const Plan &plan, const Match &match, const GraphText &graph);

}  // namespace hyperoffload

#endif  // HYPEROFFLOAD_PASS_CHECK_H
