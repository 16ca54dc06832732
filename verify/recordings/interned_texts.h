#pragma once

/// Texts that are kept once: a text that was added before has the same id again. Id 0 is the empty text.
///
/// Shapes  ids count from 0 in the order in which texts are added.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace verify {

class InternedTexts {
 public:
  InternedTexts();
  std::uint32_t add(std::string_view text);
  const std::string& operator[](std::uint32_t id) const { return texts_[id]; }
  std::size_t size() const { return texts_.size(); }

 private:
  void grow();

  std::deque<std::string> texts_;
  std::vector<std::uint32_t> slots_;  // id + 1, by hash; 0 is a free slot
};

}  // namespace verify
