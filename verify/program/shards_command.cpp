#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <ostream>
#include <utility>

#include "sim/optimizer/range_map.h"
#include "verify/checks/parameter_count.h"
#include "verify/full_size/gradient_buffers.h"
#include "verify/memory/model_memory.h"
#include "verify/memory/scenario_memory.h"
#include "verify/output/json.h"
#include "verify/output/output_file.h"
#include "verify/output/phrases.h"
#include "verify/output/refusal_table.h"
#include "verify/output/report_json.h"
#include "verify/output/text_table.h"
#include "verify/program/commands.h"
#include "verify/program/report_files.h"
#include "verify/program/run_from.h"
#include "verify/report/shards_html.h"
#include "verify/requests/command_requests.h"
#include "verify/requests/scenario_request.h"

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

/// Returns what the document says of a buffer, but for the rank maps.
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

/// Writes the document of a buffer, which ends with these members.
void write_buffer(std::ostream& out, const sim::BufferLayout& layout, Json head, const std::string& last) {
  add_members(head, json_head(layout));
  std::string text = head.dump();
  text.pop_back();  // the closing brace
  out << text;
  if (layout.config.distributed_optimizer) {
    out << ",\"rank_maps\":";
    write_rank_maps(out, layout);
  }
  out << last << '}';
}

void write_document(std::ostream& out, const std::vector<ShownBuffer>& buffers, const std::string& last) {
  if (buffers.size() == 1 && buffers.front().title.empty()) {
    write_buffer(out, buffers.front().layout, Json::object(), last);
    out << '\n';
    return;
  }
  out << "{\"buffers\":";
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    out << (i == 0 ? '[' : ',');
    write_buffer(out, buffers[i].layout, {{"name", buffers[i].title}, {"names", buffers[i].names}}, "");
  }
  out << ']' << last << "}\n";
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

std::string draw(const ShownBuffer& buffer, std::size_t index) {
  const sim::BufferLayout& layout = buffer.layout;
  const sim::Bucket& bucket = layout.buckets[index];
  std::string text = fmt::format("\nbucket {}: elements {} to {}, padded by {} at the end\n", index,
                                 grouped_digits(bucket.range.begin), grouped_digits(bucket.range.end),
                                 bucket.range.size() - bucket.numel_unpadded);
  if (bucket.range.size() > 0) {
    const Bar bar = bar_of(layout, bucket);
    text += fmt::format("  [{}]\n", bar.contents);
    if (layout.config.distributed_optimizer)
      text += fmt::format("  |{}|  the part of rank ... begins\n", bar.owners);
  }
  constexpr std::size_t kListed = 40;
  TextTable table(
      {"", ">parameter", ">elements", ">begin", ">end", "owners", buffer.names.empty() ? "" : "name"});
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
    table.row(std::string(1, letter_of(place)), parameter, grouped_digits(range.size()),
              grouped_digits(range.begin), grouped_digits(range.end), owners,
              buffer.names.empty() ? "" : buffer.names[static_cast<std::size_t>(parameter)]);
  }
  text += table.text("  ");
  if (bucket.parameters.size() > kListed)
    text += fmt::format("  and {} more\n", bucket.parameters.size() - kListed);
  return text;
}

std::string as_text(const ShownBuffer& buffer) {
  const sim::BufferLayout& layout = buffer.layout;
  std::int64_t padding = layout.numel();
  for (const auto& parameter : layout.parameters) padding -= parameter.range.size();
  std::string text = fmt::format(
      "{}{}, {} in {}, {} of padding; {}\n", buffer.title.empty() ? "" : buffer.title + ": ",
      counted(std::ssize(layout.parameters), "parameter"), grouped_digits(layout.numel()) + " elements",
      counted(std::ssize(layout.buckets), "bucket"), padding,
      layout.config.distributed_optimizer
          ? fmt::format("{}, each owns an equal part of every bucket", counted(layout.config.owners, "rank"))
          : "no distributed optimizer: every rank has all of it");
  for (std::size_t bucket = 0; bucket < layout.buckets.size(); ++bucket) text += draw(buffer, bucket);
  return text;
}

/// Refuses a model whose list of parameters is too long to read.
void require_listed(const sim::GptConfig& shape) {
  constexpr std::int64_t kMostLayers = 10'000;
  if (shape.num_layers <= kMostLayers) return;
  refuse_by("too_many_layers", "--num-layers", shape.num_layers, kMostLayers);
}

std::string name_of(const HeldParameter& held) {
  return std::string(held.name.empty() ? "a norm or a bias" : held.name);
}

