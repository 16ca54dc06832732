// Proves that scripts are read as bash runs them: bash itself runs drawn scripts, with a `torchrun` that keeps its
// arguments. Ours are the same, or something is asked for.

#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <rapidcheck.h>
#include <set>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "sim/base/error.h"
#include "tests/support/run.h"
#include "verify/run_arguments/run_file.h"

namespace {

using Environment = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

constexpr std::array<const char*, 3> kOutside = {"E1", "E2",
                                                 "E3"};  // variables that have values from outside

/// A folder of the test, with the `torchrun` that bash finds first.
class Folder {
 public:
  Folder() : path_(testing::TempDir() + "shardproof-scripts-" + std::to_string(getpid())) {
    std::filesystem::create_directories(path_ + "/bin");
    write("bin/torchrun", "#!/bin/bash\nprintf '%s\\n' \"$@\" > \"$RECORD\"\n");
    std::filesystem::permissions(path_ + "/bin/torchrun", std::filesystem::perms::owner_all);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
  }

  /// The words behind pretrain_gpt.py that `torchrun` gets in each environment; none where it is not started.
  std::vector<std::optional<Words>> said_by_bash(const std::vector<Environment>& environments) const {
    std::string driver;
    for (std::size_t i = 0; i < environments.size(); ++i) {
      std::filesystem::remove(record(i));
      driver += fmt::format("env -i PATH={}/bin:/usr/bin:/bin RECORD={}", path_, record(i));
      for (const auto& [name, value] : environments[i]) driver += fmt::format(" {}='{}'", name, value);
      driver += fmt::format(" timeout 10 bash {}/run.sh > /dev/null 2>&1 < /dev/null\n", path_);
    }
    write("driver.sh", driver + "true\n");
    test::run_process("bash " + path_ + "/driver.sh");
    std::vector<std::optional<Words>> said;
    for (std::size_t i = 0; i < environments.size(); ++i) {
      std::ifstream file(record(i), std::ios::binary);
      said.emplace_back();
      if (!file) continue;
      said.back() = Words();
      bool is_behind = false;
      for (std::string line; std::getline(file, line);) {
        if (is_behind) said.back()->push_back(line);
        is_behind = is_behind || line == "pretrain_gpt.py";
      }
    }
    return said;
  }

 private:
  std::string record(std::size_t i) const { return fmt::format("{}/record-{}", path_, i); }
  std::string path_;
};

/// Draws scripts. E1, E2 and E3 come from outside; N and M are numbers, X and Y texts, A an array.
class Grammar {
 public:
  std::string script;
  std::map<std::string, std::string> files;
  std::set<std::string> with_default;  // the variables from outside to which the script gives a default

  Grammar() {
    script = fmt::format(
        "#!/bin/bash\n# E1 E2 E3\nHERE=\"$(cd \"$(dirname \"{}\")\" && "
        "pwd)\"\nN={}\nM={}\nX={}\nY={}\nA=()\n",
        one_of("$0", "${BASH_SOURCE[0]}"), number(), number(), text(), text());
    script += "f() {\n  local X=$1\n  A+=(--f$# \"$X\" \"$@\")\n  shift\n  Y=${1:-$Y}\n" +
              one_of("", "  [ $N -gt 2 ] && return\n  M=7\n", "  return 1\n",
                     "  if [ \"$E1\" = 1 ]; then return; fi\n  N=1\n") +
              "}\n";
    files["sizes.sh"] = commands(1);
    script += commands(2) + launch();
  }

