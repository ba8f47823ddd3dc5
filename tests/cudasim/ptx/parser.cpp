// The grammar of PTX, as far as nvcc uses it: a module holds variables and kernels, a kernel holds
// declarations, labels and instructions. What an instruction means is for program_builder.cpp to
// know.
#include "ptx/lexer.h"
#include "ptx/program_builder.h"

#include <cstdlib>

namespace cudasim::ptx {
namespace {

std::string string(const Token& token) {
  return std::string(token.text);
}

std::size_t to_size(std::string_view text) {
  return std::strtoull(std::string(text).c_str(), nullptr, 0);
}

// Bytes of ".u64", ".b8", ".f32" ...; 0 for words that are no types.
std::size_t type_bytes(std::string_view word) {
  if (word.size() < 3 || std::string_view("busf").find(word[1]) == std::string_view::npos) return 0;
  return to_size(word.substr(2)) / 8;
}

struct Variable {
  std::string name;
  std::size_t size = 0, align = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}
  Module parse();

 private:
  Variable variable();
  void shared_outside(bool is_extern);
  void function();
  Program kernel();
  void body(ProgramBuilder& builder);
  void declaration(ProgramBuilder& builder, const Token& directive);
  void registers(ProgramBuilder& builder);
  void label_or_instruction(ProgramBuilder& builder);
  void branch_table(ProgramBuilder& builder, const std::string& name);
  Statement instruction(const Token& start, Token word);
  bool operand(Operand& out);
  std::string immediate_or_name();
  void skip_past_semicolon();

