#include "verify/recordings/value_tree.h"

#include <utility>

#include "verify/output/refusal_table.h"

namespace verify {

Value ValueTree::container(ValueKind kind) {
  blocks_.push_back({pool_.size(), 0});
  return {.kind = kind, .container = blocks_.size() - 1};
}

void ValueTree::push(const Value& value) {
  if (stack.size() == kMostValues) refuse_by("dump_limit/stack", file_);
  stack.push_back(value);
}

void ValueTree::take(Value to, std::size_t first) {
  std::span<const Value> values = std::span<const Value>(stack).subspan(first);
  if (to.is(ValueKind::dict)) values = values.first(values.size() - values.size() % 2);
  if (to.is(ValueKind::dict) || to.is(ValueKind::list)) append(to, values);
  stack.resize(first);
}

void ValueTree::append(const Value& to, std::span<const Value> values) {
  Block& block = blocks_[to.container];
  const bool is_last = block.offset + block.count == pool_.size();
  const std::size_t moved = is_last ? 0 : block.count;
  if (pool_.size() + moved + values.size() > kMostValues) refuse_by("dump_limit/values", file_);
  if (!is_last) {
    const std::size_t from = block.offset;
    block.offset = pool_.size();
    for (std::size_t i = 0; i < moved; ++i) {
      const Value value = pool_[from + i];  // a copy, because the vector may grow
      pool_.push_back(value);
    }
  }
  pool_.insert(pool_.end(), values.begin(), values.end());
  block.count += values.size();
}

std::span<const Value> ValueTree::elements(const Value& of) const {
  if (!of.is(ValueKind::list) && !of.is(ValueKind::dict)) return {};
  const Block& block = blocks_[of.container];
  return {pool_.data() + block.offset, block.count};
}

Value ValueTree::find(const Value& dict, std::string_view key) const {
  if (!dict.is(ValueKind::dict)) return {};
  const std::span<const Value> pairs = elements(dict);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i].as_text() == key) return pairs[i + 1];
  }
  return {};
}

std::string_view ValueTree::keep(std::string text) {
  decoded_.push_back(std::move(text));
  return decoded_.back();
}

void ValueTree::begin(std::string file) {
  file_ = std::move(file);
  pool_.clear();
  blocks_.clear();
  decoded_.clear();
  stack.clear();
  memo.clear();
}

}  // namespace verify
