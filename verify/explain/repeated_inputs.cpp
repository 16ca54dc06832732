#include "verify/explain/repeated_inputs.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "sim/tensor/device.h"
#include "verify/properties/bench.h"

namespace verify {

namespace {

/// An input that a later one is compared with. One that is not compared has no bytes.
struct Input {
  sim::DType dtype = {};
  sim::Shape shape;
  std::string pass;
  std::vector<std::byte> bytes;
  bool operator==(const Input&) const = default;
};

/// Counts and maps are in i32, too, and may well be the same twice; ids are broadcast.
bool is_compared(const SeenCall& seen, const ComparedInputs& compared) {
  const sim::Tensor& tensor = seen.call.input;
  if (!gives(seen.call.operation, seen.place == seen.call.root) || tensor.is_none()) return false;
  if (tensor.dtype() != sim::DType::i32) return tensor.count() >= compared.least_numbers;
  return seen.call.operation == sim::Operation::broadcast && compared.least_ids > 0 &&
         tensor.count() >= compared.least_ids;
}

Input input_of(const SeenCall& seen, const ComparedInputs& compared) {
  if (!is_compared(seen, compared)) return {};
  const sim::Tensor& tensor = seen.call.input;
  Input input{tensor.dtype(), tensor.shape(), seen.rank.record.part().pass, {}};
  input.bytes.resize(static_cast<std::size_t>(tensor.bytes()));
  tensor.device().to_host(tensor, input.bytes);
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  const bool is_of_numbers = tensor.dtype() != sim::DType::i32;
  if (is_of_numbers && std::ranges::all_of(input.bytes, is_zero)) input.bytes.clear();
  return input;
}

/// What is known of one rank. Only the thread on which the rank runs uses it.
struct OfRank {
  struct Calls {
    std::int64_t count = 0;
    std::map<sim::Operation, Input> latest;  // a ring sends and receives in turn
  };
  std::map<std::pair<std::string, std::string>, Calls> at;  // by site and group
  std::map<std::string, RepeatedInput> repeated;            // by site: the first call

  void see(const SeenCall& seen, const ComparedInputs& compared) {
    Calls& calls = at[{seen.call.site.name, sim::short_text_of(seen.group)}];
    const std::int64_t number = calls.count++;
    Input input = input_of(seen, compared);
    Input& latest = calls.latest[seen.call.operation];
    if (!input.bytes.empty() && input == latest) {
      repeated.emplace(seen.call.site.name,
                       RepeatedInput{.site = seen.call.site.name, .kind = seen.group.kind, .call = number});
    }
    latest = std::move(input);
  }
};

}  // namespace

std::vector<RepeatedInput> repeated_inputs(Bench& bench, const Case& the_case, const CaseSetting& setting,
                                           const ComparedInputs& compared) {
  std::vector<OfRank> ranks(bench.run(the_case, setting)->ranks.size());
  bench.run_watched(the_case, setting, WatchedSide::group, [&](const SeenCall& seen) {
    if (!seen.is_over) ranks[static_cast<std::size_t>(seen.rank.id)].see(seen, compared);
  });
  std::map<std::pair<std::string, std::int64_t>, RepeatedInput> all;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const auto& [site, first] : ranks[rank].repeated)
      all.try_emplace({site, first.call}, first).first->second.ranks.insert(static_cast<int>(rank));
  }
  std::vector<RepeatedInput> repeated;
  for (auto& [call, one] : all) repeated.push_back(std::move(one));
  return repeated;
}

}  // namespace verify
