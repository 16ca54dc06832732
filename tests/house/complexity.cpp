#include "tests/house/complexity.h"

#include "tests/house/source_tokens.h"

namespace test {

namespace {

enum class Brace { scope, function, value };

/// A brace, by the tokens from the beginning of its statement.
struct Opened {
  Brace brace = Brace::value;
  std::string name = {};  // of a function
};

/// Returns the place behind `template <...>` and the like, with which a declaration may begin.
std::size_t behind_prefixes(const Tokens& tokens, std::size_t at) {
  for (;;) {
    const std::string_view text = text_at(tokens, at);
    if (text == "template" && text_at(tokens, at + 1) == "<") {
      at = behind_brackets(tokens, at + 1, "<", ">");
    } else if (text == "[") {
      at = behind_brackets(tokens, at, "[", "]");
    } else if (is_one_of(text, {"public", "private", "protected"}) && text_at(tokens, at + 1) == ":") {
      at += 2;
    } else {
      return at;
    }
  }
}

/// Says what the brace at `brace` opens: the body of a function, what holds further declarations, or a value.
Opened opened_at(const Tokens& tokens, std::size_t begin, std::size_t brace) {
  begin = behind_prefixes(tokens, begin);
  if (is_one_of(text_at(tokens, begin), {"namespace", "struct", "class", "union", "enum"}))
    return {Brace::scope};
  Opened opened;
  bool has_initializers = false;  // of a constructor
  for (std::size_t at = begin; at < brace; ++at) {
    const std::string_view text = tokens[at].text;
    if (text == "operator") {
      while (at + 1 < brace && tokens[at + 1].text != "(") ++at;
      if (text_at(tokens, at + 2) == ")") at += 2;  // operator()
      if (opened.name.empty()) opened.name = "operator";
    } else if (text == "(") {
      if (opened.name.empty() && at > begin) opened.name = tokens[at - 1].text;
      at = behind_brackets(tokens, at, "(", ")") - 1;
    } else if (text == "=") {
      return {Brace::value};
    } else if (text == ":" && !opened.name.empty()) {
      has_initializers = true;
    } else if (text == "{") {
      at = behind_brackets(tokens, at, "{", "}") - 1;
    }
  }
  if (opened.name.empty())
    return {begin == brace || text_at(tokens, begin) == "extern" ? Brace::scope : Brace::value};
  const bool is_of_a_member = has_initializers && !is_one_of(tokens[brace - 1].text, {")", "}"});
  opened.brace = is_of_a_member ? Brace::value : Brace::function;
  return opened;
}

int complexity_of(const Tokens& tokens, std::size_t begin, std::size_t end) {
  int complexity = 1;
  for (std::size_t at = begin; at < end; ++at) {
    const std::string_view text = tokens[at].text;
    if (is_one_of(text, {"if", "for", "while", "case", "catch", "?"})) ++complexity;
    const bool is_double = is_one_of(text, {"&", "|"}) && text_at(tokens, at + 1) == text &&
                           tokens[at + 1].text.data() == text.data() + 1;
    if (is_double) {
      ++complexity;
      ++at;
    }
  }
  return complexity;
}

}  // namespace

std::vector<FunctionComplexity> complexities_of(const std::string& source) {
  const Tokens tokens = tokens_of(source);
  std::vector<FunctionComplexity> functions;
  std::size_t begin = 0;  // of the statement
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const std::string_view text = tokens[at].text;
    if (text == ";" || text == "}") begin = at + 1;
    if (text == "(") at = behind_brackets(tokens, at, "(", ")") - 1;
    if (text != "{") continue;
    const Opened opened = opened_at(tokens, begin, at);
    const std::size_t end = behind_brackets(tokens, at, "{", "}");
    if (opened.brace == Brace::function) functions.push_back({opened.name, complexity_of(tokens, at, end)});
    if (opened.brace == Brace::scope) begin = at + 1;
    if (opened.brace == Brace::function) begin = end;
    if (opened.brace != Brace::scope) at = end - 1;
  }
  return functions;
}

}  // namespace test