 private:
  static int below(int limit) { return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, limit)); }
  static std::string one_of(const std::vector<std::string>& rows) {
    return rows[static_cast<std::size_t>(below(static_cast<int>(rows.size())))];
  }
  template <typename... Rows>
  static std::string one_of(const char* first, const Rows&... rows) {
    return one_of(std::vector<std::string>{first, rows...});
  }
  static std::string number() { return std::to_string(below(4)); }
  static std::string text() { return one_of("ab-cd", "7b", "''", "'x y'", "\"a  b\"", "x.y.z"); }
  static std::string outside() { return one_of("E1", "E2", "E3"); }
  std::string with_a_default() { return *with_default.insert(outside()).first; }
  std::string flag() { return fmt::format("--a{}", ++flags_); }

  /// A word with an expansion.
  std::string word() {
    const std::string quotes = one_of("", "\"");
    return quotes + (below(3) > 0 ? inner() : inner_of_outside()) + quotes;
  }
  std::string inner() {
    return one_of("$X", "${Y}", "${X:-d}", "${Y:-$X}", "${X%-*}", "${X#*-}", "${X##*.}", "${Y%%b*}",
                  "${X/b/q}", "${Y//./_}", "${X:1:2}", "${#X}", "$((N * 2 + M))", "$(( N > M ? 3 : N ))",
                  "$N", "${X:+s$X}", "${A[0]}", "${#A[@]}", "$(echo $X 1)", "$(echo \"$Y\")",
                  "$(basename \"a/$N\")", "${X^^}", "$((M % 3))");
  }
  std::string inner_of_outside() {
    if (below(2) == 0) return "${" + with_a_default() + one_of(":-4}", "-4}", ":-$X}", ":=5}", "=6}", ":-}");
    const std::string name = outside();
    return one_of(
        std::vector<std::string>{"$" + name, "${" + name + ":+o$" + name + "}", "$((" + name + " + 1))"});
  }

  std::string condition(int depth) {
    const std::string name = one_of("N", "M", "E1", "E2", "E3");
    const std::string number = this->number();
    const std::vector<std::string> tests = {fmt::format("[ \"${}\" = {} ]", name, number),
                                            fmt::format("[ ${} -gt {} ]", name, number),
                                            fmt::format("[[ ${} == {} ]]", name, number),
                                            fmt::format("[ -z \"${}\" ]", name),
                                            fmt::format("[ -n \"${}\" ]", name),
                                            fmt::format("[[ -z ${} || $N -eq 1 ]]", name),
                                            fmt::format("[ \"$X\" != \"$Y\" -a $N -lt {} ]", number),
                                            "[[ $X == *-* ]]",
                                            fmt::format("(( {} > {} ))", one_of("N", "M"), number),
                                            fmt::format("! [ \"${}\" = 1 ]", name),
                                            fmt::format("[ \"x${}\" = x{} ]", name, number),
                                            "true",
                                            "false",
                                            fmt::format("[[ ! ( ${} = 1 && -n $X ) ]]", name),
                                            fmt::format("[[ ${} -ge {} ]]", one_of("N", "M"), number),
                                            fmt::format("[ -n \"${{{}:-}}\" ]", with_a_default())};
    const std::string first = one_of(tests);
    if (depth == 0 || below(3) > 0) return first;
    return first + one_of(" && ", " || ") + condition(depth - 1);
  }

  std::string assignment() {
    return one_of(std::vector<std::string>{"X=" + word(),
                                           "Y=" + word(),
                                           "N=" + number(),
                                           "M=$((N + 1))",
                                           "((N++))",
                                           "(( M = N > 1 ? 2 : 0 ))",
                                           fmt::format("A+=({} {})", flag(), word()),
                                           fmt::format("A+=({} {})", flag(), word()),
                                           fmt::format("A=(\"${{A[@]}}\" {})", flag()),
                                           "X+=" + word(),
                                           "let M=N+2",
                                           "export X Y",
                                           "unset Y",
                                           "A[0]=" + flag(),
                                           "Y=$(f 1 >/dev/null; echo $N)",
                                           fmt::format(": ${{{}:={}}}", with_a_default(), number()),
                                           "set -- $X 8",
                                           "X=${1:-$X}",
                                           fmt::format("f {}", word()),
                                           fmt::format("f {} {}", word(), word()),
                                           "declare -A T=([k]=$N [l]=2); M=${T[k]}",
                                           "readonly_=1",
                                           fmt::format("read -r -d '' Y <<EOF\n{} $N\nEOF", number())});
  }

  std::string command(int depth) {
    const int kind = depth > 0 ? below(14) : below(3);
    if (kind < 3) return assignment() + "\n";
    const std::string inside = commands(depth - 1);
    const std::string name = outside();
    switch (kind) {
      case 3:
        return fmt::format("if {}; then\n{}fi\n", condition(1), inside);
      case 4:
        return fmt::format("if {}; then\n{}elif {}\nthen\n{}else\n{}fi\n", condition(1), inside, condition(0),
                           commands(depth - 1), commands(depth - 1));
      case 5:
        return fmt::format("case {} in\n  1|2)\n{}  ;;\n  *b*) {} ;;\n  *)\n{}esac\n",
                           one_of("$X", "$N", "\"$" + name + "\""), inside, assignment(),
                           commands(depth - 1));
      case 6:
        return fmt::format("{} && {}\n", condition(1), assignment());
      case 7:
        return fmt::format("{} || {{ {}; }}\n", condition(1), assignment());
      case 8:
        return fmt::format(
            "for i in {} {}; do\n{}{}A+=({} $i)\ndone\n", word(), number(), inside,
            one_of("", "[ $N = 2 ] && continue\n", "[ \"$E2\" = 1 ] && break\n", "[ $i = 3 ] && break\n"),
            flag());
      case 9:
        return fmt::format("for ((i{0} = 0; i{0} < {1}; i{0}++)); do\n{2}done\n", depth,
                           one_of("2", "(N > 2 ? 1 : N)"), inside);
      case 10:
        return fmt::format("( {}{})\n", inside, one_of("", "exit\n"));
      case 11:
        with_default.insert(name);
        return one_of(
            std::vector<std::string>{fmt::format("[ -z \"${}\" ] && {}=3\n", name, name),
                                     fmt::format("if [ -z \"${}\" ]; then {}=3; M=1; fi\n", name, name),
                                     fmt::format("[ -n \"${}\" ] || {}=3\n", name, name),
                                     fmt::format("if [ $N = 1 ]; then : ${{{}:=2}}; fi\n", name)});
      case 12:
        return one_of(std::vector<std::string>{
            fmt::format("[ -z \"${}\" ] && exit 1\n", name),
            fmt::format("if [ -z \"${{{}:-}}\" ]; then\n  exit 1\nfi\n", name),
            fmt::format(": ${{{}:?}}\n", name), fmt::format("[ \"${}\" = 2 ] && exit\n", name),
            "source \"$HERE/sizes.sh\"\n"});
      default:
        return fmt::format("{{\n{}}}{}\n", inside, one_of("", " > /dev/null", " &", " | cat", " && N=3"));
    }
  }

  std::string commands(int depth) {
    std::string text;
    for (int i = 1 + below(3); i > 0; --i) text += command(depth);
    return text;
  }

  std::string launch() {
    const std::string words = "--begin 1 ${A[@]} --x \"$X\" --y $Y --n $N.$M --w " + word() + " --end 1";
    const std::string start = "torchrun --nproc_per_node 2 pretrain_gpt.py ";
    switch (below(6)) {
      case 0:
        files["inner.sh"] = "Y=${Y:-9}\n" + start + "--begin 1 \"$@\" --y $Y --z \"${X:-0}\" --m ${M:-5}\n";
        return one_of("bash ", "") + "\"$HERE/inner.sh\" " + words + "\n";
      case 1:
        return fmt::format("cat > \"$HERE/made.sh\" <<EOF\nY=8\n{}{} --y \\$Y\nEOF\nbash \"$HERE/made.sh\"\n",
                           start, "--begin $N --x $X");
      case 2:
        return fmt::format("main() {{ {}\"$@\" --n $N; }}\nmain {}\n", start, words);
      case 3:
        return fmt::format("bash -c \"{}--begin 1 --n $N --m \\${{M:-4}} ${{A[*]}}\"\n", start);
      case 4:
        return fmt::format("C=\"{}--begin 1 --n $N\"\neval $C --x {}\n", start, word());
      default:
        return start + words + "\n";
    }
  }

  int flags_ = 0;
};

