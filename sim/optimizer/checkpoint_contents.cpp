#include "sim/optimizer/checkpoint_contents.h"

#include <array>
#include <fmt/format.h>
#include <map>
#include <set>

#include "sim/base/error.h"
#include "sim/optimizer/safetensors.h"

namespace sim {

namespace {

using Piece = DistributedOptimizer::Piece;

/// One of the three tensors that a checkpoint keeps for each parameter.
struct Kept {
  const char* name;
  Tensor Piece::*tensor;
};
constexpr std::array<Kept, 3> kKept = {
    {{"main", &Piece::main}, {"exp_avg", &Piece::exp_avg}, {"exp_avg_sq", &Piece::exp_avg_sq}}};

std::string form_of(const Parameter& parameter) {
  return fmt::format("{} {}, dimension {}, stride {}", name_of(parameter.value.dtype()),
                     text_of(parameter.whole), parameter.attributes.partition_dim,
                     parameter.attributes.partition_stride);
}

/// Returns the name of a parameter in a checkpoint. A tied copy has that of the original.
const std::string& name_in_checkpoint(const Parameter& parameter) {
  return parameter.attributes.copy_of.empty() ? parameter.name : parameter.attributes.copy_of;
}

/// Whether this rank is the first of the ranks that hold the same pieces of a parameter.
bool is_first_holder(const DistributedOptimizer& optimizer, const Parameter& parameter) {
  if (!optimizer.is_counted(parameter)) return false;
  const DistributedDataParallel& data_parallel = optimizer.data_parallel();
  const auto& part = data_parallel.parts()[data_parallel.place_of(parameter)->part];
  if (!data_parallel.is_distributed()) return part.replicas->rank() == 0;
  return part.across == nullptr || part.across->rank() == 0;
}

class Collector {
 public:
  Collector(Rank& rank, DistributedOptimizer& optimizer) : rank_(rank), optimizer_(optimizer) {}

  void add_parameters() {
    for (const auto& part : optimizer_.data_parallel().parts()) {
      for (const Parameter* parameter : part.buffer.parameters()) {
        const std::string& name = name_in_checkpoint(*parameter);
        require_name(name);
        first_tensor_[parameter] = contents_.tensors.size();
        for (const Kept& kept : kKept) {
          contents_.tensors.push_back({fmt::format("{}/{}", name, kept.name), form_of(*parameter),
                                       parameter->main_grad.dtype(), *parameter});
        }
      }
    }
    for (const Piece& piece : optimizer_.pieces()) add_piece(piece);
  }

  void add_buffer(const CheckpointBuffer& buffer) {
    require_name(buffer.name);
    const Parameter uncut{.name = buffer.name, .whole = buffer.tensor.shape(), .value = buffer.tensor};
    const bool is_first = rank_.groups.get("tp").rank() == 0 && rank_.groups.get("dp-cp").rank() == 0;
    contents_.pieces.push_back(
        {contents_.tensors.size(), {0, buffer.tensor.count()}, buffer.tensor, is_first});
    contents_.tensors.push_back({buffer.name, form_of(uncut), buffer.tensor.dtype(), uncut});
  }

  CheckpointContents contents() { return std::move(contents_); }

 private:
  void require_name(const std::string& name) {
    const char* wrong = seen_.insert(name).second ? nullptr : "two parameters of one rank have this name";
    if (!is_utf8(name)) wrong = "the name is not UTF-8";
    if (wrong == nullptr) return;
    refuse({.code = "checkpoint_names",
            .option = name,
            .numbers = wrong,
            .rule = "a checkpoint finds parameters by their names, so names are unique and UTF-8",
            .hint = "a name that contains the number of its layer"});
  }

  void add_piece(const Piece& piece) {
    const Parameter& parameter = *piece.parameter;
    const std::int64_t before = parameter.attributes.partition_place * parameter.value.count();
    const bool is_written = is_first_holder(optimizer_, parameter);
    std::size_t tensor = first_tensor_.at(piece.parameter);
    for (const Kept& kept : kKept) {
      contents_.pieces.push_back(
          {tensor++, {before + piece.range.begin, before + piece.range.end}, piece.*kept.tensor, is_written});
    }
  }

  Rank& rank_;
  DistributedOptimizer& optimizer_;
  CheckpointContents contents_;
  std::set<std::string> seen_;
  std::map<const Parameter*, std::size_t> first_tensor_;
};

}  // namespace

CheckpointContents checkpoint_contents(Rank& rank, DistributedOptimizer& optimizer,
                                       const std::vector<CheckpointBuffer>& buffers) {
  Collector collector(rank, optimizer);
  collector.add_parameters();
  for (const CheckpointBuffer& buffer : buffers) collector.add_buffer(buffer);
  return collector.contents();
}

}  // namespace sim
