#include "ptx/program_builder.h"

#include "ptx/block.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace cudasim::ptx {
namespace {

constexpr std::size_t kDynamicSharedAlign = 16;

std::size_t align_up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

Next unsupported(Block& block, Thread& thread, const Instruction& i) {
  block.object(Check::Unsupported, thread, i, "unsupported instruction");
  return nullptr;
}

Next guarded(Block& block, Thread& thread, const Instruction& i) {
  const bool guard = thread.registers[i.guard] & 1;
  return guard == i.guard_value ? i.if_guarded(block, thread, i) : next(i);
}

// Slots of what no instruction writes, until finish() puts them behind the registers.
constexpr std::size_t kFirstConstant = 0x8000;

// "42", "-1", "0x3C00U", "0f3F800000" (the bits of a float)
std::optional<std::uint64_t> number(const std::string& text) {
  const std::size_t digits = text.starts_with('-') ? 1 : 0;
  if (digits >= text.size() || !std::isdigit(static_cast<unsigned char>(text[digits]))) return {};
  const bool is_float =
      text.size() > 2 && text[0] == '0' && std::string("fFdD").find(text[1]) != std::string::npos;
  const char* begin = text.c_str() + (is_float ? 2 : digits);
  char* end = nullptr;
  std::uint64_t value = std::strtoull(begin, &end, is_float ? 16 : 0);
  if (*end == 'U') ++end;
  if (*end != '\0') return {};
  return digits ? -value : value;
}

Operand plain(std::string name) {
  Operand operand;
  operand.names.push_back(std::move(name));
  return operand;
}

const std::map<std::string_view, Special> kSpecials = {
    {"%tid.x", Special::TidX},
    {"%tid.y", Special::TidY},
    {"%tid.z", Special::TidZ},
    {"%ntid.x", Special::NtidX},
    {"%ntid.y", Special::NtidY},
    {"%ntid.z", Special::NtidZ},
    {"%ctaid.x", Special::CtaidX},
    {"%ctaid.y", Special::CtaidY},
    {"%ctaid.z", Special::CtaidZ},
    {"%nctaid.x", Special::NctaidX},
    {"%nctaid.y", Special::NctaidY},
    {"%nctaid.z", Special::NctaidZ},
    {"%laneid", Special::Laneid},
    {"%warpid", Special::Warpid},
    {"%lanemask_eq", Special::LanemaskEq},
    {"%lanemask_lt", Special::LanemaskLt},
    {"%lanemask_le", Special::LanemaskLe},
    {"%lanemask_gt", Special::LanemaskGt},
    {"%lanemask_ge", Special::LanemaskGe},
};

}  // namespace

ProgramBuilder::ProgramBuilder(std::string name, const SharedVariables& module_variables)
    : module_variables_(module_variables), scopes_(1) {
  program_.name = std::move(name);
  new_register();  // kSink
}

// ---- names and their slots

Slot ProgramBuilder::new_register() {
  if (program_.registers == kFirstConstant)
    throw ParseError(program_.name + ": too many registers");
  return static_cast<Slot>(program_.registers++);
}

Slot ProgramBuilder::new_constant(std::uint64_t value) {
  const std::size_t slot = kFirstConstant + constant_values_.size();
  if (slot > 0xffff) throw ParseError(program_.name + ": too many constants");
  constant_values_.push_back(value);
  return static_cast<Slot>(slot);
}

Slot ProgramBuilder::constant(std::uint64_t value) {
  const auto [entry, added] = constants_.try_emplace(value, Slot{0});
  if (added) entry->second = new_constant(value);
  return entry->second;
}

void ProgramBuilder::add_parameter(const std::string& name, std::size_t size, std::size_t align) {
  const std::size_t offset = align_up(program_.parameter_bytes, align);
  program_.parameters.push_back({name, offset, size});
  program_.parameter_bytes = offset + size;
  symbols_[name] = constant(offset);
}

void ProgramBuilder::add_shared(const std::string& name, const SharedVariable& variable) {
  if (variable.is_extern) {
    extern_shared_.push_back(symbols_[name] = new_constant(0));
    return;
  }
  const std::size_t offset = align_up(program_.static_shared, variable.align);
  program_.static_shared = offset + variable.size;
  symbols_[name] = constant(offset);
}

void ProgramBuilder::add_register(const std::string& name) {
  scopes_.back()[name] = new_register();
}