/// The words that are read; none where something is asked for, or refused.
std::optional<Words> read(const std::string& path, const Environment& set) {
  try {
    const verify::RunArguments run = verify::read_run_file(path, set);
    if (!run.unresolved.empty()) return std::nullopt;
    Words words;
    for (const verify::RunArgument& argument : run.given) {
      words.push_back("--" + argument.name);
      words.insert(words.end(), argument.values.begin(), argument.values.end());
    }
    return words;
  } catch (const sim::Error&) {
    return std::nullopt;
  }
}

Environment drawn_environment() {
  Environment environment;
  for (const char* name : kOutside) {
    const int value = *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, 5));
    if (value > 0) environment[name] = value == 1 ? "" : std::to_string(value - 1);
  }
  return environment;
}

std::string shown(const std::optional<Words>& words) {
  std::string text = words ? "" : "nothing";
  for (const std::string& word : words.value_or(Words())) text += "[" + word + "] ";
  return text;
}

TEST(Scripts, AreReadAsBashRunsThemOrSomethingIsAskedFor) {
  const Folder folder;
  int known = 0, tries = 0;
  const bool holds = rc::check([&] {
    const Grammar grammar;
    for (const auto& [name, text] : grammar.files) folder.write(name, text);
    std::filesystem::permissions(folder.path() + "/sizes.sh", std::filesystem::perms::owner_all);
    if (grammar.files.contains("inner.sh"))
      std::filesystem::permissions(folder.path() + "/inner.sh", std::filesystem::perms::owner_all);
    folder.write("run.sh", grammar.script);
    std::vector<Environment> environments;
    for (int i = 0; i < 4; ++i) environments.push_back(drawn_environment());
    // Where a variable is left unsaid, its default counts: it has no value from outside.
    const std::size_t said = environments.size();
    for (int i = 0; i < 3; ++i) {
      environments.push_back(drawn_environment());
      for (const std::string& name : grammar.with_default) environments.back().erase(name);
    }
    const auto by_bash = folder.said_by_bash(environments);
    RC_LOG("run.sh\n" + grammar.script);
    for (const auto& [name, text] : grammar.files) RC_LOG(name + "\n" + text);
    for (std::size_t i = 0; i < environments.size(); ++i) {
      const Environment set = i < said ? environments[i] : Environment();
      const std::optional<Words> ours = read(folder.path() + "/run.sh", set);
      ++tries;
      if (!ours) continue;
      ++known;
      for (const auto& [name, value] : environments[i]) RC_LOG(name + "=" + value);
      RC_LOG("ours " + shown(ours) + "\nbash " + shown(by_bash[i]));
      // A variable that is left unsaid may end the script: then there is no training.
      if (!by_bash[i] && set.size() < kOutside.size()) continue;
      RC_ASSERT(by_bash[i].has_value());
      RC_ASSERT(*ours == *by_bash[i]);
    }
  });
  if (getenv("RATIO")) fprintf(stderr, "known %d of %d\n", known, tries);
  EXPECT_TRUE(holds);
  EXPECT_GT(10 * known, tries) << "nearly everything is asked for";
}

}  // namespace
