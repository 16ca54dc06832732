#pragma once

/// YAML, and so JSON, as a tree of maps, lists and scalars. yaml-cpp reads the text.
///
/// Shapes  Entries of a map are in the order of the text, and a name may stand several times. A scalar is
///         text as it is written, without quotes, and "null" where nothing is written. Of a key that is no
///         scalar the name is "".
/// Errors  run_yaml_syntax: the text is no YAML, or is nested too deep; run_yaml_alias: an anchor is used
///         again (a short text can stand for gigabytes that way); run_file_size: more than kMostYamlNodes.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

inline constexpr std::size_t kMostYamlNodes = 200'000;

struct YamlEntry;

struct YamlNode {
  enum class Kind { scalar, list, map };
  Kind kind = Kind::scalar;
  int line = 0;                    // where it begins, from 1
  std::string text;                // of a scalar
  std::vector<YamlEntry> entries;  // of a map, and without names of a list

  bool is_map() const { return kind == Kind::map; }
};

struct YamlEntry {
  std::string name;
  int line = 0;  // of the name
  YamlNode value;
};

/// Returns the documents of a text.
std::vector<YamlNode> read_yaml(std::string_view text);

/// Returns the words of an entry: that of a scalar, or those of the scalars in a list. A map has none.
std::vector<std::string> words_of(const YamlNode& node);

}  // namespace verify