std::optional<Slot> ProgramBuilder::special_slot(std::string_view name) {
  const auto special = kSpecials.find(name);
  if (special == kSpecials.end()) return {};
  const Slot slot = new_constant(0);
  program_.specials.emplace_back(slot, special->second);
  return symbols_[std::string(name)] = slot;
}

std::optional<Slot> ProgramBuilder::shared_slot(const std::string& name) {
  const auto variable = module_variables_.find(name);
  if (variable == module_variables_.end()) return {};
  add_shared(name, variable->second);
  return symbols_.at(name);
}

std::optional<Slot> ProgramBuilder::slot_of(const std::string& name) {
  if (name == "_") return kSink;
  if (name == "WARP_SZ") return constant(kWarpSize);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->find(name); found != scope->end()) return found->second;
  }
  if (const auto found = symbols_.find(name); found != symbols_.end()) return found->second;
  if (const auto value = number(name)) return constant(*value);
  if (const auto slot = special_slot(name)) return slot;
  return shared_slot(name);
}

// ---- instructions

void ProgramBuilder::add_label(const std::string& name) {
  labels_[name] = static_cast<std::uint32_t>(program_.code.size());
}

void ProgramBuilder::add_branch_table(const std::string& name, std::vector<std::string> labels) {
  table_names_[name] = static_cast<std::uint32_t>(table_labels_.size());
  table_labels_.push_back(std::move(labels));
}

void ProgramBuilder::emit(Instruction i, const Statement& statement) {
  if (!statement.guard.empty()) {
    const auto guard = slot_of(statement.guard);
    i.if_guarded = i.execute;
    i.execute = guard ? &guarded : &unsupported;
    i.guard = guard.value_or(kSink);
    i.guard_value = statement.guard_value;
  }
  i.index = static_cast<std::uint32_t>(program_.code.size());
  program_.code.push_back(i);
  program_.sources.push_back(statement.source);
}

void ProgramBuilder::add(const Statement& statement) {
  const Opcode op(statement.opcode);
  Statement simple = statement;
  for (Operand& operand : simple.operands) {  // "!%p1" becomes a predicate of its own
    if (!operand.is_negated || operand.names.size() != 1) continue;
    const std::string inverse = std::string("!").append(operand.names[0]);
    if (!slot_of(inverse)) symbols_[inverse] = new_register();
    add({"not.pred",
         statement.guard,
         statement.guard_value,
         {plain(inverse), plain(operand.names[0])},
         true,
         statement.source});
    operand = plain(inverse);
  }
  if (op.name == "setp") return add_comparison(simple, op);
  Instruction i;
  if (!simple.understood || !fill(i, simple, op)) {
    i = {};
    i.execute = &unsupported;
  }
  emit(i, simple);
}

// setp.lt.and.s32 p|q, a, b, c:  p = (a < b) and c,  q = !(a < b) and c.  Up to five instructions.
void ProgramBuilder::add_comparison(const Statement& statement, const Opcode& op) {
  std::string compare = "setp", combine;
  for (std::string_view m : op.modifiers) {
    if (m == "and" || m == "or" || m == "xor")
      combine = std::string(m) + ".pred";
    else
      compare.append(".").append(m);
  }
  auto one = [&](const std::string& opcode, std::vector<Operand> operands) {
    Instruction i;
    const Statement simple{opcode, statement.guard, statement.guard_value, std::move(operands),
                           true,   statement.source};
    if (!fill(i, simple, Opcode(opcode))) i.execute = &unsupported;
    emit(i, simple);
  };
  const std::size_t expected = combine.empty() ? 3 : 4;
  if (!statement.understood || statement.operands.size() != expected) {
    return one("malformed", {});
  }
  const Operand &d = statement.operands[0], &a = statement.operands[1], &b = statement.operands[2];
  if (combine.empty() && d.second.empty()) return one(compare, {d, a, b});
  const Operand result = plain(d.names[0]), yes = plain("setp.yes"), no = plain("setp.no");
  for (const char* name : {"setp.yes", "setp.no"}) {
    if (!symbols_.contains(name)) symbols_[name] = new_register();
  }
  one(compare, {yes, a, b});
  if (!d.second.empty()) one("not.pred", {no, yes});
  if (combine.empty()) combine = "or.pred";
  const Operand other = statement.operands.size() == 4 ? statement.operands[3] : plain("0");
  one(combine, {result, yes, other});
  if (!d.second.empty()) one(combine, {plain(d.second), no, other});
}

