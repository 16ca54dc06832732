#include "tests/support/enumerated_layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <sstream>
#include <stdexcept>

namespace test {

namespace {

using Coordinates = std::map<std::string, int>;

std::vector<std::string> tokens_of(const std::string& text) {
  std::vector<std::string> tokens;
  std::istringstream stream(text);
  for (std::string token; std::getline(stream, token, '-');) tokens.push_back(token);
  return tokens;
}

/// Returns the coordinates of every rank, counted up like an odometer whose first axis turns fastest.
std::vector<Coordinates> count_up(const std::string& order, const std::map<std::string, int>& sizes) {
  int world = 1;
  Coordinates now;
  for (const auto& [axis, size] : sizes) {
    world *= size;
    now[axis] = 0;
  }
  std::vector<Coordinates> all;
  for (int rank = 0; rank < world; ++rank) {
    all.push_back(now);
    for (const std::string& axis : tokens_of(order)) {
      if (++now[axis] < sizes.at(axis)) break;
      now[axis] = 0;
    }
  }
  return all;
}

Lists by_first_member(std::map<Coordinates, std::vector<int>> groups) {
  Lists lists;
  for (auto& [rest, members] : groups) lists.push_back(std::move(members));
  std::sort(lists.begin(), lists.end(), [](const auto& a, const auto& b) { return a[0] < b[0]; });
  return lists;
}

/// Groups the ranks that agree in every coordinate outside the token.
Lists token_groups(const std::vector<Coordinates>& ranks, const std::string& token, int first_rank) {
  std::map<Coordinates, std::vector<int>> groups;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    Coordinates rest = ranks[rank];
    for (const std::string& axis : tokens_of(token)) rest.erase(axis);
    groups[rest].push_back(static_cast<int>(rank) + first_rank);
  }
  return by_first_member(std::move(groups));
}

std::vector<int> every(const std::vector<int>& list, std::size_t start, std::size_t step, std::size_t count) {
  std::vector<int> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(list[start + i * step]);
  return result;
}

/// Views a list as (outer, size, inner) and returns its vectors along size, outer-major.
Lists level(const std::vector<int>& list, std::size_t size, std::size_t inner) {
  Lists lists;
  for (std::size_t outer = 0; outer < list.size() / (size * inner); ++outer) {
    for (std::size_t u = 0; u < inner; ++u)
      lists.push_back(every(list, outer * size * inner + u, inner, size));
  }
  return lists;
}

class Builder {
 public:
  void add(const std::string& kind, std::vector<int> members) {
    if (!index_.contains(kind)) {
      index_[kind] = layout_.kinds.size();
      layout_.kinds.emplace_back(kind, Lists{});
    }
    Lists& lists = layout_.kinds[index_[kind]].second;
    layout_.calls.emplace_back(kind, static_cast<int>(lists.size()));
    lists.push_back(std::move(members));
  }
  void add_all(const std::string& kind, const Lists& lists) {
    for (const auto& list : lists) add(kind, list);
  }
  EnumeratedLayout layout_;

 private:
  std::map<std::string, std::size_t> index_;
};

void add_dense(const sim::ParallelSizes& sizes, const std::vector<Coordinates>& ranks, int first,
               Builder& builder) {
  const auto instances = static_cast<std::size_t>(sizes.num_distributed_optimizer_instances);
  for (const auto& list : token_groups(ranks, "dp-cp", first)) {
    builder.add("dp-cp", list);
    if (instances > 1) builder.add_all("intra-dp-cp", level(list, list.size() / instances, 1));
  }
  builder.add_all("dp", token_groups(ranks, "dp", first));
  for (const auto& list : token_groups(ranks, "cp", first)) {
    builder.add("cp", list);
    std::size_t inner = 1;
    for (std::size_t k = 0; k < sizes.hierarchical_context_parallel_sizes.size(); ++k) {
      const auto size = static_cast<std::size_t>(sizes.hierarchical_context_parallel_sizes[k]);
      builder.add_all("hcp-L" + std::to_string(k), level(list, size, inner));
      inner *= size;
    }
  }
  builder.add_all("mp", token_groups(ranks, "tp-pp", first));
  builder.add_all("tp", token_groups(ranks, "tp", first));
  for (const auto& list : token_groups(ranks, "pp", first)) {
    builder.add("pp", list);
    builder.add("embd", list.size() == 1 ? list : std::vector<int>{list.front(), list.back()});
    builder.add("pos_embd", {list.front()});
  }
  for (const char* token : {"tp-dp-cp", "tp-dp", "tp-cp"})
    builder.add_all(token, token_groups(ranks, token, first));
}

void add_expert(const sim::ParallelSizes& sizes, const std::vector<Coordinates>& ranks, int first,
                Builder& builder) {
  const auto instances = static_cast<std::size_t>(sizes.num_distributed_optimizer_instances);
  builder.add_all("ep", token_groups(ranks, "ep", first));
  builder.add_all("etp", token_groups(ranks, "tp", first));
  builder.add_all("tp-ep", token_groups(ranks, "tp-ep", first));
  const Lists model = token_groups(ranks, "tp-ep-pp", first);
  builder.add_all("tp-ep-pp", model);
  for (const auto& list : token_groups(ranks, "dp", first)) {
    builder.add("edp", list);
    if (instances == 1) continue;
    builder.add_all("intra-edp", level(list, list.size() / instances, 1));
    builder.add_all("inter-edp", level(list, instances, list.size() / instances));
  }
  for (std::size_t instance = 0; instance < instances; ++instance) {
    std::vector<int> all;
    for (std::size_t i = 0; i < model.size() / instances; ++i) {
      const auto& list = model[instance * (model.size() / instances) + i];
      all.insert(all.end(), list.begin(), list.end());
    }
    builder.add("intra-dist-opt", all);
  }
}

}  // namespace

