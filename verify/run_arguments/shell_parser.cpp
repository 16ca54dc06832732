#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <iterator>

#include "verify/output/refusal_table.h"
#include "verify/run_arguments/run_arguments.h"
#include "verify/run_arguments/shell_words.h"

namespace verify {

namespace {

using Kind = ShellCommand::Kind;
using WordList = std::string_view;  // each between blanks

constexpr int kMostBlocks = 100;
constexpr std::string_view kOperatorSigns = "\n;&|()<>";
constexpr WordList kClosing = " then elif else fi do done esac } ";
constexpr WordList kDeclaring = " export declare local readonly typeset ";
constexpr std::string_view kChanges[] = {"-",  "=",  "+", "?",  "##", "#",  "%%", "%", "//",
                                         "/#", "/%", "/", "^^", "^",  ",,", ",",  ":"};

/// A kind of block, and the words in it.
struct Block {
  const char* name;
  std::string_view second;  // "" for a kind that needs none
  std::string_view last;
};
constexpr Block kBlocks[] = {{"a `case`", "", "esac"}, {"an `if`", "then", "fi"},
                             {"a loop", "do", "done"}, {"a `{`", "", "}"},
                             {"a '('", "", ")"},       {"the `{` of a function", "", "}"}};
constexpr const Block &kCase = kBlocks[0], &kIf = kBlocks[1], &kLoop = kBlocks[2], &kGroup = kBlocks[3],
                      &kSubshell = kBlocks[4], &kFunction = kBlocks[5];

bool is_one_of(char c, std::string_view signs) {
  return c != '\0' && signs.find(c) != std::string_view::npos;
}
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool has(WordList words, std::string_view word) {
  return !word.empty() && words.find(fmt::format(" {} ", word)) != std::string_view::npos;
}

std::shared_ptr<const ShellWord> shared(ShellWord word) {
  return std::make_shared<const ShellWord>(std::move(word));
}

[[noreturn]] void refuse(int line, const std::string& problem) {
  refuse_by("script_syntax/open", place_of_line(line), problem);
}

void add(ShellWord& word, char c, bool is_quoted) {
  const bool goes_on = !word.parts.empty() && word.parts.back().kind == ShellPart::Kind::literal &&
                       word.parts.back().is_quoted == is_quoted;
  if (!goes_on) word.parts.push_back({.is_quoted = is_quoted});
  word.parts.back().text += c;
}

/// Whether a shell makes several words of a word with braces: {1..3}, {a,b}.
bool has_braces(const ShellPart& part) {
  const bool is_bare = part.kind == ShellPart::Kind::literal && !part.is_quoted;
  const std::size_t begin = is_bare ? part.text.find('{') : std::string::npos;
  if (begin == std::string::npos) return false;
  return part.text.find(',', begin) != std::string::npos || part.text.find("..", begin) != std::string::npos;
}

/// Refuses a bracket among the arguments of a Python file, which no shell takes.
void refuse_bare_bracket(const ShellCommand& command, int line) {
  const bool starts_python = std::ranges::any_of(command.words, [](const ShellWord& word) {
    return word.parts.size() == 1 && word.parts[0].text.ends_with(".py");
  });
  if (!starts_python || command.words.size() < 3) return;
  refuse_by("bare_bracket", place_of_line(line));
}

class Parser {
 public:
  Parser(std::string_view text, int line, bool counts_lines)
      : text_(text), line_(line), counts_lines_(counts_lines), is_script_(text.starts_with("#!")) {}

  ShellScript script() {
    ShellScript script;
    for (;;) {
      std::ranges::move(list(), std::back_inserter(script.commands));
      if (at_end()) break;
      const std::string found(closing());
      const auto* const block = std::ranges::find_if(
          kBlocks, [&](const Block& one) { return found == one.last || found == one.second; });
      if (is_script_)
        refuse(line_,
               fmt::format("`{}` without {}", found, block == std::end(kBlocks) ? kCase.name : block->name));
      takes(found);
    }
    if (!pending_.empty()) read_documents();
    script.directives = std::move(directives_);
    return script;
  }

  ShellWord document() {
    ShellWord word{.line = line_};
    while (!at_end()) {
      if (peek() == '$' || peek() == '`' || (peek() == '\\' && is_one_of(peek(1), "$`\\\n"))) {
        piece(word, true);
      } else {
        add(word, next(), true);
      }
    }
    return word;
  }

