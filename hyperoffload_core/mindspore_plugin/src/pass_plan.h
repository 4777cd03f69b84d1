// A plan as the Python side writes it (edits.py): what a graph must be, and what is changed in it.
#ifndef HYPEROFFLOAD_PASS_PLAN_H
#define HYPEROFFLOAD_PASS_PLAN_H

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace hyperoffload {

// Why nothing is changed, as one sentence.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ExpectedNode {
  std::string primitive;
  std::string scope;
  std::string result;               // "" where it is not known
  std::vector<std::string> inputs;  // references; "" for a constant
};

struct Edit {
  enum class Kind { kNewNode, kSetInput };
  Kind kind;
  size_t line;   // of the text, from 1
  size_t node;   // the new node's number, or the node whose input is set
  size_t input;  // which input is set
  std::string primitive;
  std::string result;
  std::string scope;
  std::vector<std::string> refs;  // inputs of a new node, or the one that is set
};

struct Plan {
  std::string name;
  std::vector<ExpectedNode> nodes;
  std::vector<Edit> edits;
};

// Throws Refusal where the text is no plan of version 1, or is not whole.
Plan read_plan(const std::string &text);

// The number that starts at `from`; throws Refusal, which names the line, where there is none.
size_t number_in(const std::string &text, size_t from, size_t line);

}  // namespace hyperoffload

#endif  // HYPEROFFLOAD_PASS_PLAN_H