const Lists& EnumeratedLayout::operator[](const std::string& kind) const {
  for (const auto& [name, lists] : kinds) {
    if (name == kind) return lists;
  }
  throw std::out_of_range(kind);
}

std::optional<EnumeratedLayout> enumerate_megatron(const sim::ParallelSizes& sizes) {
  const auto world = static_cast<int>(sizes.world_size);
  const auto tp = static_cast<int>(sizes.tensor_model_parallel_size);
  const auto cp = static_cast<int>(sizes.context_parallel_size);
  const auto ep = static_cast<int>(sizes.expert_model_parallel_size);
  const auto pp = static_cast<int>(sizes.pipeline_model_parallel_size);
  const auto etp = static_cast<int>(sizes.expert_tensor_parallel_size.value_or(tp));
  const auto instances = static_cast<int>(sizes.num_distributed_optimizer_instances);
  if (world % (tp * cp * pp) != 0 || world % (etp * ep * pp) != 0) return std::nullopt;
  const int dp = world / (tp * cp * pp);
  const int edp = world / (etp * ep * pp);
  if (sizes.virtual_pipeline_model_parallel_size && pp == 1) return std::nullopt;
  if (!sizes.order.ends_with("pp") && pp > 1 && dp != edp) return std::nullopt;
  if (dp * cp % instances != 0 || edp % instances != 0) return std::nullopt;
  std::int64_t hierarchical = 1;
  for (const std::int64_t size : sizes.hierarchical_context_parallel_sizes) hierarchical *= size;
  if (!sizes.hierarchical_context_parallel_sizes.empty() && hierarchical != cp) return std::nullopt;
  const auto dense = count_up(sizes.order, {{"tp", tp}, {"cp", cp}, {"ep", 1}, {"dp", dp}, {"pp", pp}});
  const auto expert = count_up(sizes.order, {{"tp", etp}, {"cp", 1}, {"ep", ep}, {"dp", edp}, {"pp", pp}});
  if (token_groups(dense, "pp", 0) != token_groups(expert, "pp", 0)) return std::nullopt;
  Builder builder;
  const auto first = static_cast<int>(sizes.rank_offset);
  add_dense(sizes, dense, first, builder);
  add_expert(sizes, expert, first, builder);
  builder.layout_.dp = dp;
  builder.layout_.etp = etp;
  builder.layout_.edp = edp;
  return builder.layout_;
}

std::optional<EnumeratedLayout> enumerate_legacy(const sim::ParallelSizes& sizes) {
  const auto world = static_cast<int>(sizes.world_size);
  const int tp = std::min(static_cast<int>(sizes.tensor_model_parallel_size), world);
  const int pp = std::min(static_cast<int>(sizes.pipeline_model_parallel_size), world);
  if (world % (tp * pp) != 0) return std::nullopt;
  const int dp = world / (tp * pp);
  const int stage = world / pp;
  Builder builder;
  builder.layout_.dp = dp;
  Lists data_parallel;
  for (int i = 0; i < pp; ++i) {
    for (int j = 0; j < tp; ++j) {
      data_parallel.emplace_back();
      for (int rank = i * stage + j; rank < (i + 1) * stage; rank += tp) data_parallel.back().push_back(rank);
    }
  }
  builder.add_all("dp", data_parallel);
  for (int d = 0; d < dp; ++d) {
    std::vector<int> model;
    for (const auto& list : data_parallel) model.push_back(list[static_cast<std::size_t>(d)]);
    builder.add("mp", model);
  }
  for (int i = 0; i < world / tp; ++i) {
    std::vector<int> list;
    for (int rank = i * tp; rank < (i + 1) * tp; ++rank) list.push_back(rank);
    builder.add("tp", list);
  }
  for (int i = 0; i < stage; ++i) {
    std::vector<int> list;
    for (int rank = i; rank < world; rank += stage) list.push_back(rank);
    builder.add("pp", list);
    std::vector<int> embedding = list;
    std::vector<int> position = list;
    if (list.size() > 1) {
      embedding = {list.front(), list.back()};
      position = {list.front()};
      if (sizes.pipeline_model_parallel_split_rank) {
        const std::int64_t asked = *sizes.pipeline_model_parallel_split_rank;
        // A negative index counts from the end, as in Python.
        const std::int64_t index = asked < 0 ? asked + pp : asked;
        const int split = list.at(static_cast<std::size_t>(index));
        if (split != list.front() && split != list.back()) embedding = {list.front(), split, list.back()};
        if (split != list.front()) position = {list.front(), split};
      }
    }
    builder.add("embd", embedding);
    builder.add("pos_embd", position);
  }
  return builder.layout_;
}

}  // namespace test
