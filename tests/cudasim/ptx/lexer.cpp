#include "ptx/lexer.h"

#include "ptx/interpreter.h"

#include <cctype>

namespace cudasim::ptx {
namespace {

bool word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

}  // namespace

void Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    if (text_.substr(at_, 2) == "//") {
      at_ = text_.find('\n', at_);
      if (at_ == std::string_view::npos) at_ = text_.size();
    } else if (text_.substr(at_, 2) == "/*") {
      const std::size_t end = text_.find("*/", at_);
      if (end == std::string_view::npos) fail("comment without an end");
      for (; at_ < end + 2; ++at_) line_ += text_[at_] == '\n';
    } else if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
      line_ += text_[at_++] == '\n';
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_blanks();
  token_ = {text_.substr(at_, 0), line_, false};
  if (at_ >= text_.size()) return;
  std::size_t end = at_ + 1;
  if (text_[at_] == '"') {
    while (end < text_.size() && text_[end] != '"') ++end;
    ++end;
  } else if (word_character(text_[at_])) {
    token_.is_word = true;
    // "::" belongs to modifiers such as L2::128B, a single colon ends a label
    while (end < text_.size() && (word_character(text_[end]) || text_.substr(end, 2) == "::")) {
      end += text_[end] == ':' ? 2 : 1;
    }
  }
  token_.text = text_.substr(at_, end - at_);
  at_ = end;
}

Token Lexer::next() {
  const Token token = token_;
  advance();
  return token;
}

Token Lexer::expect(std::string_view what) {
  if (!(token_ == what)) fail("expected '" + std::string(what) + "'");
  return next();
}

Token Lexer::expect_word() {
  if (!token_.is_word) fail("expected a name");
  return next();
}

bool Lexer::accept(std::string_view what) {
  if (!(token_ == what)) return false;
  advance();
  return true;
}

void Lexer::skip_line() {
  const int line = token_.line;
  while (!token_.text.empty() && token_.line == line) advance();
}

void Lexer::skip_past(char open, char close) {
  int depth = 1;
  while (depth > 0) {
    const Token token = next();
    if (token.text.empty()) fail("bracket without an end");
    depth += token.text[0] == open;
    depth -= token.text[0] == close;
  }
}

std::string Lexer::since(const Token& start) const {
  const char* end = token_.text.data();
  std::string out;
  for (const char* c = start.text.data(); c < end; ++c) {
    const bool blank = std::isspace(static_cast<unsigned char>(*c));
    if (!blank) {
      out += *c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

void Lexer::fail(const std::string& what) const {
  throw ParseError("PTX line " + std::to_string(token_.line) + ": " + what + " at '" +
                   std::string(token_.text) + "'");
}

}  // namespace cudasim::ptx
