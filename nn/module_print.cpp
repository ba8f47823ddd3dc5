// Printing a module: the tree of what each module describes, as PyTorch prints it.
#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <ostream>
#include <typeinfo>

#include <tandem/nn/module.h>

namespace tandem::nn {

namespace {

/// "tandem::nn::Pair<tandem::nn::ReLU>" -> "Pair<tandem::nn::ReLU>"
std::string without_namespaces(const std::string& type) {
  std::size_t start = 0;
  int depth = 0;  // inside <> or "(anonymous namespace)"
  for (std::size_t i = 0; i < type.size(); ++i) {
    const char c = type[i];
    if (c == '<' || c == '(') ++depth;
    if (c == '>' || c == ')') --depth;
    if (depth == 0 && c == ':') start = i + 1;
  }
  return type.substr(start);
}

struct Item {
  std::string name;         // below its parent: "fc1", "layers.0"
  std::string description;  // "ReLU", "Flatten(start_dim=1, end_dim=-1)"
  std::vector<Item> children{};
};

/// Builds the tree of modules. `Item`s of the path from the root are addressed by index, since
/// vectors move while they grow.
struct TreeBuilder final : Visitor {
  Item root;
  std::vector<std::size_t> open;  // child indices from the root to where we are
  std::vector<std::string> paths;

  Item& here() {
    Item* item = &root;
    for (const std::size_t i : open) item = &item->children[i];
    return *item;
  }
  void on_enter(Module& m) override {
    const std::string full = path();
    const std::string& above = paths.empty() ? full : paths.back();
    const std::string name = paths.empty() || above.empty()
                                 ? full
                                 : full.substr(std::min(full.size(), above.size() + 1));
    here().children.push_back({name, m.describe()});
    open.push_back(here().children.size() - 1);
    paths.push_back(full);
  }
  void on_leave(Module&) override {
    open.pop_back();
    paths.pop_back();
  }
};

/// Name(settings), or a block with the settings and the children on lines of their own.
void print(std::ostream& out, const Item& item, const std::string& indent) {
  const std::size_t paren = item.description.find('(');
  const bool has_settings = paren != std::string::npos && item.description.back() == ')';
  const std::string type = has_settings ? item.description.substr(0, paren) : item.description;
  const std::string settings =
      has_settings ? item.description.substr(paren + 1, item.description.size() - paren - 2) : "";
  out << type << '(';
  if (item.children.empty()) {
    out << settings << ')';
    return;
  }
  out << '\n';
  if (!settings.empty()) out << indent << "  " << settings << '\n';
  for (const Item& child : item.children) {
    out << indent << "  (" << child.name << "): ";
    print(out, child, indent + "  ");
    out << '\n';
  }
  out << indent << ')';
}

}  // namespace

std::string Module::describe() const {
  const char* mangled = typeid(*this).name();
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  return without_namespaces(status == 0 ? text.get() : mangled);
}

std::ostream& operator<<(std::ostream& out, const Module& m) {
  TreeBuilder tree;
  tree.walk(const_cast<Module&>(m));  // visit() serves readers and writers alike; this one reads
  print(out, tree.root.children.at(0), "");
  return out;
}

}  // namespace tandem::nn
