// Cuts PTX text into tokens: words (names, opcodes with all their modifiers, numbers), strings and
// single characters. Comments vanish; line numbers stay.
#pragma once

#include <string>
#include <string_view>

namespace cudasim::ptx {

struct Token {
  std::string_view text;  // empty at the end of the input
  int line = 0;
  bool is_word = false;

  bool operator==(std::string_view other) const { return text == other; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  const Token& peek() const { return token_; }
  Token next();
  Token expect(std::string_view what);  // the next token, which must be this one. Throws ParseError
  Token expect_word();                  // likewise, any word
  bool accept(std::string_view what);   // takes the next token if it is this one
  void skip_line();                     // drops what is left of the token's line
  void skip_past(char open, char close);  // drops everything up to the bracket that matches

  // The text from the start of a token to the start of the current one, blanks collapsed.
  std::string since(const Token& start) const;

  [[noreturn]] void fail(const std::string& what) const;

 private:
  void advance();
  void skip_blanks();

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  Token token_;
};

}  // namespace cudasim::ptx
