#include "sim/optimizer/checkpoint_index.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/content_hash.h"
#include "sim/base/error.h"

namespace sim {

namespace {

using Json = nlohmann::json;

constexpr int kVersion = 2;
constexpr const char* kFormat = "shardproof-checkpoint";

[[noreturn]] void refuse_index(std::string numbers, const char* rule,
                               const char* hint = "an earlier checkpoint, or a copy of this one") {
  refuse({.code = "checkpoint_index",
          .option = "index.json",
          .numbers = std::move(numbers),
          .rule = rule,
          .hint = hint});
}

std::string text_of_hash(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

DType dtype_named(const std::string& name) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::field}) {
    if (name_of(dtype) == name) return dtype;
  }
  refuse_index("dtype " + name, "tensors are f64, f32, bf16 or field");
}

Json json_of(const CheckpointIndex& index) {
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"generation", index.generation},
               {"iteration", index.iteration},
               {"steps", index.steps},
               {"loss_scale",
                {{"power", index.loss_scale.power},
                 {"good_steps", index.loss_scale.good_steps},
                 {"hysteresis_left", index.loss_scale.hysteresis_left}}},
               {"tensors", Json::object()},
               {"files", Json::object()}};
  for (const auto& [name, tensor] : index.tensors) {
    Json pieces = Json::array();
    for (const CheckpointPiece& piece : tensor.pieces)
      pieces.push_back({piece.file, piece.range.begin, piece.range.end});
    json["tensors"][name] = {
        {"dtype", name_of(tensor.dtype)}, {"form", tensor.form}, {"parts", tensor.parts}, {"pieces", pieces}};
  }
  for (const auto& [name, file] : index.files)
    json["files"][name] = {{"bytes", file.bytes}, {"hash", text_of_hash(file.hash)}};
  return json;
}

/// Returns a number of the index, which must lie in the widest range of any of its fields. check() knows the
/// range of each field.
std::int64_t whole(const Json& json, std::int64_t least, std::int64_t most) {
  const bool fits = json.is_number_integer() && json >= least && json <= most;
  if (!fits) refuse_index(json.dump(), "the numbers of an index are whole, and within their range");
  return json.get<std::int64_t>();
}

int small(const Json& json) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  return static_cast<int>(whole(json, -kMost, kMost));
}

std::uint64_t hash_in(const Json& json) {
  const std::string text = json.get<std::string>();
  const bool fits = text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!fits) refuse_index(text, "a hash has 16 hexadecimal digits");
  return std::stoull(text, nullptr, 16);
}

CheckpointIndex from_json(const Json& json) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  const Json& scale = json.at("loss_scale");
  CheckpointIndex index{.generation = whole(json.at("generation"), -kMost, kMost),
                        .iteration = whole(json.at("iteration"), -kMost, kMost),
                        .steps = whole(json.at("steps"), -kMost, kMost),
                        .loss_scale = {.power = small(scale.at("power")),
                                       .good_steps = small(scale.at("good_steps")),
                                       .hysteresis_left = small(scale.at("hysteresis_left"))},
                        .tensors = {},
                        .files = {}};
  for (const auto& [name, tensor] : json.at("tensors").items()) {
    CheckpointTensor& own = index.tensors[name];
    own.dtype = dtype_named(tensor.at("dtype"));
    own.form = tensor.at("form");
    own.parts = whole(tensor.at("parts"), 1, kMost);
    for (const Json& piece : tensor.at("pieces")) {
      if (piece.size() != 3) refuse_index(name, "a piece is a file, where it begins, and where it ends");
      own.pieces.push_back({piece.at(0), {whole(piece.at(1), 0, kMost), whole(piece.at(2), 0, kMost)}});
    }
  }
  for (const auto& [name, file] : json.at("files").items())
    index.files[name] = {whole(file.at("bytes"), 0, kMost), hash_in(file.at("hash"))};
  return index;
}

