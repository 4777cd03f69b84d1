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

abstract::AbstractBasePtr as_tensor(const abstract::AbstractBasePtr &value) {
  const auto reference = std::dynamic_pointer_cast<abstract::AbstractRefTensor>(value);
  return reference == nullptr ? value->Clone() : reference->CloneAsTensor();
}

// A Depend passes a parameter on as the parameter it is; what another new node returns is a tensor of its own.
abstract::AbstractBasePtr result_like(const Edit &edit, const Values &values) {
  const std::string like = edit.result.substr(5);
  const auto result = values.at(like)->abstract();
  if (result == nullptr) {
    throw Refusal("the plan does not fit the graph: line " + std::to_string(edit.line) + " wants a result like " +
                  like + ", whose type MindSpore does not say");
  }
  const bool passes_on = edit.primitive == "Depend" || edit.primitive.rfind("clone ", 0) == 0;
  return passes_on ? result->Clone() : as_tensor(result);
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

CNodePtr make_call(const FuncGraphPtr &graph, const mindspore::AnfNodePtrList &inputs,
                   const abstract::AbstractBasePtr &result, const mindspore::ScopePtr &scope) {
  const auto call = graph->NewCNode(inputs);
  call->set_abstract(result);
  if (scope != nullptr) {
    call->set_scope(scope);
  }
  return call;
}

// The call that makes the tuple `node`, or null.
CNodePtr made_tuple(const AnfNodePtr &node) {
  const auto call = std::dynamic_pointer_cast<mindspore::CNode>(node);
  const auto primitive = call == nullptr ? nullptr : mindspore::GetValueNode<mindspore::PrimitivePtr>(call->input(0));
  return primitive != nullptr && primitive->name() == "MakeTuple" ? call : nullptr;
}

// What takes a tuple from a Depend does not wait, in MindSpore's runtime, for what the Depend waits for. It does where
// the tuple's tensors come from Depends.
CNodePtr held_tuple(const CNodePtr &tuple, const AnfNodePtr &other, const FuncGraphPtr &graph,
                    const mindspore::ScopePtr &scope) {
  mindspore::AnfNodePtrList inputs = {tuple->input(0)};
  for (size_t i = 1; i < tuple->size(); i++) {
    AnfNodePtr element = tuple->input(i);
    if (std::dynamic_pointer_cast<abstract::AbstractTensor>(element->abstract()) != nullptr) {
      element = make_call(graph, {constant(std::make_shared<mindspore::Primitive>("Depend")), element, other},
                          element->abstract()->Clone(), scope);
    }
    inputs.push_back(element);
  }
  return make_call(graph, inputs, tuple->abstract()->Clone(), scope);
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
  const auto scope = edit.scope.empty() ? nullptr : std::make_shared<mindspore::Scope>(edit.scope);
  if (edit.primitive == "Depend" && inputs.size() == 3) {
    if (const auto tuple = made_tuple(inputs[1])) {
      return held_tuple(tuple, inputs[2], graph, scope);
    }
  }
  return make_call(graph, inputs, result_of(edit, values), scope);
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

// The graph as the plan knows it: its nodes by name, and the copies MindSpore would put behind Loads only later.
class Editor {
 public:
  Editor(const Plan &plan, const Match &match, const FuncGraphPtr &graph, const std::vector<CNodePtr> &calls)
      : plan_(plan), match_(match), graph_(graph) {
    for (const auto &node : graph->parameters()) {
      if (const auto parameter = std::dynamic_pointer_cast<mindspore::Parameter>(node)) {
        values_["p:" + parameter->name()] = node;
      }
    }
    const Values own = values_;
    for (const auto &[name, in_graph] : match.arguments) {
      values_["p:" + name] = own.at("p:" + in_graph);
    }
    for (size_t i = 0; i < plan.nodes.size(); i++) {
      if (match.calls[i]) {
        nodes_[i] = calls[*match.calls[i]];
        add(name(i), nodes_[i]);
      }
    }
    nodes_[plan.nodes.size()] = calls.back();
    applied_.names[calls.back().get()] = name(plan.nodes.size());
    add_copies();
  }

  Applied apply(const Library &kernels) {
    const size_t own = changes_.size();
    for (const Edit &edit : plan_.edits) {
      if (edit.kind == Edit::Kind::kNewNode) {
        add("x" + std::to_string(edit.node), new_call(edit, kernels, graph_, values_));
        applied_.new_nodes++;
      } else if (nodes_.count(edit.node) != 0) {
        changes_.push_back({nodes_[edit.node], edit.input + 1, value_of(edit.refs[0], values_)});
      }
    }
    applied_.changed_inputs = changes_.size() - own;
    set_inputs(graph_, changes_);
    return applied_;
  }

 private:
  static std::string name(size_t node) { return "n" + std::to_string(node); }

  void add(const std::string &name, const CNodePtr &call) {
    values_[name] = call;
    applied_.names[call.get()] = name;
  }

  // A copy takes the parameter itself. Were there a Load between them, MindSpore would put another copy behind that
  // Load, which nothing of the plan holds back.
  void add_copies() {
    for (const auto &[node, load_node] : match_.copies) {
      const CNodePtr load = nodes_[load_node];
      AnfNodePtr source = load->input(1);
      if (std::dynamic_pointer_cast<mindspore::CNode>(load->input(2)) != nullptr) {
        const auto held =
            graph_->NewCNode({constant(std::make_shared<mindspore::Primitive>("Depend")), source, load->input(2)});
        held->set_abstract(source->abstract()->Clone());
        source = held;
      }
      const auto copy = graph_->NewCNode({constant(std::make_shared<mindspore::Primitive>("TensorMove")), source});
      copy->set_abstract(as_tensor(load->abstract()));
      copy->set_scope(load->scope());
      nodes_[node] = copy;
      add(name(node), copy);
      values_[name(load_node)] = load->input(1);
    }
    for (size_t user = 0; user < plan_.nodes.size(); user++) {
      for (size_t i = 0; i < match_.inputs[user].size() && match_.copies.count(user) == 0; i++) {
        const std::string &ref = match_.inputs[user][i];
        if (ref[0] == 'n' && match_.copies.count(std::stoul(ref.substr(1))) != 0) {
          changes_.push_back({nodes_[user], i + 1, values_[ref]});
        }
      }
    }
  }

  const Plan &plan_;
  const Match &match_;
  const FuncGraphPtr &graph_;
  Values values_;
  std::map<size_t, CNodePtr> nodes_;
  std::vector<Change> changes_;
  Applied applied_{0, 0, {}};
};

}  // namespace

Applied apply(const Plan &plan, const Match &match, const std::string &kernels, const FuncGraphPtr &graph,
              const std::vector<CNodePtr> &calls) {
  const Library library(kernels);
  return Editor(plan, match, graph, calls).apply(library);
}

}  // namespace hyperoffload
