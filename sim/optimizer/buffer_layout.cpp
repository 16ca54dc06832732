#include "sim/optimizer/buffer_layout.h"

#include <fmt/format.h>
#include <numeric>

#include "sim/base/error.h"

namespace sim {

namespace {

constexpr std::int64_t kParameterMultiple = 64;
constexpr std::int64_t kBucketMultiple = 128;
constexpr std::int64_t kBusMultiple = 65'536;
/// The most elements of all parameters together; it leaves room for the padding of any number of parameters.
constexpr std::int64_t kMostElements = std::int64_t{1} << 60;

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

[[noreturn]] void refuse_sizes(std::string option, std::string numbers, std::string rule, std::string hint) {
  refuse({.code = "buffer_sizes",
          .option = std::move(option),
          .numbers = std::move(numbers),
          .rule = std::move(rule),
          .hint = std::move(hint)});
}

void check(const std::vector<BufferParameter>& parameters, const BufferConfig& config) {
  if (config.owners < 1)
    refuse_sizes("--data-parallel-size", fmt::format("{} ranks own a bucket", config.owners),
                 "at least 1 rank owns each bucket", "1");
  if (config.bucket_size && *config.bucket_size < 1)
    refuse_sizes("--bucket-size", fmt::format("{} elements", *config.bucket_size),
                 "a bucket has at least 1 element", "40000000, or no --bucket-size for a single bucket");
  std::int64_t all = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::int64_t elements = parameters[i].elements;
    if (elements >= 0 && elements <= kMostElements - all) {
      all += elements;
      continue;
    }
    refuse_sizes("--param-sizes", fmt::format("{} elements in parameter {}", elements, i),
                 "sizes are not negative, and add up to at most 2^60",
                 "the numbers of elements of the parameters of the model");
  }
}

/// Builds a layout: takes parameters one after the other, and closes a bucket when it is full.
class Placing {
 public:
  Placing(const std::vector<BufferParameter>& parameters, const BufferConfig& config)
      : parameters_(parameters), layout_{.config = config, .parameters = {}, .buckets = {}} {
    layout_.parameters.resize(parameters.size());
    open_.range.begin = 0;
  }

  void place(int index) {
    const BufferConfig& config = layout_.config;
    const BufferParameter& parameter = parameters_[static_cast<std::size_t>(index)];
    const bool has_own_bucket = config.distributed_optimizer && parameter.shared_embedding;
    if (config.distributed_optimizer) next_ = rounded_up(next_, kParameterMultiple);
    if (has_own_bucket && !open_.parameters.empty()) close();
    const std::int64_t end = next_ + parameter.elements;
    layout_.parameters[static_cast<std::size_t>(index)] = {{next_, end},
                                                           static_cast<int>(layout_.buckets.size())};
    open_.parameters.push_back(index);
    next_ = end;
    const bool is_full = config.bucket_size && end - open_.range.begin >= *config.bucket_size;
    if (is_full || has_own_bucket) close();
  }

  BufferLayout finished() {
    if (!open_.parameters.empty()) close();
    return std::move(layout_);
  }

 private:
  void close() {
    open_.numel_unpadded = next_ - open_.range.begin;
    next_ = rounded_up(next_, bucket_multiple(layout_.config));
    open_.range.end = next_;
    layout_.buckets.push_back(std::move(open_));
    open_ = {};
    open_.range.begin = next_;
  }

  const std::vector<BufferParameter>& parameters_;
  BufferLayout layout_;
  Bucket open_;
  std::int64_t next_ = 0;
};

}  // namespace

std::int64_t bucket_multiple(const BufferConfig& config) {
  if (!config.distributed_optimizer) return 1;
  const std::int64_t multiple = std::lcm<std::int64_t>(config.owners, kBucketMultiple);
  return config.pad_for_high_nccl_busbw ? std::lcm(multiple, kBusMultiple) : multiple;
}

BufferLayout buffer_layout(const std::vector<BufferParameter>& parameters, const BufferConfig& config) {
  check(parameters, config);
  Placing placing(parameters, config);
  for (int index = static_cast<int>(parameters.size()) - 1; index >= 0; --index) placing.place(index);
  return placing.finished();
}

}  // namespace sim
