#include "sim/optimizer/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <set>
#include <utility>

#include "sim/base/error.h"
#include "sim/comm/refused_elsewhere.h"
#include "sim/optimizer/checkpoint_index.h"
#include "sim/optimizer/safetensors.h"
#include "sim/tensor/checks.h"

namespace sim {

namespace {

using Piece = DistributedOptimizer::Piece;

constexpr const char* kIndex = "index.json";

/// One of the three tensors that a checkpoint keeps for each piece.
struct Kept {
  const char* name;
  Tensor Piece::*tensor;
};
constexpr std::array<Kept, 3> kKept = {
    {{"main", &Piece::main}, {"exp_avg", &Piece::exp_avg}, {"exp_avg_sq", &Piece::exp_avg_sq}}};

std::map<std::string, int> sizes_of(const Layout& layout) {
  return {{"tp", layout.tp}, {"pp", layout.pp}, {"ep", layout.ep}, {"etp", layout.etp}};
}

std::optional<CheckpointIndex> index_in(CheckpointStore& store) {
  const std::optional<std::string> text = store.read(kIndex);
  return text ? std::optional(index_of(*text)) : std::nullopt;
}

struct Keyed {
  const Parameter* parameter;
  std::string key;  // the prefix of the names of its tensors
};

/// Returns the model-parallel place of a rank, as the prefix of a key. It depends neither on the number of
/// data-parallel ranks nor on the order of the axes.
std::string place_of(const Rank& rank, bool is_expert) {
  if (is_expert) {
    const PerAxis<int> at = rank.layout.expert.coordinates_of(rank.id);
    return fmt::format("etp {} ep {} pp {}/", at[Axis::tp], at[Axis::ep], at[Axis::pp]);
  }
  const PerAxis<int> at = rank.layout.dense.coordinates_of(rank.id);
  return fmt::format("tp {} pp {}/", at[Axis::tp], at[Axis::pp]);
}

/// Returns the dtype, shapes and partition of a parameter as text. Load compares it to the text of the
/// checkpoint.
std::string form_of(const Parameter& parameter) {
  return fmt::format("{} {} of {}, dimension {}, stride {}", name_of(parameter.value.dtype()),
                     text_of(parameter.value.shape()), text_of(parameter.whole),
                     parameter.attributes.partition_dim, parameter.attributes.partition_stride);
}

void require_name(const std::string& name, const std::set<std::string>& seen, const std::string& key) {
  const char* wrong = seen.contains(key) ? "two parameters of one rank have this name" : nullptr;
  if (!is_utf8(name)) wrong = "the name is not UTF-8";
  if (wrong == nullptr) return;
  refuse({.code = "checkpoint_names",
          .option = name,
          .numbers = wrong,
          .rule = "a checkpoint finds parameters by their names, so names are unique and UTF-8",
          .hint = "a name that contains the number of its layer"});
}

/// Returns the keys of this rank's parameters, in the order of the buffers.
std::vector<Keyed> keys_of(const Rank& rank, const DistributedOptimizer& optimizer) {
  std::vector<Keyed> keys;
  std::set<std::string> seen;
  for (const auto& part : optimizer.data_parallel().parts()) {
    for (const Parameter* parameter : part.buffer.parameters()) {
      const std::string key = place_of(rank, !parameter->attributes.allreduce) + parameter->name;
      require_name(parameter->name, seen, key);
      seen.insert(key);
      keys.push_back({parameter, key});
    }
  }
  return keys;
}

const std::string& key_of(const std::vector<Keyed>& keys, const Parameter* parameter) {
  return std::find_if(keys.begin(), keys.end(), [&](const Keyed& k) { return k.parameter == parameter; })
      ->key;
}

// ---- saving -----------------------------------------------------------------------------------------------

/// Whether this rank writes its pieces of a parameter: it is the first of the ranks that hold the same
/// pieces.
bool writes(const DistributedOptimizer& optimizer, const Parameter& parameter) {
  const DistributedDataParallel& data_parallel = optimizer.data_parallel();
  const auto& part = data_parallel.parts()[data_parallel.place_of(parameter)->part];
  if (!data_parallel.is_distributed()) return part.replicas->rank() == 0;
  return part.across == nullptr || part.across->rank() == 0;
}

Safetensors shard_of(const Rank& rank, DistributedOptimizer& optimizer) {
  const std::vector<Keyed> keys = keys_of(rank, optimizer);
  Safetensors shard;
  for (const Piece& piece : optimizer.pieces()) {
    if (!writes(optimizer, *piece.parameter)) continue;
    const std::string& key = key_of(keys, piece.parameter);
    for (const Kept& kept : kKept) {
      const Tensor& tensor = piece.*kept.tensor;
      shard.tensors[fmt::format("{}/{}@{}", key, kept.name, piece.range.begin)] = {
          tensor.dtype(), {tensor.count()}, host_bytes(tensor)};
      shard.metadata[fmt::format("{}/{}", key, kept.name)] = form_of(*piece.parameter);
    }
  }
  return shard;
}

/// Adds the pieces of a shard to the index. The shard is read back from the store, so that the index
/// describes what has really been written.
void add_shard(const std::string& name, CheckpointStore& store, CheckpointIndex& index) {
  const std::string bytes = store.read(name).value_or("");
  const Safetensors shard = decoded(bytes, name);
  if (shard.tensors.empty()) return;
  index.files[name] = {static_cast<std::int64_t>(bytes.size()), hash_of(bytes)};
  for (const auto& [key, tensor] : shard.tensors) {
    const std::size_t at = key.rfind('@');
    const std::int64_t begin = std::stoll(key.substr(at + 1));
    CheckpointTensor& whole = index.tensors[key.substr(0, at)];
    whole.dtype = tensor.dtype;
    whole.form = shard.metadata.at(key.substr(0, at));
    whole.pieces.push_back({name, {begin, begin + tensor.shape.front()}});
  }
}

/// Removes the shards that other saves have left. The new checkpoint is already in place, so a file that
/// cannot be removed now is no error; it is removed after the next save.
void remove_others(const CheckpointIndex& index, CheckpointStore& store) {
  try {
    for (const std::string& name : store.names()) {
      if (is_shard_name(name) && !index.files.contains(name)) store.remove(name);
    }
  } catch (const Error&) {
  }
}

void commit(const Rank& rank, CheckpointIndex index, CheckpointStore& store) {
  for (const int writer : rank.groups.world().group().members)
    add_shard(shard_name(index.generation, writer), store, index);
  for (auto& [name, tensor] : index.tensors) {
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const auto& a, const auto& b) { return a.range.begin < b.range.begin; });
  }
  store.replace(kIndex, text_of(index));
  remove_others(index, store);
}