/// Removes a word from the front of a text. Returns false if the text does not begin with it.
bool take_word(std::string_view& rest, std::string_view word) {
  if (!rest.starts_with(word)) return false;
  rest.remove_prefix(word.size());
  return true;
}

/// Removes all digits from the front of a text. Returns false if there are fewer than `least`.
bool take_digits(std::string_view& rest, std::size_t least) {
  const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  rest.remove_prefix(digits);
  return digits >= least;
}

/// Returns the text without its last line, the hash, and refuses a text whose hash is wrong.
std::string_view checked_body(std::string_view text) {
  const std::size_t end = text.size() > 1 ? text.rfind('\n', text.size() - 2) : std::string_view::npos;
  if (end == std::string_view::npos)
    refuse_index(fmt::format("{} bytes", text.size()), "the last line of an index is its hash");
  const std::string_view body = text.substr(0, end + 1), last = text.substr(end + 1);
  if (last != text_of_hash(hash_of(body)) + "\n") {
    refuse_index(fmt::format("{} bytes, whose hash is {}", body.size(), text_of_hash(hash_of(body))),
                 "the last line is the hash of the lines before it; this index was cut short or changed");
  }
  return body;
}

}  // namespace

std::string shard_name(std::int64_t generation, int rank) {
  return fmt::format("shard-{:06}-rank{:05}.safetensors", generation, rank);
}

bool is_shard_name(const std::string& name) {
  std::string_view rest = name;
  return take_word(rest, "shard-") && take_digits(rest, 6) && take_word(rest, "-rank") &&
         take_digits(rest, 5) && rest == ".safetensors";
}

std::uint64_t hash_of(std::string_view bytes) {
  ContentHash hash;
  hash.add(bytes);
  return hash.value();
}

void check(const CheckpointIndex& index) {
  const std::pair<const char*, std::int64_t> counts[] = {
      {"generation", index.generation}, {"iteration", index.iteration}, {"steps", index.steps}};
  for (const auto& [name, count] : counts) {
    if (count >= 0 && count <= kMostCheckpointCount) continue;
    refuse_index(fmt::format("{} {}", name, count), "generation, iteration and steps are from 0 to 2^31",
                 "the number of iterations that training has done");
  }
  for (const auto& [name, file] : index.files) {
    if (!is_shard_name(name))
      refuse_index(name, "the files of an index are named like shards and lie in its folder");
  }
  for (const auto& [name, tensor] : index.tensors) {
    std::int64_t next = 0;
    for (const CheckpointPiece& piece : tensor.pieces) {
      if (piece.range.begin != next || piece.range.end <= next) {
        refuse_index(fmt::format("{}: elements {} to {} follow element {}", name, piece.range.begin,
                                 piece.range.end, next),
                     "the pieces of a tensor hold each of its elements exactly once",
                     "a checkpoint that all ranks of one world saved together");
      }
      if (!index.files.contains(piece.file))
        refuse_index(fmt::format("{}: a piece in {}", name, piece.file),
                     "each piece lies in a file that the index lists");
      next = piece.range.end;
    }
  }
}

std::string text_of(const CheckpointIndex& index) {
  check(index);
  const std::string body = json_of(index).dump(1) + "\n";
  return body + text_of_hash(hash_of(body)) + "\n";
}

CheckpointIndex index_of(std::string_view text) {
  const Json json = Json::parse(checked_body(text), nullptr, false);
  if (!json.is_object() || !json.contains("format") || json.at("format") != kFormat)
    refuse_index("the file is JSON, but no index", "the index is that of a checkpoint of shardproof");
  if (!json.contains("version") || json.at("version") != kVersion) {
    refuse_index(fmt::format("version {}", json.contains("version") ? json.at("version").dump() : "none"),
                 "this program reads version 2", "the version of shardproof that wrote the checkpoint");
  }
  CheckpointIndex index;
  try {
    index = from_json(json);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    refuse_index(error.what(), "an index has all fields of version 2, in their form");
  }
  check(index);
  return index;
}

}  // namespace sim
