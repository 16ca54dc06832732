#include "sim/optimizer/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <span>
#include <utility>

#include "sim/base/error.h"
#include "sim/comm/refused_elsewhere.h"
#include "sim/optimizer/checkpoint_index.h"
#include "sim/optimizer/safetensors.h"
#include "sim/tensor/checks.h"

namespace sim {

namespace {

constexpr const char* kIndex = "index.json";

std::optional<CheckpointIndex> index_in(CheckpointStore& store) {
  const std::optional<std::string> text = store.read(kIndex);
  return text ? std::optional(index_of(*text)) : std::nullopt;
}

// ---- saving -----------------------------------------------------------------------------------------------

/// The name of a piece in a shard, from which add_shard() reads it.
std::string piece_name(const std::string& tensor, std::int64_t begin) {
  return fmt::format("{}@{}", tensor, begin);
}

Safetensors shard_of(const CheckpointContents& contents) {
  Safetensors shard;
  for (const KeptPiece& piece : contents.pieces) {
    if (!piece.is_written) continue;
    const KeptTensor& tensor = contents.tensors[piece.tensor];
    shard.tensors[piece_name(tensor.name, piece.range.begin)] = {
        tensor.dtype, {piece.values.count()}, host_bytes(piece.values)};
    shard.metadata[tensor.name] = fmt::format("{} parts of {}", tensor.parts(), tensor.form);
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
    const std::string& cut = shard.metadata.at(key.substr(0, at));  // "2 parts of " and the form
    whole.dtype = tensor.dtype;
    whole.parts = std::stoll(cut);
    whole.form = cut.substr(cut.find(" of ") + 4);
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

/// Refuses a piece that two ranks have written: they call different tensors by one name.
void require_once(const std::string& name, const std::vector<CheckpointPiece>& pieces) {
  const auto twice = std::adjacent_find(
      pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.range.end > b.range.begin; });
  if (twice == pieces.end()) return;
  refuse({.code = "checkpoint_names",
          .option = name,
          .numbers = fmt::format("element {} is in {} and in {}", (twice + 1)->range.begin, twice->file,
                                 (twice + 1)->file),
          .rule = "ranks with different tensors call them by different names",
          .hint = "names with the number of the layer and of the expert"});
}

void commit(const Rank& rank, CheckpointIndex index, CheckpointStore& store) {
  for (const int writer : rank.groups.world().group().members)
    add_shard(shard_name(index.generation, writer), store, index);
  for (auto& [name, tensor] : index.tensors) {
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const auto& a, const auto& b) { return a.range.begin < b.range.begin; });
    require_once(name, tensor.pieces);
  }
  store.replace(kIndex, text_of(index));
  remove_others(index, store);
}

// ---- loading ----------------------------------------------------------------------------------------------

[[noreturn]] void refuse_model(std::string option, std::string numbers) {
  refuse({.code = "checkpoint_model",
          .option = std::move(option),
          .numbers = std::move(numbers),
          .rule = "a checkpoint is loaded into the model it was saved from, on any layout",
          .hint = "the same model, with the same padding of its vocabulary"});
}

[[noreturn]] void refuse_shard(const std::string& name, std::string numbers) {
  refuse({.code = "checkpoint_shard",
          .option = name,
          .numbers = std::move(numbers),
          .rule = "a shard of a checkpoint is exactly the file that was written",
          .hint = "a copy of the whole folder, or an earlier checkpoint"});
}

/// Checks that the checkpoint has this rank's tensors.
void require_tensors(const CheckpointIndex& index, const CheckpointContents& contents) {
  for (const KeptTensor& own : contents.tensors) {
    const auto saved = index.tensors.find(own.name);
    const std::int64_t elements = saved == index.tensors.end() ? 0 : saved->second.elements();
    const std::string form = elements == 0 ? "no elements" : saved->second.form;
    const bool fits = elements == own.parameter.whole.count() &&
                      (elements == 0 || (form == own.form && saved->second.dtype == own.dtype &&
                                         PartOrder::exists(own.parameter, saved->second.parts)));
    if (fits) continue;
    const std::int64_t parts = elements == 0 ? 1 : saved->second.parts;
    refuse_model(own.name, fmt::format("{} here, {} in {} parts in the checkpoint", own.form, form, parts));
  }
}

/// Checks that some rank has each tensor of the checkpoint.
void require_no_other_tensors(Rank& rank, const CheckpointIndex& index, const CheckpointContents& contents) {
  if (index.tensors.empty()) return;
  std::vector<float> has(index.tensors.size());
  for (const KeptTensor& own : contents.tensors) {
    const auto saved = index.tensors.find(own.name);
    if (saved != index.tensors.end())
      has[static_cast<std::size_t>(std::distance(index.tensors.begin(), saved))] = 1;
  }
  const Tensor any =
      from_host(rank.device, DType::f32, {std::ssize(has)}, std::as_bytes(std::span<const float>(has)));
  rank.groups.world().all_reduce(any, ReduceOp::max, "checkpoint.tensors_of_any_rank");
  const std::vector<std::byte> bytes = host_bytes(any);
  std::memcpy(has.data(), bytes.data(), bytes.size());
  auto flag = has.begin();
  for (const auto& [name, tensor] : index.tensors) {
    if (*flag++ == 0)
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

/// The new values of one piece of this rank, gathered from the shards.
struct Incoming {
  Tensor to;
  std::vector<ElementRange> ranges;  // of the checkpoint's order, one after the other
  const CheckpointTensor* saved;
  std::string name;  // of the tensor
  std::vector<std::byte> values;

  bool is_in(const std::string& file) const {
    return std::any_of(saved->pieces.begin(), saved->pieces.end(), [&](const CheckpointPiece& piece) {
      return piece.file == file && std::any_of(ranges.begin(), ranges.end(), [&](const ElementRange& range) {
               return overlap(piece.range, range).size() > 0;
             });
    });
  }
  /// Copies the elements that a shard has of this piece.
  void take(const std::string& file, const Safetensors& shard) {
    for (const CheckpointPiece& piece : saved->pieces) {
      if (piece.file != file) continue;
      const auto found = shard.tensors.find(piece_name(name, piece.range.begin));
      const bool fits = found != shard.tensors.end() && found->second.dtype == to.dtype() &&
                        found->second.shape == std::vector<std::int64_t>{piece.range.size()};
      if (!fits)
        refuse_shard(file, fmt::format("the file lacks the {} elements of {}", piece.range.size(), name));
      copy_from(piece.range, found->second.values);
    }
  }

 private:
  static ElementRange overlap(const ElementRange& a, const ElementRange& b) {
    const std::int64_t begin = std::max(a.begin, b.begin);
    return {begin, std::max(begin, std::min(a.end, b.end))};
  }
  void copy_from(const ElementRange& stored, const std::vector<std::byte>& from) {
    const std::int64_t width = size_of(to.dtype());
    std::int64_t before = 0;
    for (const ElementRange& range : ranges) {
      const ElementRange both = overlap(stored, range);
      if (both.size() > 0) {
        std::memcpy(values.data() + (before + both.begin - range.begin) * width,
                    from.data() + (both.begin - stored.begin) * width,
                    static_cast<std::size_t>(both.size() * width));
      }
      before += range.size();
    }
  }
};

/// Reads and checks the new values of all pieces of this rank. It changes no tensor yet.
std::vector<Incoming> read_pieces(const CheckpointIndex& index, const CheckpointContents& contents,
                                  CheckpointStore& store) {
  std::vector<Incoming> pieces;
  for (const KeptPiece& piece : contents.pieces) {
    const KeptTensor& own = contents.tensors[piece.tensor];
    const CheckpointTensor& saved = index.tensors.at(own.name);
    pieces.push_back({.to = piece.values,
                      .ranges = translated(PartOrder(own.parameter, own.parts()), piece.range,
                                           PartOrder(own.parameter, saved.parts)),
                      .saved = &saved,
                      .name = own.name,
                      .values = std::vector<std::byte>(static_cast<std::size_t>(piece.values.bytes()))});
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
                     std::int64_t iteration, const std::vector<CheckpointBuffer>& buffers) {
  optimizer.finish_param_gather();  // an f32 main parameter lies in the buffer that is being gathered
  CheckpointIndex index{.iteration = iteration,
                        .steps = optimizer.steps(),
                        .loss_scale = optimizer.loss_scaling().state(),
                        .tensors = {},
                        .files = {}};
  on_all_or_none(rank, [&] {
    if (const auto before = index_in(store)) index.generation = before->generation + 1;
    check(index);  // what no load would accept is refused before anything is written
    store.write(shard_name(index.generation, rank.id),
                encoded(shard_of(checkpoint_contents(rank, optimizer, buffers))));
  });
  on_all_or_none(rank, [&] {
    if (rank.groups.world().rank() == 0) commit(rank, std::move(index), store);
  });
}

std::int64_t load_checkpoint(Rank& rank, DistributedOptimizer& optimizer, CheckpointStore& store,
                             const std::vector<CheckpointBuffer>& buffers) {
  optimizer.finish_param_gather();
  std::optional<CheckpointIndex> index;
  CheckpointContents contents;
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
    contents = checkpoint_contents(rank, optimizer, buffers);
    require_tensors(*index, contents);
    require_loss_scale(*index, optimizer);
    pieces = read_pieces(*index, contents, store);
  });
  require_no_other_tensors(rank, *index, contents);
  for (Incoming& piece : pieces) {
    copy(from_host(rank.device, piece.to.dtype(), piece.to.shape(), piece.values), piece.to);
  }
  optimizer.restore(index->steps, index->loss_scale);
  return index->iteration;
}

}  // namespace sim
