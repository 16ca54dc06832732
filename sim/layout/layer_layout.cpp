#include "sim/layout/layer_layout.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fmt/format.h>
#include <string_view>

#include "sim/base/error.h"
#include "sim/layout/parallel_sizes.h"

namespace sim {

namespace {

constexpr const char* kOption = "--pipeline-model-parallel-layout";
constexpr auto kMaxLength = static_cast<std::size_t>(kMaxSize);
constexpr std::size_t kMaxGivenLength = 1 << 16;  // characters, before any repetition is written out

[[noreturn]] void refuse_layout(const char* code, std::string numbers, std::string rule, std::string hint) {
  refuse({.code = code,
          .option = kOption,
          .numbers = std::move(numbers),
          .rule = std::move(rule),
          .hint = std::move(hint)});
}

void append_times(std::string& out, std::string_view piece, std::size_t times) {
  if (piece.size() * times + out.size() > kMaxLength) {
    refuse_layout("layout_too_long",
                  fmt::format("'{}' written out {} times or more", piece.substr(0, 40), times),
                  fmt::format("a layout has at most {} characters when written out", kMaxLength),
                  "use smaller repetition counts");
  }
  for (std::size_t i = 0; i < times; ++i) out += piece;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Reads "*digits" at position `at`. Returns the count and moves `at` past it, or returns nothing if there
/// is no such text.
std::optional<std::size_t> read_times(std::string_view text, std::size_t& at) {
  if (at + 1 >= text.size() || text[at] != '*' || !is_digit(text[at + 1])) return std::nullopt;
  std::size_t times = 0;
  for (++at; at < text.size() && is_digit(text[at]); ++at) {
    times = std::min(times * 10 + static_cast<std::size_t>(text[at] - '0'), kMaxLength + 1);
  }
  return times;
}

std::string write_out_parentheses(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t close = text[at] == '(' ? text.find(')', at) : std::string_view::npos;
    std::size_t behind = close == std::string_view::npos ? text.size() : close + 1;
    const std::optional<std::size_t> times = read_times(text, behind);
    if (text[at] == '(' && times && close > at + 1) {
      append_times(out, text.substr(at + 1, close - at - 1), *times);
      at = behind;
    } else {
      append_times(out, text.substr(at++, 1), 1);
    }
  }
  return out;
}

std::string write_out_letters(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t behind = at + 1;
    const std::size_t times = read_times(text, behind).value_or(1);
    append_times(out, text.substr(at, 1), times);
    at = behind;
  }
  return out;
}

std::string write_out(const std::string& layout) {
  if (layout.size() > kMaxGivenLength) {
    refuse_layout("layout_too_long", fmt::format("{} characters", layout.size()),
                  fmt::format("a layout is given in at most {} characters", kMaxGivenLength),
                  "x*n and (...)*n");
  }
  std::string text = layout;
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());
  return write_out_letters(write_out_parentheses(text));
}

void require_letters(const std::string& layout, const std::string& written_out) {
  const std::size_t bad = written_out.find_first_not_of("EtmL|");
  if (bad == std::string::npos) return;
  refuse_layout(
      "layout_syntax", fmt::format("the character '{}' in '{}'", written_out[bad], layout),
      "a layout is stages of E, t, m, L separated by '|'; x*n and (...)*n repeat, unnested, no spaces",
      "'Et*3|(tt|)*29,m|L', for example");
}

void require_ends(const std::string& layout, const std::string& written_out) {
  std::string letters = written_out;
  letters.erase(std::remove(letters.begin(), letters.end(), '|'), letters.end());
  const auto count = [&](char letter) { return std::count(letters.begin(), letters.end(), letter); };
  if (!letters.empty() && letters.front() == 'E' && letters.back() == 'L' && count('E') == 1 &&
      count('L') == 1)
    return;
  refuse_layout("layout_ends", fmt::format("'{}' has {} E and {} L", layout, count('E'), count('L')),
                "a layout starts with its only E and ends with its only L", "'E...|...L'");
}

std::vector<std::string_view> split_stages(std::string_view written_out) {
  std::vector<std::string_view> stages;
  for (std::size_t start = 0;;) {
    const std::size_t bar = written_out.find('|', start);
    stages.push_back(written_out.substr(start, bar - start));
    if (bar == std::string_view::npos) return stages;
    start = bar + 1;
  }
}

