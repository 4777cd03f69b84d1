#include "pass_edit.h"

#include <dlfcn.h>

#include <memory>

#include "mindspore/core/include/abstract/abstract_value.h"
#include "mindspore/core/include/ir/manager.h"
#include "mindspore/core/include/ir/primitive.h"
#include "mindspore/core/include/ir/scope.h"

namespace hyperoffload {

using mindspore::AnfNodePtr;
using mindspore::CNodePtr;
using mindspore::FuncGraphPtr;
namespace abstract = mindspore::abstract;

namespace {

using Values = std::unordered_map<std::string, AnfNodePtr>;

AnfNodePtr constant(const mindspore::ValuePtr &value) {
  const auto node = mindspore::NewValueNode(value);
  node->set_abstract(value->ToAbstract());
  return node;
}

AnfNodePtr value_of(const std::string &ref, const Values &values) {
  const auto found = values.find(ref);
  if (found != values.end()) {
    return found->second;
  }
  if (ref == "U") {
    return constant(mindspore::kUMonad);
  }
  if (ref[0] == 'b') {
    return constant(mindspore::MakeValue(ref == "b1"));
  }
  return constant(mindspore::MakeValue(static_cast<int64_t>(std::stoll(ref.substr(1)))));
}

// A Depend passes a parameter on as the parameter it is; what another new node returns is a tensor of its own.
abstract::AbstractBasePtr result_like(const Edit &edit, const Values &values) {
  const std::string like = edit.result.substr(5);
  const auto result = values.at(like)->abstract();
  if (result == nullptr) {
    throw Refusal("the plan does not fit the graph: line " + std::to_string(edit.line) + " wants a result like " +
                  like + ", whose type MindSpore does not say");
  }
  const auto reference = std::dynamic_pointer_cast<abstract::AbstractRefTensor>(result);
  const bool passes_on = edit.primitive == "Depend" || edit.primitive.rfind("clone ", 0) == 0;
  return reference == nullptr || passes_on ? result->Clone() : reference->CloneAsTensor();
}

abstract::AbstractBasePtr result_of(const Edit &edit, const Values &values) {
  if (edit.result == "token") {
    return std::make_shared<abstract::AbstractTensor>(mindspore::kInt64, mindspore::ShapeVector{1});
  }
  return edit.result == "U" ? mindspore::kUMonad->ToAbstract() : result_like(edit, values);
}

// The functions of a library, held open so that it stays the one that MindSpore calls.
class Library {
 public:
  explicit Library(const std::string &path)
      : path_(path), handle_(path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    if (!path.empty() && handle_ == nullptr) {
      throw Refusal("the kernels of the cache operators cannot be loaded: " + std::string(dlerror()));
    }
  }
  ~Library() {
    if (handle_ != nullptr) {
      dlclose(handle_);
    }
  }
  Library(const Library &) = delete;
  Library &operator=(const Library &) = delete;

  bool has(const std::string &function) const {
    return handle_ != nullptr && dlsym(handle_, function.c_str()) != nullptr;
  }
  const std::string &path() const { return path_; }

 private:
  const std::string path_;
  void *const handle_;
};

// MindSpore calls a function of a library through its primitive Custom. The other way, a library of operators in
// MS_OP_PLUGIN_PATH, makes MindSpore 2.10 pass views to its own kernels as if they were contiguous.
mindspore::PrimitivePtr new_primitive(const std::string &name, const Library &kernels) {
  if (!kernels.has(name)) {
    return std::make_shared<mindspore::Primitive>(name);
  }
  const auto primitive = std::make_shared<mindspore::Primitive>("Custom");
  const std::string function = kernels.path() + ":" + name;
  (void)primitive->AddAttr("func_type", mindspore::MakeValue(std::string("aot")));
  (void)primitive->AddAttr("func_name", mindspore::MakeValue(function));
  (void)primitive->AddAttr("uniq_name", mindspore::MakeValue("Custom_" + function));
  (void)primitive->AddAttr("imply_path", mindspore::MakeValue(std::string()));
  (void)primitive->AddAttr("multi_output", mindspore::MakeValue(false));
  (void)primitive->AddAttr("autodiff", mindspore::MakeValue(false));
  return primitive;
}

CNodePtr new_call(const Edit &edit, const Library &kernels, const FuncGraphPtr &graph, const Values &values) {
  mindspore::PrimitivePtr primitive;
  CNodePtr source;
  if (edit.primitive.rfind("clone ", 0) == 0) {
    source = values.at(edit.primitive.substr(6))->cast<CNodePtr>();
    primitive = mindspore::GetValueNode<mindspore::PrimitivePtr>(source->input(0));
  } else {
    primitive = new_primitive(edit.primitive, kernels);
  }
  mindspore::AnfNodePtrList inputs = {constant(primitive)};
  for (size_t i = 0; i < edit.refs.size(); i++) {
    inputs.push_back(edit.refs[i].empty() ? source->input(i + 1) : value_of(edit.refs[i], values));
  }
  const auto result = result_of(edit, values);
  const auto call = graph->NewCNode(inputs);
  call->set_abstract(result);
  if (!edit.scope.empty()) {
    call->set_scope(std::make_shared<mindspore::Scope>(edit.scope));
  }
  return call;
}

Values values_of(const FuncGraphPtr &graph, const std::vector<CNodePtr> &calls) {
  Values values;
  for (const auto &node : graph->parameters()) {
    if (const auto parameter = std::dynamic_pointer_cast<mindspore::Parameter>(node)) {
      values["p:" + parameter->name()] = node;
    }
  }
  for (size_t i = 0; i < calls.size(); i++) {
    values["n" + std::to_string(i)] = calls[i];
  }
  return values;
}

struct Change {
  CNodePtr call;
  size_t input;
  AnfNodePtr value;
};

void set_inputs(const FuncGraphPtr &graph, const std::vector<Change> &changes) {
  const auto manager = graph->manager();
  if (manager == nullptr) {
    for (const auto &change : changes) {
      change.call->set_input(change.input, change.value);
    }
    return;
  }
  auto transaction = manager->Transact();
  for (const auto &change : changes) {
    transaction.SetEdge(change.call, static_cast<int>(change.input), change.value);
  }
  transaction.Commit();
}

}  // namespace

Applied apply(const Plan &plan, const std::string &kernels, const FuncGraphPtr &graph,
              const std::vector<CNodePtr> &calls) {
  const Library library(kernels);
  Values values = values_of(graph, calls);
  std::vector<Change> changes;
  Applied applied{0, 0, {}};
  for (size_t i = 0; i < calls.size(); i++) {
    applied.names[calls[i].get()] = "n" + std::to_string(i);
  }
  for (const Edit &edit : plan.edits) {
    if (edit.kind == Edit::Kind::kNewNode) {
      const std::string name = "x" + std::to_string(edit.node);
      const auto call = new_call(edit, library, graph, values);
      values[name] = call;
      applied.names[call.get()] = name;
      applied.new_nodes++;
    } else {
      changes.push_back({calls[edit.node], edit.input + 1, value_of(edit.refs[0], values)});
    }
  }
  applied.changed_inputs = changes.size();
  set_inputs(graph, changes);
  return applied;
}

}  // namespace hyperoffload
