#pragma once

/// The numbers of a setting by their names: a map that keeps its few entries next to each other, because
/// settings are copied and looked up in every run.
///
/// Shapes  entries are in the order of their names.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verify {

class Dimensions {
 public:
  using value_type = std::pair<std::string, std::int64_t>;
  using const_iterator = std::vector<value_type>::const_iterator;

  Dimensions() = default;
  Dimensions(std::initializer_list<value_type> entries) { insert(entries); }

  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const_iterator find(std::string_view name) const {
    return std::ranges::find(entries_, name, &value_type::first);
  }
  bool contains(std::string_view name) const { return find(name) != end(); }
  /// Returns the number of this name. A name that is not there throws std::out_of_range.
  std::int64_t at(std::string_view name) const {
    const auto known = find(name);
    if (known == end()) throw std::out_of_range("no dimension is named " + std::string(name));
    return known->second;
  }
  /// Returns the number of this name, which is 0 if it is new. It stays valid until another one is added.
  std::int64_t& operator[](std::string_view name) { return emplace(std::string(name), 0).first->second; }
  /// Adds a number, unless there is one of this name. Returns the one that is there, and whether it is new.
  std::pair<std::vector<value_type>::iterator, bool> emplace(std::string name, std::int64_t value) {
    const auto place = std::ranges::lower_bound(entries_, name, {}, &value_type::first);
    if (place != entries_.end() && place->first == name) return {place, false};
    return {entries_.emplace(place, std::move(name), value), true};
  }
  /// Adds the numbers whose names are new.
  void insert(std::initializer_list<value_type> entries) {
    entries_.reserve(entries_.size() + entries.size());
    for (const auto& [name, value] : entries) emplace(name, value);
  }
  bool operator==(const Dimensions&) const = default;

 private:
  std::vector<value_type> entries_;
};

}  // namespace verify
