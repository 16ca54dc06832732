#include "verify/run/layout_words.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <set>
#include <sstream>
#include <string_view>

#include "verify/output/refusal_table.h"

namespace verify {

namespace {

constexpr std::int64_t kMostSize = 4096, kMostRanks = 4096;

struct SizeWord {
  std::string_view word, option;
  std::int64_t LayoutInWords::*size;
  bool is_always_given;  // also where it is 1, because the program's own words may say another size
};

constexpr SizeWord kSizes[] = {
    {"tp", "--tensor-model-parallel-size", &LayoutInWords::tp, true},
    {"pp", "--pipeline-model-parallel-size", &LayoutInWords::pp, true},
    {"cp", "--context-parallel-size", &LayoutInWords::cp, true},
    {"ep", "--expert-model-parallel-size", &LayoutInWords::ep, true},
    {"etp", "--expert-tensor-parallel-size", &LayoutInWords::etp, true},
    {"vpp", "--num-virtual-stages-per-pipeline-rank", &LayoutInWords::vpp, false},
    {"dp", "", &LayoutInWords::dp, false},
};

/// Returns the size that a word gives; 0 if it is no size of this name.
std::int64_t size_in(std::string_view word, std::string_view name) {
  if (!word.starts_with(name)) return 0;
  std::int64_t size = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data() + name.size(), end, size);
  return error == std::errc() && stop == end && size <= kMostSize ? size : 0;
}

/// Takes a word; returns whether it is one of a layout.
bool takes(LayoutInWords& layout, const std::string& word) {
  if (word == "sp") return layout.is_sequence_parallel = true;
  if (word == "zero") return layout.has_distributed_optimizer = true;
  for (const SizeWord& each : kSizes) {
    const std::int64_t size = size_in(word, each.word);
    if (size > 0) layout.*each.size = size;
    if (size > 0) return true;
  }
  return false;
}

}  // namespace

LayoutInWords layout_in_words(const std::string& words) {
  LayoutInWords layout;
  std::istringstream stream(words);
  std::set<std::string> names;
  for (std::string word; stream >> word;) {
    layout.name += (layout.name.empty() ? "" : " ") + word;
    if (!layout.others.empty() || word.starts_with("--")) {
      layout.others.push_back(word);
      continue;
    }
    const std::string name = word.substr(0, word.find_first_of("0123456789"));
    if (!names.insert(name).second || !takes(layout, word))
      refuse_by("layout_words", "--layouts", word, words);
  }
  if (layout.name.empty()) refuse_by("layout_words", "--layouts", "", words);
  if (layout.etp == 0) layout.etp = layout.tp;
  if (layout.dp == 0)
    layout.dp = std::lcm(layout.tp * layout.cp, layout.etp * layout.ep) / (layout.tp * layout.cp);
  if (layout.ranks() > kMostRanks)
    refuse_by("layout_words", "--layouts", fmt::format("{} ranks", layout.ranks()), words);
  return layout;
}

std::vector<LayoutInWords> layouts_in_words(const std::string& words) {
  std::vector<LayoutInWords> layouts;
  std::istringstream stream(words);
  for (std::string layout; std::getline(stream, layout, ';');) layouts.push_back(layout_in_words(layout));
  if (layouts.empty()) refuse_by("layout_words", "--layouts", "", words);
  return layouts;
}

std::vector<std::string> smaller_layouts(const std::string& words) {
  std::vector<std::string> all, of_layout;
  std::istringstream stream(words);
  for (std::string word; stream >> word && !word.starts_with("--");) of_layout.push_back(word);
  const std::string others = words.substr(std::min(words.find("--"), words.size()));
  const auto with = [&](std::size_t place, const std::string& replacement) {
    std::vector<std::string> changed = of_layout;
    changed[place] = replacement;
    std::erase(changed, "");
    if (changed.empty()) changed.emplace_back("dp1");
    return fmt::format("{}{}{}", fmt::join(changed, " "), others.empty() ? "" : " ", others);
  };
  for (std::size_t i = 0; i < of_layout.size(); ++i)
    if (of_layout[i] != "dp1") all.push_back(with(i, ""));
  for (std::size_t i = 0; i < of_layout.size(); ++i) {
    const std::size_t digits = std::min(of_layout[i].find_first_of("0123456789"), of_layout[i].size());
    const std::int64_t size = size_in(of_layout[i], of_layout[i].substr(0, digits));
    for (std::int64_t smaller = 2; smaller < size; ++smaller)
      if (size % smaller == 0)
        all.push_back(with(i, fmt::format("{}{}", of_layout[i].substr(0, digits), smaller)));
  }
  return all;
}

std::vector<std::string> megatron_options(const LayoutInWords& layout) {
  std::vector<std::string> options;
  for (const SizeWord& each : kSizes) {
    const std::int64_t size = layout.*each.size;
    if (each.option.empty() || (size == 1 && !each.is_always_given)) continue;
    options.insert(options.end(), {std::string(each.option), fmt::format("{}", size)});
  }
  if (layout.is_sequence_parallel) options.emplace_back("--sequence-parallel");
  if (layout.has_distributed_optimizer) options.emplace_back("--use-distributed-optimizer");
  options.insert(options.end(), layout.others.begin(), layout.others.end());
  return options;
}

}  // namespace verify
