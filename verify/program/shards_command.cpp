#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <ostream>

#include "sim/optimizer/range_map.h"
#include "verify/checks/parameter_count.h"
#include "verify/memory/model_memory.h"
#include "verify/output/json.h"
#include "verify/output/output_file.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/program/run_from.h"
#include "verify/report/shards_html.h"
#include "verify/requests/command_requests.h"

namespace verify {

namespace {

// ---- JSON

/// Writes the pieces of each rank in each bucket, one list at a time, because those of many ranks do not fit
/// into memory.
void write_rank_maps(std::ostream& out, const sim::BufferLayout& layout) {
  const auto piece_json = [](const sim::OwnedPiece& piece) {
    return Json{piece.parameter,
                piece.world.begin,
                piece.world.end,
                piece.world_in_bucket.begin,
                piece.world_in_bucket.end,
                piece.local.begin,
                piece.local.end,
                piece.param.begin,
                piece.param.end};
  };
  for (int rank = 0; rank < layout.config.owners && out; ++rank) {
    out << (rank == 0 ? "[[" : ",[");
    for (int bucket = 0; bucket < std::ssize(layout.buckets); ++bucket)
      out << (bucket == 0 ? "" : ",") << json_list(owned_pieces(layout, bucket, rank), piece_json).dump();
    out << ']';
  }
  out << ']';
}

/// Returns the beginning of the document: everything but the rank maps.
Json json_head(const sim::BufferLayout& layout) {
  const auto index = [](const sim::PlacedParameter& parameter) {
    return Json{parameter.range.begin, parameter.range.end, parameter.bucket};
  };
  const auto range = [](const sim::Bucket& bucket) { return Json{bucket.range.begin, bucket.range.end}; };
  const auto unpadded = [](const sim::Bucket& bucket) { return bucket.numel_unpadded; };
  return {{"param_index", json_list(layout.parameters, index)},
          {"buckets", json_list(layout.buckets, range)},
          {"numel_unpadded", json_list(layout.buckets, unpadded)},
          {"numel", layout.numel()}};
}

void write_document(std::ostream& out, const sim::BufferLayout& layout, const std::string& last_members) {
  std::string head = json_head(layout).dump();
  head.pop_back();  // the closing brace
  out << head;
  if (layout.config.distributed_optimizer) {
    out << ",\"rank_maps\":";
    write_rank_maps(out, layout);
  }
  out << last_members << "}\n";
}

// ---- text

constexpr std::int64_t kBarWidth = 64;

/// A bucket as a bar of letters: one letter for each parameter, and '.' for padding. A second line names
/// the rank that owns each place.
struct Bar {
  std::string contents;
  std::string owners;
};

char letter_of(std::size_t place) { return static_cast<char>('a' + place % 26); }
char digit_of(std::int64_t rank) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  return kDigits[static_cast<std::size_t>(rank) % kDigits.size()];
}

Bar bar_of(const sim::BufferLayout& layout, const sim::Bucket& bucket) {
  const std::int64_t width = std::min(kBarWidth, bucket.range.size());
  Bar bar{std::string(static_cast<std::size_t>(width), '.'),
          std::string(static_cast<std::size_t>(width), ' ')};
  const auto column = [&](std::int64_t element) {
    // 2^60 elements times the width would overflow.
    const int shift = bucket.range.size() >> 56 > 0 ? 16 : 0;
    const std::int64_t at = (element - bucket.range.begin) >> shift, size = bucket.range.size() >> shift;
    return static_cast<std::size_t>(std::min(at * width / size, width - 1));
  };
  for (std::size_t place = 0; place < bucket.parameters.size(); ++place) {
    const auto& range = layout.parameters[static_cast<std::size_t>(bucket.parameters[place])].range;
    if (range.size() == 0) continue;
    for (std::size_t x = column(range.begin); x <= column(range.end - 1); ++x)
      bar.contents[x] = letter_of(place);
  }
  for (int rank = 0; rank < layout.config.owners && layout.config.distributed_optimizer; ++rank) {
    const std::int64_t part = bucket.range.size() / layout.config.owners;
    bar.owners[column(bucket.range.begin + rank * part)] = digit_of(rank);
  }
  return bar;
}

std::string draw(const sim::BufferLayout& layout, std::size_t index) {
  const sim::Bucket& bucket = layout.buckets[index];
  std::string text =
      fmt::format("\nbucket {}: elements {} to {}, padded by {} at the end\n", index, bucket.range.begin,
                  bucket.range.end, bucket.range.size() - bucket.numel_unpadded);
  if (bucket.range.size() > 0) {
    const Bar bar = bar_of(layout, bucket);
    text += fmt::format("  [{}]\n", bar.contents);
    if (layout.config.distributed_optimizer)
      text += fmt::format("  |{}|  the part of rank ... begins\n", bar.owners);
  }
  constexpr std::size_t kListed = 40;
  TextTable table({"", ">parameter", ">elements", ">begin", ">end", "owners"});
  for (std::size_t place = 0; place < std::min(bucket.parameters.size(), kListed); ++place) {
    const int parameter = bucket.parameters[place];
    const auto& range = layout.parameters[static_cast<std::size_t>(parameter)].range;
    const std::int64_t part = std::max<std::int64_t>(bucket.range.size() / layout.config.owners, 1);
    const std::int64_t first = (range.begin - bucket.range.begin) / part;
    const std::int64_t last = (range.end - 1 - bucket.range.begin) / part;
    std::string owners = "all";
    if (layout.config.distributed_optimizer) {
      owners = range.size() == 0 ? "none"
               : first == last   ? fmt::format("{}", first)
                                 : fmt::format("{} to {}", first, last);
    }
    table.row(std::string(1, letter_of(place)), parameter, range.size(), range.begin, range.end, owners);
  }
  text += table.text("  ");
  if (bucket.parameters.size() > kListed)
    text += fmt::format("  and {} more\n", bucket.parameters.size() - kListed);
  return text;
}

std::string as_text(const sim::BufferLayout& layout) {
  std::int64_t padding = layout.numel();
  for (const auto& parameter : layout.parameters) padding -= parameter.range.size();
  std::string text = fmt::format(
      "{}, {} in {}, {} of padding; {}\n", counted(std::ssize(layout.parameters), "parameter"),
      counted(layout.numel(), "element"), counted(std::ssize(layout.buckets), "bucket"), padding,
      layout.config.distributed_optimizer
          ? fmt::format("{}, each owns an equal part of every bucket", counted(layout.config.owners, "rank"))
          : "no distributed optimizer: every rank has all of it");
  for (std::size_t bucket = 0; bucket < layout.buckets.size(); ++bucket) text += draw(layout, bucket);
  return text;
}

/// Refuses a model whose list of parameters is too long to read.
void require_listed(const sim::GptConfig& shape) {
  constexpr std::int64_t kMostLayers = 10'000;
  if (shape.num_layers <= kMostLayers) return;
  refuse_by("too_many_layers", "--num-layers", shape.num_layers, kMostLayers);
}

/// Returns the parameters that a rank holds of a whole GPT, in the order of the model. Experts that are
/// reduced over other ranks lie in other buffers, and are left out.
struct NamedParameters {
  std::vector<sim::BufferParameter> parameters;
  std::vector<std::string> names = {};  // empty without a model
};
NamedParameters parameters_of(const sim::GptConfig& shape, const ShardSizes& sizes) {
  require_listed(shape);
  parameter_count(shape);  // refuses a bad shape
  NamedParameters all;
  const Stage whole{
      .layers = {{.count = static_cast<int>(shape.num_layers)}}, .is_first = true, .is_last = true};
  for (const HeldParameter& held : held_parameters(shape, whole, sizes)) {
    if (held.is_expert && sizes.has_expert_grid()) continue;
    all.parameters.push_back({held.elements, held.is_shared});
    all.names.emplace_back(held.name.empty() ? "a norm or a bias" : held.name);
  }
  return all;
}

}  // namespace

int run_shards(const Call& call) {
  const ShardsRequest request = shards_request(call.line);
  const ShardSizes sizes{.tp = request.tensor_model_parallel_size,
                         .ep = request.expert_model_parallel_size,
                         .etp = request.expert_tensor_parallel_size};
  std::optional<OutputFile> page;
  if (call.line.settings.has("report")) page.emplace("report", call.line.settings.text("report", ""));
  const NamedParameters all =
      request.model ? parameters_of(*request.model, sizes) : NamedParameters{request.parameters};
  const sim::BufferLayout layout = buffer_layout(all.parameters, request.config);
  if (page) page->write(shards_html(layout, all.names));
  if (asks_for_json(call.line)) {
    write_document(call.output.out, layout, last_members(call));
  } else {
    call.output.out << as_text(layout);
  }
  return kVerified;
}

}  // namespace verify
