// Trains our GPT (sim/model) as a program over Megatron has trained its own, and writes what each rank computes, in the
// form of verify/python/shardproof/recorded.py, and its calls.
//
//   own_gpt THEIRS OURS [SITE:FAULT...]
//
// THEIRS is a folder that held_gpt.py has written: values, samples, and the arguments of Megatron. The layout, the model,
// the dtype, the first parameters and the samples are from there. Faults are planted in our calls.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/cpu/cpu_device.h"
#include "sim/optimizer/safetensors.h"
#include "sim/world/simulate.h"
#include "verify/faults/faulty_calls.h"
#include "verify/full_size/full_size_training.h"
#include "verify/output/json.h"
#include "verify/run/value_files.h"
#include "verify/run_arguments/run_document.h"

namespace verify {

namespace {

constexpr std::int64_t kSteps = 3;  // that recorded.py keeps

// ---- names --------------------------------------------------------------------------------------------------------

// How Megatron's checkpoints name what stands under a layer, where it is not as its modules do: our name and theirs.
constexpr std::pair<std::string_view, std::string_view> kNamesInCheckpoints[] = {
    {"input_layernorm.", "self_attention.linear_qkv.layer_norm_"},
    {"pre_mlp_layernorm.", "mlp.linear_fc1.layer_norm_"},
    {"self_attention.q_layernorm.", "self_attention.linear_q_up_proj.layer_norm_"},
    {"self_attention.kv_layernorm.", "self_attention.linear_kv_up_proj.layer_norm_"},
    {"mlp.experts.local_experts.", "mlp.experts.experts."},
};

/// Takes "3." from the front of a text, and returns "[3]".
std::string taken_number(std::string& text) {
  const std::size_t end = text.find('.');
  std::string number = fmt::format("[{}]", text.substr(0, end));
  text.erase(0, end + 1);
  return number;
}

/// Returns the names that Megatron's checkpoints may have for a parameter.
std::vector<std::string> names_of_megatron(const sim::Parameter& parameter) {
  static const std::string kLayers = "decoder.layers.", kExperts = "mlp.experts.local_experts.";
  const std::string& copied = parameter.attributes.copy_of;
  std::string name = copied.empty() ? parameter.name : copied;
  if (!name.starts_with(kLayers)) return {name};
  name.erase(0, kLayers.size());
  const std::string layer = taken_number(name);
  std::string expert;
  if (name.starts_with(kExperts)) {
    std::string rest = name.substr(kExperts.size());
    expert = taken_number(rest);
    name = kExperts + rest;
  }
  std::vector<std::string> names;
  const auto add = [&](const std::string& of_layer) {
    names.push_back(kLayers + of_layer + layer + expert);
    // Layers that are not all alike have names of their own.
    names.push_back(fmt::format("{}{}.{}{}", kLayers, layer.substr(1, layer.size() - 2), of_layer, expert));
  };
  add(name);
  for (const auto& [own, of_megatron] : kNamesInCheckpoints)
    if (name.starts_with(own)) add(std::string(of_megatron) + name.substr(own.size()));
  return names;
}

// ---- what the other program has written ---------------------------------------------------------------------------

struct Theirs {
  ValuesOfFolder folder;
  bool has_fused_gelu = false;
  ScenarioRequest request;
  std::vector<sim::Sample> samples;
};

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns samples of S + 1 tokens, of which a label is the token behind its own.
std::vector<sim::Sample> samples_of(const GlobalValue& value) {
  const std::vector<double> ids = value.elements();
  const auto length = static_cast<std::size_t>(value.whole.back());
  std::vector<sim::Sample> samples(ids.size() / length);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::int32_t>(ids[i]);
    sim::Sample& sample = samples[i / length];
    if (i % length + 1 < length) sample.tokens.push_back(id);
    if (i % length > 0) sample.labels.push_back(id);
  }
  return samples;
}

Theirs read_theirs(const std::string& folder) {
  const RunOfFile run = run_of(read_run_document(text_of_file(folder + "/arguments.json")));
  Theirs theirs{.folder = values_of_folder(folder, "THEIRS"),
                .has_fused_gelu = run.values.flag("bias-gelu-fusion"),
                .request = scenario_request({.settings = run.settings, .run = run})};
  theirs.samples = samples_of(theirs.folder.values.at({0, PublishedKind::value, "samples"}));
  return theirs;
}

/// Returns the training of a pipeline rank, with the rates of pretrain.py.
sim::GptTrainingConfig own_training(const Theirs& theirs, int pipeline_rank) {
  const sim::GptConfig& given = theirs.request.model.config;
  sim::GptTrainingConfig config = full_size_training(theirs.request, pipeline_rank);
  config.model.dtype = theirs.folder.coarsest;
  config.model.window = given.window;
  config.model.experts = given.experts;
  if (!given.gated && !theirs.has_fused_gelu) config.model.activation = sim::Activation::gelu_erf;
  config.optimizer.weight_decay = {1, 100};
  return config;
}

// ---- what a rank has ----------------------------------------------------------------------------------------------

/// A part of a shard that lies in one block of the whole: the shard, or a half of that of a gated layer.
struct Block {
  std::vector<std::int64_t> offset, shape;
  sim::ElementRange range;  // of the elements of the shard
};

std::vector<std::int64_t> sizes_of(const sim::Shape& shape) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < shape.dimensions(); ++i) sizes.push_back(shape[i]);
  return sizes;
}