// ---- loading ----------------------------------------------------------------------------------------------

[[noreturn]] void refuse_model(std::string option, std::string numbers) {
  refuse({.code = "checkpoint_model",
          .option = std::move(option),
          .numbers = std::move(numbers),
          .rule =
              "a checkpoint is loaded into the model it was saved from, on any number of data-parallel ranks",
          .hint = "the same model with the same tp, pp, ep and etp"});
}

[[noreturn]] void refuse_shard(const std::string& name, std::string numbers) {
  refuse({.code = "checkpoint_shard",
          .option = name,
          .numbers = std::move(numbers),
          .rule = "a shard of a checkpoint is exactly the file that was written",
          .hint = "a copy of the whole folder, or an earlier checkpoint"});
}

void require_sizes(const CheckpointIndex& index, const Layout& layout) {
  for (const auto& [name, size] : sizes_of(layout)) {
    const auto saved = index.sizes.find(name);
    const int before = saved == index.sizes.end() ? 0 : saved->second;
    if (before != size) refuse_model(name, fmt::format("{} here, {} in the checkpoint", size, before));
  }
}

/// Checks that the checkpoint has the tensors of this rank's parameters, and no other tensors for this rank's
/// model-parallel place.
void require_tensors(const CheckpointIndex& index, const Rank& rank, const std::vector<Keyed>& keys) {
  std::set<std::string> wanted;
  for (const auto& [parameter, key] : keys) {
    for (const Kept& kept : kKept) {
      const std::string name = key + "/" + kept.name;
      wanted.insert(name);
      const auto saved = index.tensors.find(name);
      const std::int64_t elements = saved == index.tensors.end() ? 0 : saved->second.elements();
      const std::string form = elements == 0 ? "no elements" : saved->second.form;
      const bool fits = elements == parameter->value.count() &&
                        (elements == 0 || (form == form_of(*parameter) &&
                                           saved->second.dtype == parameter->main_grad.dtype()));
      if (!fits) refuse_model(name, fmt::format("{} here, {} in the checkpoint", form_of(*parameter), form));
    }
  }
  for (const auto& [name, tensor] : index.tensors) {
    const bool is_here = name.starts_with(place_of(rank, false)) || name.starts_with(place_of(rank, true));
    if (is_here && !wanted.contains(name))
      refuse_model(name, fmt::format("{} elements in the checkpoint, none here", tensor.elements()));
  }
}