ShownBuffer shown_buffer(std::string title, const std::vector<HeldParameter>& held,
                         const sim::BufferConfig& config) {
  std::vector<sim::BufferParameter> parameters;
  ShownBuffer shown{.title = std::move(title), .layout = {}};
  for (const HeldParameter& parameter : held) {
    parameters.push_back({parameter.elements, parameter.is_shared});
    shown.names.push_back(name_of(parameter));
  }
  shown.layout = buffer_layout(parameters, config);
  return shown;
}

/// Returns the buffer of the parameters that a rank holds of a whole GPT, in the order of the model. Experts
/// that are reduced over other ranks lie in other buffers, and are left out.
ShownBuffer buffer_of_model(const sim::GptConfig& shape, const ShardsRequest& request) {
  require_listed(shape);
  parameter_count(shape);  // refuses a bad shape
  const ShardSizes sizes{.tp = request.tensor_model_parallel_size,
                         .ep = request.expert_model_parallel_size,
                         .etp = request.expert_tensor_parallel_size};
  const Stage whole{
      .layers = {{.count = static_cast<int>(shape.num_layers)}}, .is_first = true, .is_last = true};
  const BufferContents contents =
      contents_of_buffers(held_parameters(shape, whole, sizes), sizes.has_expert_grid());
  return shown_buffer("", contents.dense, request.config);
}

/// Returns the run whose buffers are shown; nothing where it has no number of ranks.
std::optional<ScenarioRequest> run_with_buffers(const CommandLine& line) {
  const Scenario scenario = requested_scenario(line);
  if (!scenario.run.is_given() || !scenario.settings.has("world-size")) return std::nullopt;
  require_modelled(scenario.run, Unproved::layers);
  ScenarioRequest run = scenario_request(scenario, Asked::sizes);
  require_memory(scenario, run);
  require_listed(run.model.config);
  if (line.settings.has("data-parallel-size"))
    refuse_without_effect("data-parallel-size", "shards' with '--from");
  return run;
}

/// Returns the buffers of a pipeline rank of a run.
std::vector<ShownBuffer> buffers_of_run(const ScenarioRequest& run, const ShardsRequest& request) {
  if (request.stage >= run.layout.pp)
    refuse_by("no_such_stage", "--stage", request.stage, counted(run.layout.pp, "pipeline rank"));
  std::vector<ShownBuffer> shown;
  for (const GradientBuffer& buffer : gradient_buffers(run, request.stage)) {
    sim::BufferConfig config = request.config;
    config.owners = buffer.replicas / run.layout.instances;
    config.distributed_optimizer = run.state.is_distributed;
    if (!config.bucket_size) config.bucket_size = buffer.bucket_size;
    const std::string title =
        fmt::format("Pipeline rank {}, chunk {}, reduced over {}", request.stage, buffer.chunk, buffer.group);
    shown.push_back(shown_buffer(title, buffer.held, config));
  }
  return shown;
}

constexpr const char* kOrder =
    "Within a layer, parameters are in the order of this program, and biases of routers are left out: a "
    "bucket "
    "of Megatron may end at another parameter.";

std::vector<ShownBuffer> shown_buffers(const CommandLine& line, const ShardsRequest& request) {
  if (request.model)
    if (const std::optional<ScenarioRequest> run = run_with_buffers(line))
      return buffers_of_run(*run, request);
  if (line.settings.has("stage")) refuse_without_effect("stage", "shards' without '--from");
  if (request.model) return {buffer_of_model(*request.model, request)};
  return {{.title = "", .layout = buffer_layout(request.parameters, request.config)}};
}

/// Returns what a reader has to know of the buffers: of a run, or of a model whose ranks are not known.
std::string note_about(const CommandLine& line, const ShardsRequest& request,
                       const std::vector<ShownBuffer>& buffers) {
  if (!request.model) return "";
  if (!buffers.front().title.empty()) return kOrder;
  if (!line.run.is_given()) return "";
  return "The number of ranks is not known: the whole model is shown, as one pipeline rank has it.";
}

}  // namespace

int run_shards(const Call& call) {
  const ShardsRequest request = shards_request(call.line);
  const std::optional<OutputFile> page = output_file(call.line, "report");
  const std::vector<ShownBuffer> buffers = shown_buffers(call.line, request);
  if (page) page->write(shards_html(buffers));
  if (asks_for_json(call.line)) {
    write_document(call.output.out, buffers, last_members(call));
  } else {
    for (const ShownBuffer& buffer : buffers)
      call.output.out << (&buffer == &buffers.front() ? "" : "\n") << as_text(buffer);
    const std::string note = note_about(call.line, request, buffers);
    if (!note.empty()) call.output.out << "\n" << note << "\n";
  }
  return kVerified;
}

}  // namespace verify
