#include "verify/backends/bandwidth_round.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>
#include <span>

#include "sim/base/check.h"
#include "sim/base/keyed_random.h"
#include "verify/output/json.h"

namespace verify {

namespace {

constexpr std::uint32_t kScales = 3;  // scales are 1, 2 and 3

std::vector<std::int32_t> drawn(std::int64_t count, std::uint32_t span) {
  constexpr std::int64_t kAtOnce = 1024;
  const sim::KeyedRandom random = sim::KeyedRandom(0).named("exact_values.draws");
  std::vector<std::int32_t> draws;
  draws.reserve(static_cast<std::size_t>(count));
  std::vector<std::uint64_t> bits;
  for (std::int64_t first = 0; first < count; first += kAtOnce) {
    bits.resize(static_cast<std::size_t>(std::min(kAtOnce, count - first)));
    std::iota(bits.begin(), bits.end(), static_cast<std::uint64_t>(first));
    random.bits(bits);
    for (const std::uint64_t each : bits)
      draws.push_back(static_cast<std::int32_t>(sim::KeyedRandom::below_of(each, span)));
  }
  return draws;
}

/// Returns a span for which (kScales + 1) * span * ranks is at most 2^24. Every element is less than the
/// product of the first two factors.
std::uint32_t span_of(int ranks) {
  constexpr std::uint32_t kMost = 1U << 24U;
  return std::clamp(kMost / (kScales + 1) / static_cast<std::uint32_t>(ranks), 1U, 1000U);
}

using sim::Operation;
using sim::Tensor;

/// Returns whether one side of a call has a block for each member.
bool has_blocks(Operation operation) {
  return operation == Operation::all_gather || operation == Operation::reduce_scatter ||
         operation == Operation::all_to_all;
}

int root_of(Operation operation, int ranks) {
  if (operation == Operation::broadcast) return ranks - 1;
  return operation == Operation::reduce ? 0 : -1;
}

BandwidthRow row_of(const sim::GroupKind& kind, Operation operation, sim::DType dtype, std::int64_t bytes) {
  const std::int64_t blocks = has_blocks(operation) ? kind.size() : 1;
  const std::int64_t count = std::max<std::int64_t>(bytes / sim::size_of(dtype) / blocks, 1);
  return {.kind = kind.name(),
          .ranks = kind.size(),
          .operation = operation,
          .dtype = dtype,
          .count = count,
          .bytes = count * blocks * sim::size_of(dtype),
          .root = root_of(operation, kind.size())};
}

void check(const BandwidthPlan& plan) {
  SIM_CHECK(plan.dtype == sim::DType::f32 || plan.dtype == sim::DType::i32);
  SIM_CHECK(plan.iterations > 0);
  for (const Operation operation : plan.operations)
    SIM_CHECK(std::ranges::find(kBandwidthOperations, operation) != kBandwidthOperations.end());
}

template <typename Scalar>
std::vector<std::byte> bytes_of(const std::vector<std::int32_t>& values) {
  std::vector<Scalar> scalars;
  scalars.reserve(values.size());
  for (const std::int32_t value : values) scalars.push_back(static_cast<Scalar>(value));
  const auto bytes = std::as_bytes(std::span(scalars));
  return {bytes.begin(), bytes.end()};
}

std::int64_t differing(const std::vector<std::byte>& found, const std::vector<std::byte>& expected,
                       std::int64_t size) {
  SIM_CHECK(found.size() == expected.size());
  std::int64_t elements = 0;
  for (std::size_t at = 0; at < found.size(); at += static_cast<std::size_t>(size))
    elements += std::memcmp(&found[at], &expected[at], static_cast<std::size_t>(size)) != 0 ? 1 : 0;
  return elements;
}

/// This rank's part of the rows of one kind.
class KindRound {
 public:
  KindRound(sim::Rank& rank, const sim::GroupKind& kind, sim::GroupKind::Place place, std::int64_t most)
      : device_(rank.device),
        group_(rank.groups.get(kind.name())),
        members_(kind.members(place.group)),
        place_(place.position),
        values_(kind.size(), most) {
    for (const int member : members_) sum_ += values_.terms_of(member);
  }

