#include "verify/requests/group_dump.h"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <fstream>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/printable_text.h"
#include "sim/layout/parallel_sizes.h"
#include "verify/output/input_file.h"
#include "verify/output/json.h"
#include "verify/output/refusal_table.h"
#include "verify/recordings/pickle_reader.h"
#include "verify/recordings/recording_reader.h"

namespace verify {

namespace {

constexpr std::string_view kDefaultGroup = "default_pg";  // PyTorch's description of the whole world

std::string option_of(const std::string& path) { return "--against " + sim::printable_text(path); }

std::string text_of_file(const std::string& path) {
  if (const std::string problem = what_is_no_plain_file(path); !problem.empty())
    refuse_by("dump_missing", option_of(path), problem);
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostDumpBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostDumpBytes) refuse_by("dump_size", option_of(path), kMostDumpBytes);
  if (text.empty()) refuse_by("dump_empty", option_of(path), "an empty file");
  return text;
}

Json document_of(const std::string& path, const std::string& text) {
  try {
    return parse_json(text);
  } catch (const std::exception& error) {
    std::string problem = error.what();  // of the library: "[json.exception.parse_error.101] parse error ..."
    if (problem.starts_with('[')) problem.erase(0, problem.find(']') + 2);
    refuse_by("dump_text", option_of(path), sim::printable_text(problem));
  }
}

/// Reads the three forms.
class DumpReader {
 public:
  explicit DumpReader(std::string path) { dump_.path = std::move(path); }

  GroupDump read() {
    const std::string text = text_of_file(dump_.path);
    SharedRanks lists;
    ValueTree tree;
    if (const std::optional<Recording> recording = recording_of(text, option_of(dump_.path), lists, tree)) {
      read_flight_recorder(*recording);
    } else if (begins_as_pickle(text)) {
      refuse_form("a pickle without 'pg_config'");
    } else {
      const Json document = document_of(dump_.path, text);
      const Json* groups = document.find("groups");
      if (groups == nullptr && !document.is_array())
        refuse_form("a document without 'groups' and 'pg_config', which is no list either");
      groups != nullptr ? read_own(document, *groups) : read_list(document);
      require_each_once();
    }
    if (dump_.groups.empty() && !dump_.world_size)
      refuse_by("dump_empty", option_of(dump_.path), "a dump without groups");
    require_ranks_of_world();
    return std::move(dump_);
  }

 private:
  [[noreturn]] void refuse_form(const std::string& problem) const {
    refuse_by("dump_form", option_of(dump_.path), problem);
  }
  [[noreturn]] void refuse_ranks(const std::string& what, const std::string& problem) const {
    refuse_by("dump_ranks", option_of(dump_.path), what, problem);
  }

  void read_own(const Json& document, const Json& groups) {
    dump_.form = DumpForm::shardproof;
    if (!groups.is_object()) refuse_form("'groups' is not an object with a list for each kind");
    const Json* world = document.find("world_size");
    if (world == nullptr || !world->is_integer()) refuse_form("a document without 'world_size'");
    dump_.world_size = world->integer();
    if (const Json* rank = document.find("rank"); rank != nullptr && rank->is_integer())
      dump_.rank = rank->integer();
    for (std::size_t kind = 0; kind < groups.size(); ++kind) {
      const std::string& name = groups.names()[kind];
      const Json& lists = groups.elements()[kind];
      if (!lists.is_array()) refuse_form(fmt::format("'{}' is not a list of groups", shown(name)));
      for (const Json& ranks : lists.elements()) add(name, ranks);
    }
  }

  void read_list(const Json& list) {
    dump_.form = DumpForm::list;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Json& pair = list[i];
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_text())
        refuse_form(fmt::format("element {} of the list is not [description, ranks]", i));
      add(pair[0].text(), pair[1]);
    }
  }

  void read_flight_recorder(const Recording& recording) {
    dump_.form = DumpForm::flight_recorder;
    for (std::size_t i = 0; i < recording.configured; ++i) {
      const RecordedGroup& group = recording.groups[i];
      if (group.ranks == nullptr)
        refuse_form(fmt::format("group '{}' of 'pg_config' has no list of ranks", shown(group.name)));
      add({.description = group.description, .ranks = *group.ranks});
    }
  }

  static std::string shown(const std::string& text) { return sim::printable_text(text.substr(0, 80)); }

  void add(const std::string& description, const Json& ranks) {
    DumpedGroup group{.description = description, .ranks = {}};
    const std::string what = fmt::format("group {} ({})", read_, shown(description));
    if (!ranks.is_array()) refuse_form(what + " has no list of ranks");
    if (ranks.empty()) refuse_ranks(what, "it has no ranks");
    for (const Json& rank : ranks.elements()) {
      if (!rank.is_integer()) refuse_form(what + " has a rank that is not a whole number");
      if (rank.integer() < 0 || rank.integer() >= sim::kMaxSize)
        refuse_ranks(what, fmt::format("rank {}, where a rank is a number from 0 to {}", rank.integer(),
                                       sim::kMaxSize - 1));
      group.ranks.push_back(static_cast<int>(rank.integer()));
    }
    add(std::move(group));
  }

  void add(DumpedGroup group) {
    const std::string what = fmt::format("group {} ({})", read_++, shown(group.description));
    std::vector<int> sorted = group.ranks;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) refuse_ranks(what, fmt::format("rank {} stands in it twice", *twice));
    if (group.description == kDefaultGroup) return take_world(what, sorted);
    dump_.groups.push_back(std::move(group));
  }

  void take_world(const std::string& what, const std::vector<int>& sorted) {
    const std::int64_t size = std::ssize(sorted);
    if (sorted.back() != size - 1)
      refuse_ranks(what, fmt::format("{} ranks, of which the largest is {}; the default group has every rank "
                                     "of the world",
                                     size, sorted.back()));
    dump_.world_size = size;
  }

  void require_ranks_of_world() const {
    if (!dump_.world_size) return;
    for (std::size_t i = 0; i < dump_.groups.size(); ++i) {
      const DumpedGroup& group = dump_.groups[i];
      const int largest = *std::max_element(group.ranks.begin(), group.ranks.end());
      if (largest >= *dump_.world_size)
        refuse_ranks(shown(group.description),
                     fmt::format("rank {} in a world that the dump says has {}", largest, *dump_.world_size));
    }
  }

  void require_each_once() const {
    std::set<std::pair<std::string, std::vector<int>>> seen;
    for (const DumpedGroup& group : dump_.groups) {
      if (seen.emplace(group.description, group.ranks).second) continue;
      refuse_by("dump_repeated", option_of(dump_.path), shown(group.description), group.ranks.front());
    }
  }

  GroupDump dump_;
  std::size_t read_ = 0;  // groups that were read
};

}  // namespace

const char* dump_form_name(DumpForm form) {
  static constexpr const char* kNames[] = {"shardproof", "list", "flight_recorder"};  // as in DumpForm
  return kNames[static_cast<std::size_t>(form)];
}

GroupDump read_group_dump(const std::string& path) { return DumpReader(path).read(); }

}  // namespace verify
