#pragma once

/// What the words of a launch mean by themselves, whatever stands beside them: the rows of launch_words.tsv.
///
///   launcher_of("/usr/bin/sbatch");             // "srun"
///   is_program("/usr/bin/docker", "elsewhere")  // true

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

struct LaunchWord {
  std::string kind, word, launcher;
  std::vector<std::string> means;
};
const std::vector<LaunchWord>& launch_words();

/// Returns what stands after the last "/" of a path: the name of a program or a file.
inline std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// Whether a word names a program that has this meaning: "shell", "starter".
bool is_program(std::string_view word, std::string_view meaning);

/// Returns the launcher that a word names; "" for other words.
std::string_view launcher_of(std::string_view word);

/// Returns what an option of a launcher says: "nodes", "flag"; "" for other words.
std::string_view meaning_of_option(std::string_view launcher, std::string_view option);

/// Returns how many of the words after torchrun are its options and their values. The program follows them.
std::size_t options_of_torchrun(std::span<const std::string> words);

}  // namespace verify
