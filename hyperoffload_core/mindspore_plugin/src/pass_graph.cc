#include "pass_graph.h"

#include <algorithm>

#include "mindspore/core/include/abstract/abstract_value.h"
#include "mindspore/core/include/abstract/dshape.h"
#include "mindspore/core/include/ir/dtype.h"
#include "mindspore/core/include/ir/graph_utils.h"
#include "mindspore/core/include/ir/primitive.h"
#include "mindspore/core/include/ir/scalar.h"

namespace hyperoffload {

using mindspore::AnfNodePtr;
using mindspore::CNodePtr;
using mindspore::FuncGraphPtr;
namespace abstract = mindspore::abstract;

namespace {

std::string primitive_of(const CNodePtr &call) {
  const auto primitive = mindspore::GetValueNode<mindspore::PrimitivePtr>(call->input(0));
  return primitive == nullptr ? "" : primitive->name();
}

// As primitive_of; of a function that is called through the primitive Custom its name: "library.so:HyperStore".
std::string shown_primitive(const CNodePtr &call) {
  const std::string name = primitive_of(call);
  if (name != "Custom") {
    return name;
  }
  const auto attribute = mindspore::GetValueNode<mindspore::PrimitivePtr>(call->input(0))->GetAttr("func_name");
  if (attribute == nullptr || !attribute->isa<mindspore::StringImm>()) {
    return name;
  }
  const std::string function = mindspore::GetValue<std::string>(attribute);
  return function.substr(function.rfind(':') + 1);
}

// MindSpore ends a call's name with "-opN", and counts N anew with each compile.
std::string scope_of(const CNodePtr &call) {
  const std::string name = call->fullname_with_scope();
  const size_t at = name.rfind("-op");
  const bool numbered = at != std::string::npos && at + 3 < name.size() &&
                        std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at) + 3, name.end(),
                                    [](char c) { return c >= '0' && c <= '9'; });
  return numbered ? name.substr(0, at) : name;
}

std::string joined(const std::vector<std::string> &parts) {
  std::string all;
  for (size_t i = 0; i < parts.size(); i++) {
    all += (i == 0 ? "" : ",") + parts[i];
  }
  return all;
}

std::string tensor_type(const abstract::AbstractTensorPtr &tensor) {
  const auto shape = std::dynamic_pointer_cast<abstract::Shape>(tensor->GetShape());
  const auto type = tensor->element() == nullptr ? nullptr : tensor->element()->BuildType();
  if (shape == nullptr || type == nullptr) {
    return "";
  }
  std::vector<std::string> sizes;
  for (const int64_t size : shape->shape()) {
    sizes.push_back(std::to_string(size));
  }
  return mindspore::TypeIdToString(type->type_id(), true) + "[" + joined(sizes) + "]";
}

std::string result_type(const abstract::AbstractBasePtr &result) {
  if (result == nullptr) {
    return "";
  }
  if (const auto tensor = std::dynamic_pointer_cast<abstract::AbstractTensor>(result)) {
    return tensor_type(tensor);
  }
  if (const auto tuple = std::dynamic_pointer_cast<abstract::AbstractTuple>(result)) {
    std::vector<std::string> parts;
    for (const auto &element : tuple->elements()) {
      parts.push_back(result_type(element));
      if (parts.back().empty()) {
        return "";
      }
    }
    return "(" + joined(parts) + ")";
  }
  return "";
}

std::string constant_ref(const AnfNodePtr &node) {
  const auto value = mindspore::GetValueNode(node);
  if (value == nullptr) {
    return "c";
  }
  if (value->isa<mindspore::Int64Imm>()) {
    return "i" + std::to_string(mindspore::GetValue<int64_t>(value));
  }
  if (value->isa<mindspore::BoolImm>()) {
    return mindspore::GetValue<bool>(value) ? "b1" : "b0";
  }
  return value->isa<mindspore::UMonad>() ? "U" : "c";
}

std::string ref_of(const AnfNodePtr &node, const Names &names) {
  const auto named = names.find(node.get());
  if (named != names.end()) {
    return named->second;
  }
  if (const auto parameter = std::dynamic_pointer_cast<mindspore::Parameter>(node)) {
    return "p:" + parameter->name();
  }
  return std::dynamic_pointer_cast<mindspore::CNode>(node) == nullptr ? constant_ref(node) : "?";
}

std::vector<std::string> refs_of(const CNodePtr &call, const Names &names) {
  std::vector<std::string> refs;
  for (size_t i = 1; i < call->size(); i++) {
    refs.push_back(ref_of(call->input(i), names));
  }
  return refs;
}

}  // namespace

std::vector<CNodePtr> calls_of(const FuncGraphPtr &graph) {
  std::vector<CNodePtr> calls;
  for (const auto &node : mindspore::TopoSort(graph->get_return())) {
    if (const auto call = std::dynamic_pointer_cast<mindspore::CNode>(node)) {
      calls.push_back(call);
    }
  }
  return calls;
}

GraphText describe(const FuncGraphPtr &graph, const std::vector<CNodePtr> &calls) {
  GraphText text;
  Names names;
  for (const auto &node : graph->parameters()) {
    if (const auto parameter = std::dynamic_pointer_cast<mindspore::Parameter>(node)) {
      (parameter->has_default() ? text.weights : text.inputs).push_back(parameter->name());
    }
  }
  for (const auto &call : calls) {
    text.nodes.push_back({primitive_of(call), scope_of(call), result_type(call->abstract()), refs_of(call, names)});
    names[call.get()] = "n" + std::to_string(names.size());
  }
  return text;
}

std::string listing(const FuncGraphPtr &graph, const Names &names) {
  std::string text;
  for (const auto &call : calls_of(graph)) {
    const std::string result = result_type(call->abstract());
    text += ref_of(call, names) + " = " + shown_primitive(call) + "(" + joined(refs_of(call, names)) + ") " +
            (result.empty() ? "" : result + " ") + scope_of(call) + "\n";
  }
  return text;
}

}  // namespace hyperoffload