std::vector<Block> blocks_of(const sim::Parameter& parameter) {
  const sim::ParameterAttributes& cut = parameter.attributes;
  std::vector<std::int64_t> shape = sizes_of(parameter.whole), offset(shape.size());
  const std::int64_t elements = parameter.value.count() / cut.partition_stride;
  const auto dim = static_cast<std::size_t>(std::max(cut.partition_dim, 0));
  if (cut.tensor_model_parallel) shape[dim] /= std::int64_t{cut.partition_size} * cut.partition_stride;
  std::vector<Block> blocks;
  for (std::int64_t b = 0; b < cut.partition_stride; ++b) {
    if (cut.tensor_model_parallel) offset[dim] = (b * cut.partition_size + cut.partition_place) * shape[dim];
    blocks.push_back({offset, shape, {b * elements, (b + 1) * elements}});
  }
  return blocks;
}

/// The file of a rank.
class OwnFile {
 public:
  void add(const std::string& name, const sim::GuestPlace& place, sim::DType dtype,
           std::span<const std::byte> bytes) {
    const std::string number = fmt::format("{:08}", file_.tensors.size());
    const std::int64_t count = std::ssize(bytes) / size_of(dtype);
    file_.tensors[number] = {dtype, {count}, {bytes.begin(), bytes.end()}};
    file_.metadata[number] = Json{
        {"do", "publish"},
        {"name", name},
        {"tensor", {name_of(dtype), 0, count}},
        {"place",
         {{"kind", place.kind},
          {"step", place.step},
          {"whole", place.whole},
          {"offset", place.offset},
          {"shape", place.shape},
          {"begin",
           place.begin}}}}.dump();
  }
  void add_number(const std::string& kind, std::int64_t step, const std::string& name,
                  const std::vector<double>& numbers) {
    const std::vector<std::int64_t> shape = numbers.size() == 1
                                                ? std::vector<std::int64_t>{1}
                                                : std::vector<std::int64_t>{1, std::ssize(numbers)};
    add(name, {kind, step, shape, std::vector<std::int64_t>(shape.size()), shape, 0}, sim::DType::f64,
        std::as_bytes(std::span(numbers)));
  }
  void write(const std::string& path) const { std::ofstream(path, std::ios::binary) << sim::encoded(file_); }

 private:
  sim::Safetensors file_;
};

/// Returns the one number of a tensor.
double number_in(const sim::Tensor& tensor) {
  const std::vector<std::byte> bytes = sim::host_bytes(tensor);
  return sim::with_scalar(tensor.dtype(), [&](auto scalar) {
    std::memcpy(&scalar, bytes.data(), sizeof scalar);
    if constexpr (std::is_floating_point_v<decltype(scalar)>) return static_cast<double>(scalar);
    return std::nan("");
  });
}