  double seconds(const BandwidthRow& row, int iterations, const Clock& clock) {
    make_tensors(row);
    sim::fill(input_, 0);
    sim::fill(output_, 0);
    call(row);
    group_.barrier("bandwidth.barrier");
    await_device();
    const double begin = clock();
    for (int i = 0; i < iterations; ++i) call(row);
    await_device();
    return (clock() - begin) / iterations;
  }

  /// Makes the checked call and returns the number of wrong elements. It uses the tensors of the timed calls,
  /// so that an element that does not arrive is still zero.
  std::int64_t wrong(const BandwidthRow& row) {
    if (row.operation != Operation::broadcast || place_ == row.root)
      device_.from_host(in_dtype(given(), row.dtype), input_);
    call(row);
    if (row.operation == Operation::reduce && place_ != row.root) return 0;  // only the root gets a result
    return differing(sim::host_bytes(output_), in_dtype(expected(row), row.dtype), sim::size_of(row.dtype));
  }

 private:
  using Ints = std::vector<std::int32_t>;

  int size() const { return static_cast<int>(members_.size()); }
  ExactTerms terms_at(int place) const { return values_.terms_of(members_[static_cast<std::size_t>(place)]); }

  void make_tensors(const BandwidthRow& row) {
    const bool takes_blocks =
        row.operation == Operation::reduce_scatter || row.operation == Operation::all_to_all;
    const bool gets_blocks = row.operation == Operation::all_gather || row.operation == Operation::all_to_all;
    input_ = device_.empty(row.dtype, {takes_blocks ? size() * row.count : row.count});
    output_ = has_blocks(row.operation)
                  ? device_.empty(row.dtype, {gets_blocks ? size() * row.count : row.count})
                  : input_;
  }

  void call(const BandwidthRow& row) {
    constexpr sim::ReduceOp kSum = sim::ReduceOp::sum;
    switch (row.operation) {
      case Operation::all_reduce:
        return group_.all_reduce(output_, kSum, "bandwidth.all_reduce");
      case Operation::all_gather:
        return group_.all_gather(input_, output_, "bandwidth.all_gather");
      case Operation::reduce_scatter:
        return group_.reduce_scatter(input_, output_, kSum, "bandwidth.reduce_scatter");
      case Operation::broadcast:
        return group_.broadcast(output_, row.root, "bandwidth.broadcast");
      case Operation::reduce:
        return group_.reduce(output_, kSum, row.root, "bandwidth.reduce");
      default:
        return group_.all_to_all(input_, output_, "bandwidth.all_to_all");
    }
  }

  /// Waits for the device: a value can be read only after everything on which it depends is done.
  void await_device() { sim::host_bytes(output_.rows(0, 1)); }

  Ints given() const {
    Ints values;
    values_.append(values, terms_at(place_), 0, input_.count());
    return values;
  }

  Ints expected(const BandwidthRow& row) const {
    const std::int64_t own_block = place_ * row.count;
    Ints values;
    switch (row.operation) {
      case Operation::all_reduce:
      case Operation::reduce:
        values_.append(values, sum_, 0, row.count);
        break;
      case Operation::reduce_scatter:
        values_.append(values, sum_, own_block, row.count);
        break;
      case Operation::broadcast:
        values_.append(values, terms_at(row.root), 0, row.count);
        break;
      case Operation::all_gather:
        for (int place = 0; place < size(); ++place) values_.append(values, terms_at(place), 0, row.count);
        break;
      default:  // all_to_all
        for (int place = 0; place < size(); ++place)
          values_.append(values, terms_at(place), own_block, row.count);
        break;
    }
    return values;
  }

  static std::vector<std::byte> in_dtype(const Ints& values, sim::DType dtype) {
    return dtype == sim::DType::f32 ? bytes_of<float>(values) : bytes_of<std::int32_t>(values);
  }