void require_stage_count(std::size_t stages, int pp, std::optional<int> vpp) {
  if (stages > static_cast<std::size_t>(kMaxStages)) {
    refuse_layout("stages_range", fmt::format("{} stages", stages),
                  fmt::format("a pipeline has at most {} stages", kMaxStages), "fewer '|'");
  }
  const auto ranks = static_cast<std::size_t>(pp);
  if (stages % ranks != 0) {
    refuse_layout("layout_stages", fmt::format("{} stages on {} pipeline ranks", stages, pp),
                  "the number of stages must be a multiple of pp",
                  fmt::format("{} stages; two bars with nothing between are an empty stage",
                              (stages / ranks + 1) * ranks));
  }
  if (stages / ranks > 1 && pp == 1) {
    refuse_layout("vpp_needs_pp", fmt::format("{} stages, but pp is 1", stages),
                  "a virtual pipeline needs more than one pipeline stage", "one stage, without '|'");
  }
  if (vpp && static_cast<std::size_t>(*vpp) != stages / ranks) {
    refuse_layout(
        "layout_vpp",
        fmt::format("{} stages on {} ranks are {} chunks a rank, but the virtual pipeline size is {}", stages,
                    pp, stages / ranks, *vpp),
        "the layout itself says the number of chunks", "leave out --virtual-pipeline-model-parallel-size");
  }
}

/// Checks the multi-token-prediction layers: they come after every transformer layer, all in one stage,
/// and that stage is the last chunk of its rank.
void require_mtp(const std::vector<LayerStage>& stages, const std::string& written_out, int pp,
                 int mtp_num_layers) {
  const auto last_decoder = written_out.rfind('t');
  const auto first_mtp = written_out.find('m');
  int layers = 0;
  int holders = 0;
  bool last_chunk = true;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    layers += stages[s].mtp_layers;
    if (stages[s].mtp_layers == 0) continue;
    ++holders;
    last_chunk = last_chunk && s + static_cast<std::size_t>(pp) >= stages.size();
  }
  const bool after_decoder =
      first_mtp == std::string::npos || last_decoder == std::string::npos || last_decoder < first_mtp;
  if (layers == mtp_num_layers && holders <= 1 && last_chunk && after_decoder) return;
  refuse_layout(
      "layout_mtp",
      fmt::format("{} m in {} stages, --mtp-num-layers is {}{}{}", layers, holders, mtp_num_layers,
                  after_decoder ? "" : ", a t stands after an m",
                  last_chunk ? "" : ", one is not in its rank's last chunk"),
      "a layout has --mtp-num-layers m, all in one stage, in a rank's last chunk, with no t after them",
      layers == mtp_num_layers || layers == 0 ? std::string("put the m just before the L")
                                              : fmt::format("--mtp-num-layers {}", layers));
}

std::int64_t stages_of(const std::string& written_out) {
  return std::count(written_out.begin(), written_out.end(), '|') + 1;
}

}  // namespace

std::int64_t stages_of_layout(const std::string& layout) { return stages_of(write_out(layout)); }

std::vector<LayerStage> read_layer_layout(const std::string& layout, int pp, std::optional<int> vpp,
                                          int num_layers, int mtp_num_layers) {
  const std::string written_out = write_out(layout);
  require_letters(layout, written_out);
  require_stage_count(static_cast<std::size_t>(stages_of(written_out)), pp, vpp);
  const std::vector<std::string_view> texts = split_stages(written_out);
  require_ends(layout, written_out);
  std::vector<LayerStage> stages;
  int decoder_layers = 0;
  for (const std::string_view text : texts) {
    stages.push_back({static_cast<int>(std::count(text.begin(), text.end(), 't')),
                      static_cast<int>(std::count(text.begin(), text.end(), 'm'))});
    decoder_layers += stages.back().decoder_layers;
  }
  if (decoder_layers != num_layers) {
    refuse_layout("layout_layers",
                  fmt::format("'{}' holds {} t, --num-layers is {}", layout, decoder_layers, num_layers),
                  "a layout has one t for each layer",
                  decoder_layers > 0 ? fmt::format("--num-layers {}", decoder_layers)
                                     : "a layout with a t for every layer");
  }
  require_mtp(stages, written_out, pp, mtp_num_layers);
  return stages;
}

}  // namespace sim
