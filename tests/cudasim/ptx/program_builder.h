// Builds the Program of one kernel: gives every name a slot and every instruction its function.
// The parser knows the grammar, this class knows the meaning.
#pragma once

#include "ptx/opcode.h"
#include "ptx/program.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cudasim::ptx {

// A variable in shared memory. An extern one begins where the static ones end.
struct SharedVariable {
  std::size_t size = 0, align = 1;
  bool is_extern = false;
};

// One operand as written: "%r1", "-1", "{%f1, %f2}", "[%rd1+8]", "!%p1", "%r1|%p1", "$L__BB0_2".
struct Operand {
  std::vector<std::string> names;  // several in a vector
  bool is_vector = false, is_address = false, is_negated = false;
  std::string second;  // after "|"
  std::int64_t offset = 0;
};

struct Statement {
  std::string opcode;
  std::string guard;  // "" if there is none
  bool guard_value = true;
  std::vector<Operand> operands;
  bool understood = true;  // false: the parser met a form of operand it does not know
  Source source;
};

class ProgramBuilder {
 public:
  using SharedVariables = std::map<std::string, SharedVariable, std::less<>>;

  // `module_variables` are those declared outside of kernels; they must outlive the builder.
  ProgramBuilder(std::string name, const SharedVariables& module_variables);

  void add_parameter(const std::string& name, std::size_t size, std::size_t align);
  void add_shared(const std::string& name, const SharedVariable& variable);
  void add_register(const std::string& name);  // in the innermost scope
  void open_scope() { scopes_.emplace_back(); }
  void close_scope() { scopes_.pop_back(); }
  void add_label(const std::string& name);
  void add_branch_table(const std::string& name, std::vector<std::string> labels);
  void add(const Statement& statement);

  Program finish();  // throws ParseError for labels that do not exist

 private:
  Slot new_register();
  Slot new_constant(std::uint64_t value);
  Slot constant(std::uint64_t value);
  std::optional<Slot> slot_of(const std::string& name);
  std::optional<Slot> special_slot(std::string_view name);
  std::optional<Slot> shared_slot(const std::string& name);

  void add_comparison(const Statement& statement, const Opcode& op);
  bool fill(Instruction& i, const Statement& statement, const Opcode& op);
  bool fill_operands(Instruction& i, const Statement& statement, const Opcode& op, int* count);
  bool fill_branch(Instruction& i, const Statement& statement, const Opcode& op);
  void emit(Instruction i, const Statement& statement);
  void place_constants();

  struct PendingBranch {
    std::size_t instruction;
    std::string label;
  };

  Program program_;
  const SharedVariables& module_variables_;
  std::vector<std::map<std::string, Slot, std::less<>>> scopes_;
  std::map<std::string, Slot, std::less<>> symbols_;  // parameters, shared variables, specials
  std::map<std::uint64_t, Slot> constants_;
  std::vector<std::uint64_t> constant_values_;
  std::vector<Slot> extern_shared_;  // slots to fill once the static size is known
  std::map<std::string, std::uint32_t, std::less<>> labels_;
  std::vector<PendingBranch> branches_;
  std::map<std::string, std::uint32_t, std::less<>> table_names_;
  std::vector<std::vector<std::string>> table_labels_;
};

}  // namespace cudasim::ptx