  sim::Device& device_;
  sim::Communicator& group_;
  std::vector<int> members_;  // global ranks
  int place_;
  ExactValues values_;
  ExactTerms sum_;  // over all members
  Tensor input_;
  Tensor output_;  // the same tensor as input_ if the call works in place
};

}  // namespace

ExactValues::ExactValues(int ranks, std::int64_t count)
    : span_(span_of(ranks)), draws_(drawn(count, span_)) {}

ExactTerms ExactValues::terms_of(int rank) const {
  const auto index = static_cast<std::uint64_t>(rank);
  static const sim::KeyedRandom scales = sim::KeyedRandom(0).named("exact_values.scales");
  static const sim::KeyedRandom offsets = sim::KeyedRandom(0).named("exact_values.offsets");
  return {1 + static_cast<std::int64_t>(scales.below(index, kScales)),
          1 + static_cast<std::int64_t>(offsets.below(index, span_))};
}

void ExactValues::append(std::vector<std::int32_t>& values, const ExactTerms& terms, std::int64_t first,
                         std::int64_t count) const {
  for (const std::int32_t draw :
       std::span(draws_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)))
    values.push_back(static_cast<std::int32_t>(terms.scale * draw + terms.offset));
}

BandwidthRows bandwidth_rows(const sim::Layout& layout, const BandwidthPlan& plan) {
  check(plan);
  BandwidthRows rows;
  for (const sim::GroupKind& kind : layout.kinds) {
    const bool is_asked_for =
        plan.kinds.empty() || std::ranges::find(plan.kinds, kind.name()) != plan.kinds.end();
    if (kind.size() == 1 || !is_asked_for) continue;
    for (const Operation operation : plan.operations) {
      for (const std::int64_t bytes : plan.sizes) rows.push_back(row_of(kind, operation, plan.dtype, bytes));
    }
  }
  return rows;
}

std::int64_t wrong_elements(const BandwidthRows& rows) {
  std::int64_t sum = 0;
  for (const BandwidthRow& row : rows) sum += row.wrong;
  return sum;
}

BandwidthRows bandwidth_round(sim::Rank& rank, const BandwidthPlan& plan, const Clock& clock) {
  BandwidthRows rows = bandwidth_rows(rank.layout, plan);
  std::int64_t most = 0;
  for (const BandwidthRow& row : rows) most = std::max(most, row.bytes / sim::size_of(row.dtype));
  std::optional<KindRound> round;
  const sim::GroupKind* of_round = nullptr;
  for (BandwidthRow& row : rows) {
    const sim::GroupKind& kind = *rank.layout.find(row.kind);
    const auto place = kind.place_of(rank.id);
    if (!place) continue;
    if (of_round != &kind) round.emplace(rank, kind, *place, most);
    of_round = &kind;
    row.group = place->group;
    row.seconds = round->seconds(row, plan.iterations, clock);
    row.wrong = round->wrong(row);
  }
  return rows;
}

std::string wrong_elements_text(const BandwidthRows& rows, std::size_t most_bytes) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
    const std::int64_t wrong = rows[static_cast<std::size_t>(i)].wrong;
    if (wrong > 0) numbers.insert(numbers.end(), {i, wrong});
  }
  const auto text = [&] { return fmt::format("[{}]", fmt::join(numbers, ",")); };
  while (text().size() > most_bytes) {
    SIM_CHECK(numbers.size() > 2);
    const std::int64_t wrong = numbers.back();
    numbers.resize(numbers.size() - 2);
    numbers.back() += wrong;
  }
  return text();
}

bool add_wrong_elements(BandwidthRows& rows, const std::string& text) {
  const Json document = parsed_json(text).value_or(Json());
  if (!document.is_array() || document.size() % 2 != 0) return false;
  const auto is_count = [](const Json& number) {
    return number.is_integer() && number.integer() >= 0 && number.integer() <= std::int64_t{1} << 40U;
  };
  for (std::size_t i = 0; i < document.size(); i += 2) {
    if (!is_count(document[i]) || !is_count(document[i + 1])) return false;
    if (document[i].integer() >= std::ssize(rows)) return false;
  }
  for (std::size_t i = 0; i < document.size(); i += 2)
    rows[static_cast<std::size_t>(document[i].integer())].wrong += document[i + 1].integer();
  return true;
}

}  // namespace verify
