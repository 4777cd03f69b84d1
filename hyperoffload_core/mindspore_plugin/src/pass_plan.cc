#include "pass_plan.h"

#include <algorithm>

namespace hyperoffload {
namespace {

constexpr size_t kNodeFields = 4;
constexpr size_t kNewFields = 5;
constexpr size_t kSetFields = 4;
constexpr size_t kLongestNumber = 9;  // digits: no graph has more nodes

std::vector<std::string> split(const std::string &text, char by) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t end = text.find(by); end != std::string::npos; end = text.find(by, start)) {
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  parts.push_back(text.substr(start));
  return parts;
}

[[noreturn]] void broken(size_t line, const std::string &what) {
  throw Refusal("the plan cannot be read: line " + std::to_string(line) + " " + what);
}

void expect_fields(const std::vector<std::string> &fields, size_t least, size_t line) {
  if (fields.size() < least) {
    broken(line, "(" + fields[0] + ") has " + std::to_string(fields.size()) + " fields, not " + std::to_string(least));
  }
}

Edit new_node(const std::vector<std::string> &fields, size_t line) {
  expect_fields(fields, kNewFields, line);
  const std::vector<std::string> refs(fields.begin() + kNewFields, fields.end());
  return {Edit::Kind::kNewNode, line, number_in(fields[1], 0, line), 0, fields[2], fields[3], fields[4], refs};
}

Edit set_input(const std::vector<std::string> &fields, size_t line) {
  expect_fields(fields, kSetFields, line);
  const size_t node = number_in(fields[1], 0, line);
  return {Edit::Kind::kSetInput, line, node, number_in(fields[2], 0, line), "", "", "", {fields[3]}};
}

}  // namespace

size_t number_in(const std::string &text, size_t from, size_t line) {
  const bool digits = from < text.size() && std::all_of(
                                                text.begin() + static_cast<std::ptrdiff_t>(from), text.end(),
                                                [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || text.size() - from > kLongestNumber) {
    broken(line, "has \"" + text + "\" where a number belongs");
  }
  return std::stoul(text.substr(from));
}

Plan read_plan(const std::string &text) {
  std::vector<std::string> lines = split(text, '\n');
  if (lines[0] != "hyperoffload.plan\t1") {
    broken(1, "is not \"hyperoffload.plan<tab>1\"");
  }
  if (lines.back().empty()) {
    lines.pop_back();
  }
  if (lines.back() != "end") {
    broken(lines.size(), "is the last one and is not \"end\"");
  }
  Plan plan;
  size_t count = 0;
  for (size_t i = 1; i + 1 < lines.size(); i++) {
    const size_t line = i + 1;
    const std::vector<std::string> fields = split(lines[i], '\t');
    if (fields[0] == "graph" && i == 1) {
      expect_fields(fields, 3, line);
      plan.name = fields[1];
      count = number_in(fields[2], 0, line);
    } else if (fields[0] == "node") {
      expect_fields(fields, kNodeFields, line);
      plan.nodes.push_back({fields[1], fields[2], fields[3], {fields.begin() + kNodeFields, fields.end()}});
    } else if (fields[0] == "new") {
      plan.edits.push_back(new_node(fields, line));
    } else if (fields[0] == "set") {
      plan.edits.push_back(set_input(fields, line));
    } else {
      broken(line, "starts with \"" + fields[0] + "\"");
    }
  }
  if (count == 0 || plan.nodes.size() != count) {
    throw Refusal("the plan cannot be read: it says " + std::to_string(count) + " nodes and lists " +
                  std::to_string(plan.nodes.size()));
  }
  return plan;
}

}  // namespace hyperoffload