void require_loss_scale(const CheckpointIndex& index, const DistributedOptimizer& optimizer) {
  if (optimizer.loss_scaling().may_be(index.loss_scale)) return;
  refuse_model("loss scale", fmt::format("2^{} after {} good steps in the checkpoint", index.loss_scale.power,
                                         index.loss_scale.good_steps));
}

Safetensors read_shard(const std::string& name, const CheckpointFile& expected, CheckpointStore& store) {
  const std::optional<std::string> bytes = store.read(name);
  if (!bytes) refuse_shard(name, "the file does not exist");
  if (static_cast<std::int64_t>(bytes->size()) != expected.bytes)
    refuse_shard(name,
                 fmt::format("the file has {} bytes, but {} were written", bytes->size(), expected.bytes));
  if (const std::uint64_t hash = hash_of(*bytes); hash != expected.hash)
    refuse_shard(name, fmt::format("the hash of the file is {:016x}, but was {:016x} when it was written",
                                   hash, expected.hash));
  return decoded(*bytes, name);
}

/// The new values of one tensor of this rank, gathered from the shards.
struct Incoming {
  Tensor to;           // the tensor that the values are for
  ElementRange range;  // in the tensor of the checkpoint
  const CheckpointTensor* saved;
  std::string key;
  std::vector<std::byte> values;

  bool is_in(const std::string& file) const {
    return std::any_of(saved->pieces.begin(), saved->pieces.end(),
                       [&](const CheckpointPiece& piece) { return piece.file == file && overlaps(piece); });
  }
  bool overlaps(const CheckpointPiece& piece) const {
    return piece.range.begin < range.end && range.begin < piece.range.end;
  }
  /// Copies the elements that a shard has of this tensor.
  void take(const std::string& file, const Safetensors& shard) {
    for (const CheckpointPiece& piece : saved->pieces) {
      if (piece.file != file || !overlaps(piece)) continue;
      const auto found = shard.tensors.find(fmt::format("{}@{}", key, piece.range.begin));
      const bool fits = found != shard.tensors.end() && found->second.dtype == to.dtype() &&
                        found->second.shape == std::vector<std::int64_t>{piece.range.size()};
      if (!fits)
        refuse_shard(file, fmt::format("the file lacks the {} elements of {}", piece.range.size(), key));
      const ElementRange both = {std::max(range.begin, piece.range.begin),
                                 std::min(range.end, piece.range.end)};
      const std::int64_t width = size_of(to.dtype());
      std::memcpy(values.data() + (both.begin - range.begin) * width,
                  found->second.values.data() + (both.begin - piece.range.begin) * width,
                  static_cast<std::size_t>(both.size() * width));
    }
  }
};

/// Reads and checks the new values of everything that this rank owns. It changes no tensor yet.
std::vector<Incoming> read_pieces(const CheckpointIndex& index, const std::vector<Keyed>& keys,
                                  DistributedOptimizer& optimizer, CheckpointStore& store) {
  std::vector<Incoming> pieces;
  for (const Piece& piece : optimizer.pieces()) {
    for (const Kept& kept : kKept) {
      const std::string key = key_of(keys, piece.parameter) + "/" + kept.name;
      const Tensor& to = piece.*kept.tensor;
      pieces.push_back({to, piece.range, &index.tensors.at(key), key,
                        std::vector<std::byte>(static_cast<std::size_t>(to.bytes()))});
    }
  }
  for (const auto& [name, file] : index.files) {
    // The name is captured by name, because clang below 16 captures no structured binding.
    const bool is_wanted = std::any_of(pieces.begin(), pieces.end(),
                                       [&name = name](const Incoming& piece) { return piece.is_in(name); });
    if (!is_wanted) continue;
    const Safetensors shard = read_shard(name, file, store);
    for (Incoming& piece : pieces) piece.take(name, shard);
  }
  return pieces;
}