/// The training of one rank, which is written down.
class OwnRank {
 public:
  OwnRank(sim::Rank& rank, const Theirs& theirs, OwnFile& file)
      : rank_(rank),
        theirs_(theirs),
        file_(file),
        training_(rank, own_training(theirs, rank.groups.get("pp").rank()), [&theirs](std::int64_t number) {
          return theirs.samples.at(static_cast<std::size_t>(number));
        }) {
    for (sim::Parameter* parameter : training_.parameters()) begin_with_theirs(*parameter);
    for (sim::DistributedOptimizer::Piece& piece : training_.optimizer().pieces()) begin_with_value(piece);
  }

  void train() {
    add_samples();
    for (std::int64_t step = 0; step < kSteps; ++step) {
      training_.forward_backward(step);
      training_.finalize_model_grads();
      for (const sim::Parameter* parameter : training_.parameters())
        add("parameter", step, "", *parameter, parameter->value, {0, parameter->value.count()});
      for (const auto& piece : training_.optimizer().pieces())
        add("gradient", step, "", *piece.parameter, piece.grad, piece.range);
      const sim::GptTraining::Result result = training_.update({1, 1000});
      training_.optimizer().finish_param_gather();
      add_results(step, result);
    }
  }

 private:
  /// Returns the name that the other program has for a parameter.
  const std::string& name_of_theirs(const sim::Parameter& parameter) {
    std::string& name = names_[&parameter];
    for (const std::string& each : names_of_megatron(parameter))
      if (theirs_.folder.values.values.contains({0, PublishedKind::parameter, each})) name = each;
    if (name.empty()) throw std::runtime_error("the other program has no parameter for " + parameter.name);
    return name;
  }

  /// Says which samples the training has, on the first rank.
  void add_samples() {
    if (rank_.id != 0) return;
    std::vector<double> ids;
    for (const sim::Sample& sample : theirs_.samples) {
      ids.insert(ids.end(), sample.tokens.begin(), sample.tokens.end());
      ids.push_back(sample.labels.back());
    }
    const auto number = std::ssize(theirs_.samples);
    const std::vector<std::int64_t> whole = {number, std::ssize(ids) / number};
    file_.add("samples", {"value", 0, whole, {0, 0}, whole, 0}, sim::DType::f64,
              std::as_bytes(std::span(ids)));
  }

  void begin_with_theirs(sim::Parameter& parameter) {
    const GlobalValue theirs =
        theirs_.folder.values.at({0, PublishedKind::parameter, name_of_theirs(parameter)});
    if (theirs.whole != sizes_of(parameter.whole))
      throw std::runtime_error(fmt::format("{} has the shape {} here and {} there", parameter.name,
                                           text_of(parameter.whole), text_of_shape(theirs.whole)));
    const std::vector<double> whole = theirs.elements();
    std::vector<double> shard;
    for (const Block& block : blocks_of(parameter)) {
      const std::int64_t width = theirs.whole.size() > 1 ? theirs.whole[1] : 1,
                         columns = block.shape.size() > 1 ? block.shape[1] : 1;
      const std::int64_t first = block.offset.size() > 1 ? block.offset[1] : 0;
      for (std::int64_t row = block.offset[0]; row < block.offset[0] + block.shape[0]; ++row)
        for (std::int64_t column = first; column < first + columns; ++column)
          shard.push_back(whole[static_cast<std::size_t>(row * width + column)]);
    }
    const sim::Tensor exact = sim::from_host(parameter.value.device(), sim::DType::f64,
                                             parameter.value.shape(), std::as_bytes(std::span(shard)));
    sim::copy(sim::cast(exact, parameter.value.dtype()), parameter.value);
  }

  static void begin_with_value(sim::DistributedOptimizer::Piece& piece) {
    const sim::Tensor own = piece.parameter->value.flat().rows(piece.range.begin, piece.range.end);
    if (piece.main.dtype() != own.dtype()) sim::copy(sim::cast(own, piece.main.dtype()), piece.main);
  }

