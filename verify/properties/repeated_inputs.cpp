#include "verify/properties/repeated_inputs.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "sim/tensor/device.h"

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

Input input_of(const SeenCall& seen) {
  const sim::Tensor& tensor = seen.call.input;
  const bool is_given = gives(seen.call.operation, seen.place == seen.call.root) && !tensor.is_none();
  if (!is_given || tensor.count() < 2 || tensor.dtype() == sim::DType::i32) return {};
  Input input{tensor.dtype(), tensor.shape(), seen.rank.record.part().pass, {}};
  input.bytes.resize(static_cast<std::size_t>(tensor.bytes()));
  tensor.device().to_host(tensor, input.bytes);
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (std::all_of(input.bytes.begin(), input.bytes.end(), is_zero)) input.bytes.clear();
  return input;
}

/// What is known of one rank. Only the thread on which the rank runs uses it.
struct OfRank {
  struct Calls {
    std::int64_t count = 0;
    Input latest;
  };
  std::map<std::pair<std::string, std::string>, Calls> at;  // by site and group
  std::map<std::string, std::int64_t> repeated;             // by site: the first call

  void see(const SeenCall& seen) {
    Calls& calls = at[{seen.call.site.name, sim::short_text_of(seen.group)}];
    const std::int64_t number = calls.count++;
    Input input = input_of(seen);
    if (!input.bytes.empty() && input == calls.latest) repeated.emplace(seen.call.site.name, number);
    calls.latest = std::move(input);
  }
};

}  // namespace

std::vector<RepeatedInput> repeated_inputs(Bench& bench, const Case& the_case, const CaseSetting& setting) {
  std::vector<OfRank> ranks(bench.run(the_case, setting)->ranks.size());
  bench.run_watched(the_case, setting, WatchedSide::group, [&](const SeenCall& seen) {
    if (!seen.is_over) ranks[static_cast<std::size_t>(seen.rank.id)].see(seen);
  });
  std::map<std::pair<std::string, std::int64_t>, std::set<int>> ranks_of;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const auto& first : ranks[rank].repeated) ranks_of[first].insert(static_cast<int>(rank));
  }
  std::vector<RepeatedInput> repeated;
  for (const auto& [call, of_ranks] : ranks_of) repeated.push_back({call.first, call.second, of_ranks});
  return repeated;
}

}  // namespace verify