// Puts the operands' slots into the instruction, in the order of the text.
bool ProgramBuilder::fill_operands(Instruction& i, const Statement& statement, const Opcode& op,
                                   int* count) {
  std::vector<std::string> names;
  if (op.name == "red") names.push_back("_");
  for (const Operand& operand : statement.operands) {
    names.insert(names.end(), operand.names.begin(), operand.names.end());
    if (operand.is_address) i.offset = operand.offset;
    if (op.name == "shfl" && names.size() == 1) {
      names.push_back(operand.second.empty() ? "_" : operand.second);
    }
  }
  if (names.size() > kMaxOperands) return false;
  for (std::size_t k = 0; k < names.size(); ++k) {
    const auto slot = slot_of(names[k]);
    if (!slot) return false;
    i.operand[k] = *slot;
  }
  *count = static_cast<int>(names.size());
  return true;
}

bool ProgramBuilder::fill_branch(Instruction& i, const Statement& statement, const Opcode& op) {
  i.execute = find_control(op).execute;
  if (op.name == "bra" && statement.operands.size() == 1) {
    branches_.push_back({program_.code.size(), statement.operands[0].names.at(0)});
    return i.execute != nullptr;
  }
  if (op.name == "brx" && statement.operands.size() == 2) {
    const auto index = slot_of(statement.operands[0].names.at(0));
    const auto table = table_names_.find(statement.operands[1].names.at(0));
    if (!index || table == table_names_.end()) return false;
    i.operand[0] = *index;
    i.target = table->second;
    return i.execute != nullptr;
  }
  return false;
}

bool ProgramBuilder::fill(Instruction& i, const Statement& statement, const Opcode& op) {
  if (op.name == "bra" || op.name == "brx") return fill_branch(i, statement, op);
  int count = 0, elements = 1;
  if (!fill_operands(i, statement, op, &count)) return false;
  bool unpacks = false;
  for (std::size_t k = 0; k < statement.operands.size(); ++k) {
    if (!statement.operands[k].is_vector) continue;
    elements = static_cast<int>(statement.operands[k].names.size());
    unpacks = k == 0;
  }
  Handler handler = find_memory(op, elements);
  if (!handler) handler = find_move(op, elements, unpacks);
  if (!handler) handler = find_handler(op);
  if (!handler) return false;
  if ((op.name == "bar" || op.name == "barrier") && !handler.combine) {
    // only barrier 0, and for all threads
    if (count != 1 || i.operand[0] != constant(0)) return false;
  }
  i.execute = handler.execute;
  i.combine = handler.combine;
  if (i.combine) i.target = static_cast<std::uint32_t>(count - 1);  // where the mask is
  i.rounding = op.rounding();
  i.saturate = op.has("sat");
  i.flush = op.has("ftz");
  return true;
}

Program ProgramBuilder::finish() {
  add({"ret", "", true, {}, true, {"end of the kernel", 0, 0}});
  auto resolve = [&](const std::string& label) {
    const auto found = labels_.find(label);
    if (found == labels_.end()) throw ParseError(program_.name + ": no label " + label);
    return found->second;
  };
  for (const PendingBranch& b : branches_) program_.code[b.instruction].target = resolve(b.label);
  for (const auto& labels : table_labels_) {
    auto& table = program_.branch_tables.emplace_back();
    for (const std::string& label : labels) table.push_back(resolve(label));
  }
  if (!extern_shared_.empty()) {
    program_.static_shared = align_up(program_.static_shared, kDynamicSharedAlign);
  }
  for (Slot slot : extern_shared_) constant_values_[slot - kFirstConstant] = program_.static_shared;
  place_constants();
  return std::move(program_);
}

void ProgramBuilder::place_constants() {
  program_.image.resize(program_.registers, 0);
  program_.image.insert(program_.image.end(), constant_values_.begin(), constant_values_.end());
  const std::size_t up = kFirstConstant - program_.registers;
  const auto place = [&](Slot& slot) {
    if (slot >= kFirstConstant) slot = static_cast<Slot>(slot - up);
  };
  for (Instruction& i : program_.code) {
    for (Slot& slot : i.operand) place(slot);
    place(i.guard);
  }
  for (auto& [slot, which] : program_.specials) place(slot);
}

}  // namespace cudasim::ptx