  /// Adds those elements of a tensor, which are a range of a parameter's.
  void add(const std::string& kind, std::int64_t step, const std::string& state,
           const sim::Parameter& parameter, const sim::Tensor& tensor, const sim::ElementRange& range) {
    const std::vector<std::byte> bytes = sim::host_bytes(tensor);
    const std::string name = (state.empty() ? "" : state + " of ") + names_.at(&parameter);
    for (const Block& block : blocks_of(parameter)) {
      const std::int64_t begin = std::max(range.begin, block.range.begin),
                         end = std::min(range.end, block.range.end);
      if (begin >= end) continue;
      const std::int64_t size = size_of(tensor.dtype());
      file_.add(name,
                {kind, step, sizes_of(parameter.whole), block.offset, block.shape, begin - block.range.begin},
                tensor.dtype(),
                std::span(bytes).subspan(static_cast<std::size_t>((begin - range.begin) * size),
                                         static_cast<std::size_t>((end - begin) * size)));
    }
  }

  void add_results(std::int64_t step, const sim::GptTraining::Result& result) {
    if (training_.chunks().back().chunk().post_process)
      file_.add_number("loss", step, "lm loss", {number_in(result.loss), 1});
    file_.add_number("norm", step, "norm of the gradients",
                     {std::sqrt(number_in(training_.optimizer().grad_norm_squared()))});
    for (const auto& piece : training_.optimizer().pieces()) {
      add("state", step, "exp_avg", *piece.parameter, piece.exp_avg, piece.range);
      add("state", step, "exp_avg_sq", *piece.parameter, piece.exp_avg_sq, piece.range);
      add("state", step, "main_param", *piece.parameter, piece.main, piece.range);
    }
  }

  sim::Rank& rank_;
  const Theirs& theirs_;
  OwnFile& file_;
  sim::GptTraining training_;
  std::map<const sim::Parameter*, std::string> names_;
};

/// Returns the calls of a rank, each as held_gpt.py writes it.
Json calls_of(const sim::RankReport& rank) {
  return json_list(rank.calls, [](const sim::CallRecord& call) {
    const bool has_peer = is_point_to_point(call.operation);
    return Json::array({name_of(call.operation), call.group->members,
                        has_peer ? call.group->rank_at(call.root_or_peer) : -1, call.count,
                        name_of(call.dtype), call.site.name, call.group->kind});
  });
}

/// Trains as the other program has, and writes what comes of it. Returns the exit code.
int train(const std::string& folder, const std::string& own, const std::vector<Fault>& faults) {
  const Theirs theirs = read_theirs(folder);
  const sim::WorldSpec spec{.layout = theirs.request.layout};
  sim::CpuDevice device;
  std::vector<OwnFile> files(static_cast<std::size_t>(theirs.folder.ranks));
  const sim::RankProgram program = [&](sim::Rank& rank) {
    OwnRank(rank, theirs, files[static_cast<std::size_t>(rank.id)]).train();
  };
  const sim::RunReport run =
      sim::simulate(spec, device, with_faults(program, with_calls_before(faults, spec, device, program)));
  std::filesystem::create_directories(own);
  for (std::size_t rank = 0; rank < files.size(); ++rank) {
    files[rank].write(fmt::format("{}/values-{:05}-of-{:05}.safetensors", own, rank, files.size()));
    std::ofstream(fmt::format("{}/calls-{}.json", own, rank)) << calls_of(run.ranks[rank]).dump();
  }
  if (run.ok()) return 0;
  fmt::print(stderr, "{}\n", run.failure());
  return 3;
}

}  // namespace

}  // namespace verify

int main(int count, char** words) try {
  const std::vector<std::string> given(words + 1, words + count);
  if (given.size() < 2) {
    fmt::print(stderr, "own_gpt THEIRS OURS [SITE:FAULT...]\n");
    return 2;
  }
  return verify::train(given[0], given[1], verify::parsed_faults({given.begin() + 2, given.end()}));
} catch (const std::exception& error) {
  fmt::print(stderr, "own_gpt: {}\n", error.what());
  return 2;
}