  Lexer lexer_;
  ProgramBuilder::SharedVariables shared_;
  int source_line_ = 0;
};

Module Parser::parse() {
  Module module;
  bool is_extern = false;
  while (!lexer_.peek().text.empty()) {
    const Token token = lexer_.next();
    if (token == ".target") {
      module.target = string(lexer_.peek());
      lexer_.skip_line();
    } else if (token == ".version" || token == ".address_size" || token == ".file") {
      lexer_.skip_line();
    } else if (token == ".visible" || token == ".weak" || token == ".extern") {
      is_extern = token == ".extern";
      continue;
    } else if (token == ".shared") {
      shared_outside(is_extern);
    } else if (token == ".entry") {
      module.kernels.emplace_back(std::make_shared<const Program>(kernel()));
    } else if (token == ".func") {
      function();
    } else if (token == ".section") {
      lexer_.next();
      lexer_.expect("{");
      lexer_.skip_past('{', '}');
    } else if (token.text[0] == '.') {
      skip_past_semicolon();  // .global, .const: kernels that use them meet an unknown name
    } else {
      lexer_.fail("this does not look like PTX");
    }
    is_extern = false;
  }
  return module;
}

// .align 4 .b8 name[128]      the words before the name in any order
Variable Parser::variable() {
  Variable v;
  std::size_t bytes = 1;
  bool done = false;
  while (!done) {
    const Token token = lexer_.expect_word();
    if (token == ".align") {
      v.align = to_size(lexer_.next().text);
    } else if (token.text[0] != '.') {
      v.name = string(token);
      done = true;
    } else if (const std::size_t b = type_bytes(token.text)) {
      bytes = b;
    }
  }
  std::size_t count = 1;
  if (lexer_.accept("[")) {
    count = lexer_.peek() == "]" ? 0 : to_size(lexer_.next().text);
    lexer_.expect("]");
  }
  v.size = bytes * count;
  // ".ptr .align 1" speaks of what a pointer points to
  if (v.align < bytes) v.align = bytes;
  return v;
}

void Parser::shared_outside(bool is_extern) {
  const Variable v = variable();
  shared_[v.name] = {v.size, v.align, is_extern || v.size == 0};
  lexer_.expect(";");
}

void Parser::skip_past_semicolon() {
  while (!lexer_.peek().text.empty() && !lexer_.accept(";")) lexer_.next();
}

// Device functions that are not inlined: a call is an unsupported instruction.
void Parser::function() {
  while (!lexer_.accept(";")) {
    if (lexer_.accept("{")) return lexer_.skip_past('{', '}');
    if (lexer_.next().text.empty()) lexer_.fail("function without an end");
  }
}

Program Parser::kernel() {
  ProgramBuilder builder(string(lexer_.expect_word()), shared_);
  if (lexer_.accept("(")) {
    while (!lexer_.accept(")")) {
      lexer_.expect(".param");
      const Variable v = variable();
      builder.add_parameter(v.name, v.size, v.align);
      lexer_.accept(",");
    }
  }
  while (!lexer_.accept("{")) {  // .maxntid and other hints
    if (lexer_.next().text.empty()) lexer_.fail("kernel without a body");
  }
  source_line_ = 0;
  body(builder);
  return builder.finish();
}

void Parser::body(ProgramBuilder& builder) {
  int depth = 1;
  while (depth > 0) {
    if (lexer_.accept("{")) {
      builder.open_scope();
      ++depth;
    } else if (lexer_.accept("}")) {
      builder.close_scope();
      --depth;
    } else if (lexer_.peek().text.empty()) {
      lexer_.fail("kernel without an end");
    } else if (lexer_.peek().text[0] == '.') {
      declaration(builder, lexer_.next());
    } else if (!lexer_.accept(";")) {
      label_or_instruction(builder);
    }
  }
}

void Parser::declaration(ProgramBuilder& builder, const Token& directive) {
  if (directive == ".loc") {
    lexer_.next();  // the file
    source_line_ = static_cast<int>(to_size(lexer_.peek().text));
    lexer_.skip_line();
  } else if (directive == ".reg") {
    registers(builder);
  } else if (directive == ".shared") {
    const Variable v = variable();
    builder.add_shared(v.name, {v.size, v.align, false});
    lexer_.expect(";");
  } else {
    skip_past_semicolon();
  }
}

// .reg .b32 %r<17>;      or  .reg .f32 low, high;
void Parser::registers(ProgramBuilder& builder) {
  lexer_.expect_word();  // the type: slots have none
  do {
    const std::string name = string(lexer_.expect_word());
    if (!lexer_.accept("<")) {
      builder.add_register(name);
      continue;
    }
    const std::size_t count = to_size(lexer_.next().text);
    for (std::size_t k = 0; k < count; ++k) builder.add_register(name + std::to_string(k));
    lexer_.expect(">");
  } while (lexer_.accept(","));
  lexer_.expect(";");
}

void Parser::label_or_instruction(ProgramBuilder& builder) {
  const Token start = lexer_.next();
  if (start.is_word && lexer_.accept(":")) {
    if (lexer_.accept(".branchtargets")) return branch_table(builder, string(start));
    return builder.add_label(string(start));
  }
  builder.add(instruction(start, start));
}

void Parser::branch_table(ProgramBuilder& builder, const std::string& name) {
  std::vector<std::string> labels;
  do {
    labels.push_back(string(lexer_.expect_word()));
  } while (lexer_.accept(","));
  lexer_.expect(";");
  builder.add_branch_table(name, std::move(labels));
}

// @!%p1 opcode operand, operand;
Statement Parser::instruction(const Token& start, Token word) {
  Statement s;
  if (word == "@") {
    s.guard_value = !lexer_.accept("!");
    s.guard = string(lexer_.expect_word());
    word = lexer_.expect_word();
  }
  if (!word.is_word) lexer_.fail("expected an instruction");
  s.opcode = string(word);
  while (!(lexer_.peek() == ";")) {
    Operand o;
    if (!operand(o)) {
      s.understood = false;
      while (!(lexer_.peek() == ";")) {
        if (lexer_.next().text.empty()) lexer_.fail("instruction without an end");
      }
      break;
    }
    s.operands.push_back(std::move(o));
    lexer_.accept(",");
  }
  s.source = {lexer_.since(start), start.line, source_line_};
  lexer_.expect(";");
  return s;
}

std::string Parser::immediate_or_name() {
  std::string sign = lexer_.accept("-") ? "-" : "";
  return sign + string(lexer_.expect_word());
}

// False for forms that this interpreter does not know, such as the parameter lists of calls.
bool Parser::operand(Operand& o) {
  if (lexer_.accept("{")) {
    o.is_vector = true;
    do {
      o.names.push_back(immediate_or_name());
    } while (lexer_.accept(","));
    lexer_.expect("}");
  } else if (lexer_.accept("[")) {
    o.is_address = true;
    o.names.push_back(immediate_or_name());
    if (lexer_.accept("+")) {
      const bool negative = lexer_.accept("-");
      o.offset = static_cast<std::int64_t>(to_size(lexer_.next().text)) * (negative ? -1 : 1);
    }
    if (!lexer_.accept("]")) return false;
  } else {
    o.is_negated = lexer_.accept("!");
    if (!lexer_.peek().is_word && !(lexer_.peek() == "-")) return false;
    o.names.push_back(immediate_or_name());
    if (lexer_.accept("|")) o.second = string(lexer_.expect_word());
  }
  return true;
}

}  // namespace

Module parse(std::string_view ptx_text) {
  return Parser(ptx_text).parse();
}

}  // namespace cudasim::ptx