 private:
  /// Counts what is nested in something else as long as it is read.
  struct Nested {
    explicit Nested(Parser& of) : parser(of) {
      if (++parser.depth_ > kMostBlocks)
        refuse(parser.line_, fmt::format("nested more than {} deep", kMostBlocks));
    }
    ~Nested() { --parser.depth_; }
    Parser& parser;
  };
  struct PendingDocument {
    std::shared_ptr<HereDocument> document;
    std::string end;
    bool strips_tabs = false;
  };

  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool looking_at(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool takes(std::string_view word) {
    if (!looking_at(word)) return false;
    for (std::size_t i = 0; i < word.size(); ++i) next();
    return true;
  }
  char next() {
    if (text_[at_] == '\n' && counts_lines_) ++line_;
    return text_[at_++];
  }
  std::string since(std::size_t start) const { return std::string(text_.substr(start, at_ - start)); }
  ShellWord unknown_since(std::size_t start) const {
    return {{{.kind = ShellPart::Kind::unknown, .source = since(start)}}, line_};
  }

  // ---- words

  /// Reads '...'. Behind a '$', a backslash in it begins a sign. Of these, line breaks and tabs are followed.
  void single_quotes(ShellWord& word) {
    const int begun = line_;
    const std::size_t start = at_;
    const bool has_signs = takes("$");
    next();
    ShellPart part{.is_quoted = true};
    while (!at_end() && peek() != '\'') {
      const bool is_sign = has_signs && peek() == '\\' && at_ + 1 < text_.size();
      if (is_sign) next();
      if (is_sign && !is_one_of(peek(), "nt\\'")) part.kind = ShellPart::Kind::unknown;
      const char c = next();
      part.text += is_sign && c == 'n' ? '\n' : is_sign && c == 't' ? '\t' : c;
    }
    if (!takes("'")) refuse(begun, "a single quote that does not end");
    part.source = since(start);
    word.parts.push_back(std::move(part));
  }

  void double_quotes(ShellWord& word) {
    const int begun = line_;
    const std::size_t parts = word.parts.size();
    for (next(); !at_end() && peek() != '"';) {
      if (peek() == '\\' && !is_one_of(peek(1), "\"\\$`\n")) {
        add(word, next(), true);
      } else {
        piece(word, true);
      }
    }
    if (!takes("\"")) refuse(begun, "a double quote that does not end");
    if (word.parts.size() == parts) word.parts.push_back({.is_quoted = true});
  }

  /// Whether the brackets that begin here, "((", end with "))": then they hold an expression.
  bool begins_arithmetic() const {
    int open = 0;
    for (std::size_t at = at_; at < text_.size() && looking_at("(("); ++at) {
      const char c = text_[at];
      if (c == '\\') ++at;
      if (c == '\'' || c == '"') at = std::min(text_.find(c, at + 1), text_.size());
      open += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (open == 0) return text_[at - 1] == ')';
    }
    return false;
  }

  /// Reads an expression of arithmetic, up to a bracket that it has not opened, or one of these signs.
  ShellWord expression(std::string_view ends) {
    ShellWord word{.line = line_};
    for (int open = 0; !at_end() && (open > 0 || !is_one_of(peek(), ends));) {
      open += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
      piece(word, true);
    }
    return word;
  }

  void backquotes(ShellPart& part) {
    const int begun = line_;
    std::string inner;
    for (next(); !at_end() && peek() != '`'; inner += next())
      if (peek() == '\\' && is_one_of(peek(1), "$`\\")) next();
    if (!takes("`")) refuse(begun, "a '`' that does not end");
    part.kind = ShellPart::Kind::output;
    part.commands = std::make_shared<const ShellList>(Parser(inner, begun, false).script().commands);
  }

  /// Reads $(...) and $((...)), whose "$" is read.
  void bracket(ShellPart& part) {
    const int begun = line_;
    const bool is_arithmetic = begins_arithmetic();
    part.kind = is_arithmetic ? ShellPart::Kind::arithmetic : ShellPart::Kind::output;
    if (is_arithmetic) {
      takes("((");
      part.word = shared(expression(")"));
    } else {
      next();
      auto outer = std::exchange(pending_, {});
      part.commands = std::make_shared<const ShellList>(list());
      if (!std::exchange(pending_, std::move(outer)).empty())
        refuse(begun, "a here-document that does not end");
    }
    if (!takes(is_arithmetic ? "))" : ")")) refuse(begun, "a '(' without its ')'");
  }

  void expansion(ShellWord& word, bool is_quoted) {
    const Nested nested(*this);
    const std::size_t start = at_;
    ShellPart part{.kind = ShellPart::Kind::parameter, .is_quoted = is_quoted};
    const char c = peek() == '`' ? '`' : peek(1);
    if (c == '\'' && !is_quoted) return single_quotes(word);
    if (c != '`') next();
    if (c == '"' && !is_quoted) return double_quotes(word);
    if (c == '`') {
      backquotes(part);
    } else if (c == '(') {
      bracket(part);
    } else if (c == '{') {
      braces(part);
    } else if (c == '[') {  // an old form of $((...)), which is not followed
      part.kind = ShellPart::Kind::unknown;
      word_to("]", true);
      takes("]");
    } else if (!name_of_parameter(part)) {
      return add(word, '$', is_quoted);
    }
    part.source = since(start);
    word.parts.push_back(std::move(part));
  }

  /// Reads the name of a variable, or the sign of a parameter. Returns whether there is one.
  bool name_of_parameter(ShellPart& part) {
    const bool is_braced = text_[at_ - 1] != '$';
    if (begins_shell_name(peek())) {
      while (is_of_shell_name(peek())) part.text += next();
    } else if (is_digit(peek())) {
      do part.text += next();
      while (is_braced && is_digit(peek()));
    } else if (is_one_of(peek(), "@*#?$!-")) {
      part.text = next();
      if (part.text == "@" || part.text == "*") part.elements = part.text[0];
    }
    return !part.text.empty();
  }

  /// Reads what stands after the name in ${NAME:-word} and its like. Returns whether it is followed here.
  bool change_of_parameter(ShellPart& part) {
    part.replaces_empty = peek() == ':' && is_one_of(peek(1), "-=+?");
    if (part.replaces_empty) next();
    const auto* const row =
        std::ranges::find_if(kChanges, [&](std::string_view one) { return looking_at(one); });
    if (row == std::end(kChanges)) return peek() == '}';
    part.change = *row;
    takes(*row);
    const bool has_word = row < &kChanges[4];
    const char* const ends = part.change == ":" ? ":}" : part.change[0] == '/' ? "/}" : "}";
    part.word = shared(word_to(ends, has_word && part.is_quoted));
    const bool is_two = !at_end() && peek() != '}';
    if (is_two) next();
    if (is_two) part.second = shared(word_to("}", false));
    // In the word for a pattern, newer shells replace an '&' by what fits.
    const bool has_sign = is_two && part.change[0] == '/' && part.second->parts.size() > 0 &&
                          part.second->parts[0].text.find('&') != std::string::npos;
    return !has_sign && (!is_one_of(part.change[0], "^,") || part.word->parts.empty());
  }

  /// Reads ${...}, whose "$" is read.
  void braces(ShellPart& part) {
    const int begun = line_;
    next();
    const bool counts = peek() == '#' && !is_one_of(peek(1), "}:-");
    if (counts) next();
    bool is_followed = name_of_parameter(part) && part.text != "!";
    if (is_followed && takes("[")) {
      const bool is_all = is_one_of(peek(), "@*") && peek(1) == ']';
      if (is_all) part.elements = next();
      if (!is_all) part.index = shared(word_to("]", true));
      is_followed = takes("]");
    }
    if (counts) part.change = "length";
    is_followed = is_followed && (counts ? peek() == '}' : change_of_parameter(part));
    if (!is_followed) part.kind = ShellPart::Kind::unknown;
    if (!is_followed) word_to("}", part.is_quoted);
    if (!takes("}")) refuse(begun, "a '{' without its '}'");
  }

  void piece(ShellWord& word, bool is_quoted) {
    const char c = peek();
    if (c == '\'' && !is_quoted) return single_quotes(word);
    if (c == '"') return double_quotes(word);
    if (c == '$' || c == '`') return expansion(word, is_quoted);
    const bool escapes = takes("\\");
    if (escapes && takes("\n")) return;
    if (!at_end()) add(word, next(), is_quoted || escapes);
  }

  /// Reads a word, up to one of these characters.
  ShellWord word_to(std::string_view ends, bool is_quoted) {
    ShellWord word{.line = line_};
    while (!at_end() && !is_one_of(peek(), ends)) piece(word, is_quoted);
    return word;
  }
  ShellWord word() { return word_to(" \t\n;&|()<>", false); }

  /// Reads a word. What braces make of it is not followed.
  ShellWord plain_word() {
    const std::size_t start = at_;
    ShellWord word = this->word();
    return std::ranges::any_of(word.parts, has_braces) ? unknown_since(start) : word;
  }

  /// Reads a word in which brackets may stand, up to a blank or one of these signs.
  ShellWord pattern(std::string_view ends) {
    ShellWord word{.line = line_};
    for (int open = 0; !at_end() && peek() != '\n';) {
      if (open == 0 && (is_one_of(peek(), " \t") || is_one_of(peek(), ends))) break;
      open += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
      piece(word, false);
    }
    return word;
  }

  // ---- lists

  /// Skips blanks, joined lines and a comment. A line break begins the here-documents of its line.
  void skip_blanks(bool also_lines = false) {
    for (;;) {
      while (takes(" ") || takes("\t") || takes("\\\n")) {
      }
      if (peek() == '#') {
        const std::size_t start = at_;
        at_ = std::min(text_.find('\n', at_), text_.size());
        if (since(start).starts_with("#SBATCH")) directives_.emplace_back(line_, since(start + 1));
      }
      if (!also_lines || peek() != '\n') return;
      next();
      if (!pending_.empty()) read_documents();
    }
  }

  void skip_separators() {
    for (skip_blanks(true); is_one_of(peek(), ";&|"); skip_blanks(true)) {
      if (looking_at(";;") || looking_at(";&") || looking_at("&>")) return;
      next();
    }
  }

  /// Returns the word without quotes that stands here, where a command may begin.
  std::string_view keyword() const {
    return text_.substr(at_, text_.find_first_of(" \t\n;&|()<>", at_) - at_);
  }

  /// Returns the sign or the word that stands here and ends a list of commands; "" for others.
  std::string_view closing() const {
    if (peek() == ')') return ")";
    if (looking_at(";;") || looking_at(";&")) return text_.substr(at_, 2);
    return has(kClosing, keyword()) ? keyword() : "";
  }

  ShellList list() {
    const Nested nested(*this);
    ShellList commands;
    for (skip_separators(); !at_end() && closing().empty(); skip_separators()) chain(commands);
    return commands;
  }

  /// Reads commands that && and || join. An & after them sends all of them into the background.
  void chain(ShellList& commands) {
    ShellList joined;
    for (std::string joint;;) {
      joined.push_back(pipeline());
      joined.back().chain = joint;
      if (!looking_at("&&") && !looking_at("||")) break;
      joint = {next(), next()};
      skip_blanks(true);
      if (at_end() || !closing().empty()) break;
    }
    if (peek() != '&' || peek(1) == '>') {
      std::ranges::move(joined, std::back_inserter(commands));
      return;
    }
    next();
    commands.push_back({.kind = Kind::subshell, .line = joined.front().line, .name = "&"});
    commands.back().lists.push_back(std::move(joined));
  }

  ShellCommand pipeline() {
    ShellCommand all{.kind = Kind::pipeline, .line = line_};
    for (; keyword() == "!"; skip_blanks()) {
      next();
      all.is_negated = !all.is_negated;
    }
    for (;;) {
      all.lists.push_back({command()});
      skip_blanks();
      if (peek() != '|' || peek(1) == '|') break;
      next();
      takes("&");
      skip_blanks(true);
      if (at_end() || !closing().empty()) break;
    }
    if (all.lists.size() > 1) return all;
    ShellCommand one = std::move(all.lists[0][0]);
    one.is_negated = all.is_negated;
    return one;
  }

  ShellCommand command() {
    const Nested nested(*this);
    ShellCommand command{.line = line_};
    if (block(command)) {
      for (skip_blanks(); redirection(command); skip_blanks()) {
      }
      return command;
    }
    for (skip_blanks(); argument(command); skip_blanks())
      if (command.words.size() > kMostRunArguments) refuse(command.line, "a command of too many words");
    if (peek() == '(') refuse_bare_bracket(command, line_);
    return command;
  }

  // ---- simple commands

  /// Reads the next assignment, word or redirection of a command. Returns whether there is one.
  bool argument(ShellCommand& command) {
    if (redirection(command)) return true;
    const std::size_t start = at_;
    if (process()) {
      command.words.push_back(unknown_since(start));
      return true;
    }
    if (at_end() || is_one_of(peek(), kOperatorSigns)) return false;
    const bool begins = command.words.empty();
    const std::vector<ShellPart>& first = begins ? std::vector<ShellPart>() : command.words.front().parts;
    const bool declares = first.size() == 1 && !first[0].is_quoted && has(kDeclaring, first[0].text);
    if (begins && assignment(command.assignments)) return true;
    if (declares && assignment(command.declared)) return true;
    command.words.push_back(plain_word());
    return true;
  }

  /// Reads NAME=value, NAME+=value, NAME[index]=value or NAME=(...). Returns whether one stands here.
  bool assignment(std::vector<ShellAssignment>& list) {
    const std::size_t start = at_;
    const int line = line_;
    ShellAssignment found{.line = line};
    while (begins_shell_name(peek()) || (!found.name.empty() && is_digit(peek()))) found.name += next();
    if (!found.name.empty() && takes("[")) {
      found.index = shared(word_to("]\n", true));
      takes("]");
    }
    found.appends = looking_at("+=");
    if (found.name.empty() || (!takes("+=") && !takes("="))) {
      at_ = start;
      line_ = line;
      return false;
    }
    found.is_array = takes("(");
    if (!found.is_array) found.values.push_back(word());
    list.push_back(std::move(found));
    if (list.back().is_array) array(list);
    return true;
  }

  /// Reads the elements of an array, up to its ")". One with an index is an assignment of its own.
  void array(std::vector<ShellAssignment>& list) {
    const std::size_t whole = list.size() - 1;
    for (skip_blanks(true); !takes(")"); skip_blanks(true)) {
      if (at_end() || is_one_of(peek(), kOperatorSigns)) refuse(list[whole].line, "a '(' without its ')'");
      const bool has_index = peek() == '[' && keyword().find("]=") != std::string_view::npos;
      if (has_index) {
        next();
        list.push_back({.name = list[whole].name, .index = shared(word_to("]", true)), .line = line_});
        takes("]=");
        list.back().values.push_back(word());
      } else {
        list[whole].values.push_back(plain_word());
      }
      if (list[whole].values.size() + list.size() > kMostRunArguments)
        refuse(line_, "an array of too many words");
    }
  }

  /// Reads <(...) or >(...), where one stands here. It is not followed.
  bool process() {
    if (!looking_at("<(") && !looking_at(">(")) return false;
    const int begun = line_;
    at_ += 2;
    list();
    if (!takes(")")) refuse(begun, "a '(' without its ')'");
    return true;
  }

  /// Reads a redirection, where one stands here. Of files only that of the output is kept.
  bool redirection(ShellCommand& command) {
    std::size_t digits = 0;
    while (is_digit(peek(digits))) ++digits;
    const bool is_process = digits == 0 && (looking_at("<(") || looking_at(">("));
    if (is_process || !(is_one_of(peek(digits), "<>") || (digits == 0 && looking_at("&>")))) return false;
    const bool is_of_errors = digits > 0 && peek() != '1';
    at_ += digits;
    std::string sign;
    while (is_one_of(peek(), "<>&") || (peek() == '|' && !sign.empty())) sign += next();
    if (sign == "<<") {
      here_document(command);
      return true;
    }
    skip_blanks();
    if (!process()) keep(command, sign, is_of_errors, word());
    return true;
  }

  static void keep(ShellCommand& command, std::string_view sign, bool is_of_errors, ShellWord target) {
    if (sign == "<") target.parts = {{.kind = ShellPart::Kind::unknown, .source = "<"}};
    if (sign == "<" || sign == "<<<") command.input.push_back(target);
    if (sign[0] == '<' || is_of_errors) return;
    if (sign == ">&") target.parts.insert(target.parts.begin(), {.text = "&"});
    command.appends = sign.find(">>") != std::string_view::npos;
    command.output = {std::move(target)};
  }

  /// Reads the last word of a here-document, whose text begins after the line.
  void here_document(ShellCommand& command) {
    PendingDocument pending{std::make_shared<HereDocument>(), "", takes("-")};
    skip_blanks();
    for (const ShellPart& part : word().parts) {
      pending.end += part.kind == ShellPart::Kind::literal ? part.text : part.source;
      pending.document->is_literal = pending.document->is_literal || part.is_quoted;
    }
    command.documents.push_back(pending.document);
    pending_.push_back(std::move(pending));
  }

  /// Reads the here-documents whose text begins on this line.
  void read_documents() {
    for (const PendingDocument& pending : std::exchange(pending_, {})) {
      std::string indented;  // where a last word has blanks beside it
      const int begun = pending.document->line = line_;
      for (;;) {
        if (at_end())
          refuse(begun, fmt::format("a here-document without its last line '{}'{}", pending.end, indented));
        const int line_of_text = line_;
        std::string_view line = text_.substr(at_, text_.find('\n', at_) - at_);
        at_ += line.size();
        if (!at_end()) next();
        if (pending.strips_tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
        if (line == pending.end) break;
        pending.document->text.append(line).append("\n");
        const std::size_t first = std::min(line.find_first_not_of(" \t"), line.size());
        line = line.substr(first, line.find_last_not_of(" \t") + 1 - first);
        if (line == pending.end && indented.empty() && !line.empty())
          indented = fmt::format(": line {} has blanks beside it", line_of_text);
      }
    }
  }

  // ---- blocks

  /// Takes a word of a block, or refuses what stands in its place.
  void expect(const Block& block, std::string_view word, int line) {
    const std::string found(closing());
    if (found == word || keyword() == word) {
      takes(word);
    } else if (found.empty() || (word == block.second && found == block.last)) {
      refuse(line, fmt::format("{} without its `{}`", block.name, word));
    } else {
      refuse(line_, fmt::format("`{}` where {} of line {} has not ended", found, block.name, line));
    }
  }

  ShellCommand begun(Kind kind, std::string_view word) {
    takes(word);
    ShellCommand command{.kind = kind, .line = line_};
    skip_blanks();
    return command;
  }

  /// Reads a command that begins with a keyword. Returns whether one stands here.
  bool block(ShellCommand& command) {
    const std::string word(keyword());
    if (begins_arithmetic()) {
      command = begun(Kind::arithmetic, "((");
      command.words.push_back(expression(")"));
      takes("))");
    } else if (peek() == '(') {
      command = group(Kind::subshell, "(", kSubshell);
    } else if (word == "{") {
      command = group(Kind::group, word, kGroup);
    } else if (word == "if") {
      command = branch(word);
    } else if (word == "for" || word == "select") {
      command = each(word);
    } else if (word == "while" || word == "until") {
      command = begun(Kind::repeat, word);
      command.name = word;
      ShellList condition = list();
      command.lists = {body_of_loop(command.line), std::move(condition)};
    } else if (word == "case") {
      command = choice();
    } else if (word == "[[") {
      command = test();
    } else if (word == "function" || is_function()) {
      command = function();
    } else {
      return false;
    }
    return true;
  }

  ShellCommand group(Kind kind, std::string_view first, const Block& block) {
    ShellCommand group = begun(kind, first);
    group.lists.push_back(list());
    expect(block, block.last, group.line);
    return group;
  }

  /// Reads a branch, whose first word is "if" or "elif".
  ShellCommand branch(std::string_view word) {
    const Nested nested(*this);
    ShellCommand branch = begun(Kind::branch, word);
    branch.lists.push_back(list());
    expect(kIf, kIf.second, branch.line);
    branch.lists.push_back(list());
    if (closing() == "elif") {
      branch.lists.push_back({this->branch("elif")});
      return branch;
    }
    if (closing() == "else" && takes("else")) branch.lists.push_back(list());
    expect(kIf, kIf.last, branch.line);
    return branch;
  }

  /// Reads the commands of a loop, which may stand in braces.
  ShellList body_of_loop(int line) {
    skip_separators();
    const bool has_braces = keyword() == "{";
    expect(kLoop, has_braces ? "{" : kLoop.second, line);
    ShellList body = list();
    expect(has_braces ? kGroup : kLoop, has_braces ? kGroup.last : kLoop.last, line);
    return body;
  }

  /// Reads `for NAME in words`, `for NAME` and for ((I = 0; I < 4; I++)).
  ShellCommand each(std::string_view word) {
    ShellCommand loop = begun(Kind::each, word);
    if (takes("((")) {
      loop.kind = Kind::counted;
      for (int i = 0; i < 3; ++i) {
        loop.words.push_back(expression(";)"));
        takes(";");
      }
      if (!takes("))")) refuse(loop.line, "a '(' without its ')'");
    } else {
      loop.name = keyword();
      takes(loop.name);
      skip_blanks(true);
      const bool has_list = keyword() == "in" && takes("in");
      for (skip_blanks(); has_list && argument(loop); skip_blanks()) {
      }
      ShellPart list{.kind = ShellPart::Kind::parameter, .is_quoted = true, .text = "@", .elements = '@'};
      list.source = "$@";
      if (word == "select") list.kind = ShellPart::Kind::unknown;
      if (!has_list || word == "select") loop.words = {{{list}, loop.line}};
    }
    loop.lists.push_back(body_of_loop(loop.line));
    return loop;
  }

  ShellCommand choice() {
    ShellCommand choice = begun(Kind::choice, "case");
    choice.words.push_back(word());
    skip_separators();
    if (keyword() == "in") takes("in");
    for (skip_separators(); keyword() != "esac" && !at_end(); skip_separators()) {
      ShellPattern& pattern = choice.patterns.emplace_back();
      takes("(");
      do {
        skip_blanks();
        pattern.words.push_back(this->pattern("|)"));
        skip_blanks();
      } while (takes("|"));
      if (!takes(")")) expect(kCase, kCase.last, choice.line);
      choice.lists.push_back(list());
      if (peek() == ')') refuse(line_, "a pattern of a `case` after commands that do not end with `;;`");
      for (const std::string_view ending : {";;&", ";;", ";&"})
        if (pattern.ending.empty() && takes(ending)) pattern.ending = ending;
      if (pattern.ending.empty()) break;
    }
    expect(kCase, kCase.last, choice.line);
    return choice;
  }

  ShellCommand test() {
    ShellCommand test = begun(Kind::test, "[[");
    for (skip_blanks(true); keyword() != "]]"; skip_blanks(true)) {
      if (at_end()) refuse(test.line, "a '[[' without its ']]'");
      const bool is_expression = !test.words.empty() && is_literal(test.words.back(), "=~");
      ShellWord word = pattern(is_expression ? "" : "&|()<>");
      const bool is_double = word.parts.empty() && (looking_at("&&") || looking_at("||"));
      if (word.parts.empty() && !at_end()) add(word, next(), false);
      if (is_double) add(word, next(), false);
      test.words.push_back(std::move(word));
      if (test.words.size() > kMostRunArguments) refuse(test.line, "a command of too many words");
    }
    takes("]]");
    return test;
  }

  /// Whether the name of a function stands here: name ().
  bool is_function() const {
    const std::string_view name = keyword();
    const std::size_t open = text_.find_first_not_of(" \t", at_ + name.size());
    if (name.empty() || name.find_first_of("$'\"`=\\") != std::string_view::npos || open >= text_.size())
      return false;
    const std::size_t close = text_.find_first_not_of(" \t", open + 1);
    return text_[open] == '(' && close < text_.size() && text_[close] == ')';
  }

  ShellCommand function() {
    ShellCommand function = begun(Kind::function, keyword() == "function" ? "function" : "");
    function.name = keyword();
    takes(function.name);
    skip_blanks();
    if (takes("(")) skip_blanks();
    takes(")");
    skip_separators();
    function.lists.push_back({keyword() == "{" ? group(Kind::group, "{", kFunction) : command()});
    return function;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_;
  bool counts_lines_;
  bool is_script_;  // what has not begun is refused
  int depth_ = 0;
  std::vector<std::pair<int, std::string>> directives_;
  std::vector<PendingDocument> pending_;
};

}  // namespace

bool begins_shell_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_of_shell_name(char c) { return begins_shell_name(c) || is_digit(c); }

bool is_literal(const ShellWord& word, std::string_view text) {
  return word.parts.size() == 1 && word.parts[0].kind == ShellPart::Kind::literal &&
         !word.parts[0].is_quoted && word.parts[0].text == text;
}

std::string place_of_line(int line) { return line == 0 ? "--from" : fmt::format("line {}", line); }

ShellScript parse_shell(std::string_view text, int first_line, bool counts_lines) {
  return Parser(text, first_line, counts_lines).script();
}

ShellWord parse_document(std::string_view text, int line) { return Parser(text, line, false).document(); }

}  // namespace verify
