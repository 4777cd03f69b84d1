// Reads a plan from standard input, then damaged copies of it, as the compiler pass does: each is read, matched with
// the graph the plan was made for, and checked. A damaged plan may be refused; anything else that is thrown ends
// with 1.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <random>
#include <string>

#include "pass_check.h"
#include "pass_match.h"
#include "pass_plan.h"

namespace {

using namespace hyperoffload;

// The graph before MindSpore has put copies (TensorMove) behind its Loads.
GraphText graph_of(const Plan &plan) {
  GraphText graph;
  for (const ExpectedNode &node : plan.nodes) {
    GraphNode copy{node.primitive, node.scope, node.result, node.inputs};
    for (std::string &ref : copy.inputs) {
      if (ref[0] == 'n' && plan.nodes[number_in(ref, 1, 0)].primitive == "TensorMove")
        ref = plan.nodes[number_in(ref, 1, 0)].inputs[0];
      if (ref.empty()) ref = "c";
    }
    for (const std::string &ref : copy.inputs)
      if (ref.rfind("p:", 0) == 0) graph.inputs.push_back(ref.substr(2));
    graph.nodes.push_back(copy);
  }
  graph.nodes.push_back({"Return", "", "", {"n" + std::to_string(plan.nodes.size() - 1)}});
  return graph;
}

void take(const std::string &text, const GraphText &graph) {
  const Plan plan = read_plan(text);
  check_edits(plan, match(plan, graph), graph);
}

std::string damaged(std::string text, std::mt19937 &random) {
  static const std::string signs = "\t\n nxpcUi0123456789-:[";
  for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
    const std::size_t at = random() % text.size();
    const std::size_t length = random() % 8;
    switch (random() % 4) {
      case 0:
        text[at] = signs[random() % signs.size()];
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), length));
        break;
      default:
        text.insert(at, 1, signs[random() % signs.size()]);
    }
    if (text.empty()) text = "\n";
  }
  return text;
}

}  // namespace

int main() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const GraphText graph = graph_of(read_plan(text));
  take(text, graph);
  std::mt19937 random(7);
  int refused = 0;
  for (int n = 0; n < 20'000; ++n) try {
      take(damaged(text, random), graph);
    } catch (const Refusal &) {
      ++refused;
    }
  std::printf("%d\n", refused);
  return refused > 10'000 ? 0 : 1;
}
