// Printing: the tree of modules reads as PyTorch's.
#include <doctest/doctest.h>

#include <sstream>

#include <tandem/nn/module.h>

#include "tests/nn/nets.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::string printed(const nn::Module& m) {
  std::ostringstream out;
  out << m;
  return out.str();
}

template <class T>
struct Pair : nn::Module {
  T a, b;
  void visit(nn::Visitor& v) override {
    v("a", a);
    v("b", b);
  }
};

/// Settings and children at once.
struct Wide : nn::Module {
  std::vector<nn::Dropout> drops{nn::Dropout(0.25), nn::Dropout(0)};
  void visit(nn::Visitor& v) override { v("drops", drops); }
  std::string describe() const override { return "Wide(width=3)"; }
};

}  // namespace

TEST_CASE("print: a layer prints on one line") {
  CHECK(printed(nn::Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)");
  CHECK(printed(nn::Linear(2, 3, {.bias = false})) ==
        "Linear(in_features=2, out_features=3, bias=False)");
  CHECK(printed(nn::ReLU()) == "ReLU()");
  CHECK(printed(nn::GELU()) == "GELU()");
  CHECK(printed(nn::Tanh()) == "Tanh()");
  CHECK(printed(nn::Sigmoid()) == "Sigmoid()");
  CHECK(printed(nn::Flatten()) == "Flatten(start_dim=1, end_dim=-1)");
  CHECK(printed(nn::Dropout(0.3)) == "Dropout(p=0.3)");
  CHECK(printed(nn::Sequential()) == "Sequential()");
}

TEST_CASE("print: children stand below their parent, each with its name") {
  const nn::Sequential net{nn::Linear(2, 3), nn::ReLU(),
                           nn::Sequential{nn::Linear(3, 1, {.bias = false})}};
  CHECK(printed(net) ==
        "Sequential(\n"
        "  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): ReLU()\n"
        "  (2): Sequential(\n"
        "    (0): Linear(in_features=3, out_features=1, bias=False)\n"
        "  )\n"
        ")");
}

TEST_CASE("print: a user's module is called by its type, without namespaces") {
  CHECK(printed(Net()) ==
        "Net(\n"
        "  (fc1): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (fc2): Linear(in_features=4, out_features=2, bias=True)\n"
        ")");
  CHECK(printed(Pair<nn::ReLU>()).starts_with("Pair<tandem::nn::ReLU>(\n  (a): ReLU()\n"));
}

TEST_CASE("print: settings of a module with children stand on a line of their own") {
  CHECK(printed(Wide()) ==
        "Wide(\n"
        "  width=3\n"
        "  (drops.0): Dropout(p=0.25)\n"
        "  (drops.1): Dropout(p=0)\n"
        ")");
}