/// Returns the first rank of the world that refuses; nothing if none does.
std::optional<int> first_that_refuses(Rank& rank, bool refuses) {
  Communicator& world = rank.groups.world();
  // The first place is the largest distance from the end. A float holds each of them.
  const double distance = refuses ? world.size() - world.rank() : 0;
  const Tensor first = filled(rank.device, DType::f32, {1}, distance);
  world.all_reduce(first, ReduceOp::max, "checkpoint.any_rank_refuses");
  float largest = 0;
  std::memcpy(&largest, host_bytes(first).data(), sizeof largest);
  if (largest == 0) return std::nullopt;
  return world.group().rank_at(world.size() - static_cast<int>(largest));
}

/// Runs `body`, which may refuse, on every rank. If it refuses on one rank, every rank refuses.
template <typename Body>
void on_all_or_none(Rank& rank, const Body& body) {
  std::exception_ptr own;
  try {
    body();
  } catch (const std::exception&) {  // the end of the world is not a std::exception, and passes through
    own = std::current_exception();
  }
  const std::optional<int> first = first_that_refuses(rank, own != nullptr);
  if (own != nullptr) std::rethrow_exception(own);
  if (!first) return;
  throw RefusedElsewhere(
      {.code = "checkpoint_elsewhere",
       .option = "checkpoint",
       .numbers =
           fmt::format("rank {} refused the checkpoint; rank {} had no reason of its own", *first, rank.id),
       .rule = "either all ranks save or load a checkpoint, or none does",
       .hint = fmt::format("the message of rank {}, which gives the reason", *first)});
}

}  // namespace

void save_checkpoint(Rank& rank, DistributedOptimizer& optimizer, CheckpointStore& store,
                     std::int64_t iteration) {
  optimizer.finish_param_gather();  // an f32 main parameter lies in the buffer that is being gathered
  CheckpointIndex index{.iteration = iteration,
                        .steps = optimizer.steps(),
                        .loss_scale = optimizer.loss_scaling().state(),
                        .sizes = sizes_of(rank.layout),
                        .tensors = {},
                        .files = {}};
  on_all_or_none(rank, [&] {
    if (const auto before = index_in(store)) index.generation = before->generation + 1;
    check(index);  // what no load would accept is refused before anything is written
    store.write(shard_name(index.generation, rank.id), encoded(shard_of(rank, optimizer)));
  });
  on_all_or_none(rank, [&] {
    if (rank.groups.world().rank() == 0) commit(rank, std::move(index), store);
  });
}

std::int64_t load_checkpoint(Rank& rank, DistributedOptimizer& optimizer, CheckpointStore& store) {
  optimizer.finish_param_gather();
  std::optional<CheckpointIndex> index;
  std::vector<Incoming> pieces;
  on_all_or_none(rank, [&] {
    index = index_in(store);
    if (!index) {
      refuse({.code = "checkpoint_missing",
              .option = kIndex,
              .numbers = fmt::format("the store has {} files, but no index", store.names().size()),
              .rule = "a checkpoint consists of its index and the files that the index names",
              .hint = "the folder into which the checkpoint was saved"});
    }
    require_sizes(*index, rank.layout);
    const std::vector<Keyed> keys = keys_of(rank, optimizer);
    require_tensors(*index, rank, keys);
    require_loss_scale(*index, optimizer);
    pieces = read_pieces(*index, keys, optimizer, store);
  });
  for (Incoming& piece : pieces) {
    copy(from_host(rank.device, piece.to.dtype(), piece.to.shape(), piece.values), piece.to);
  }
  optimizer.restore(index->steps, index->loss_scale);
  return index->iteration;
}

}  // namespace sim
