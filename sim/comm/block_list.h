#pragma once

/// A sequence that grows at its end by blocks of a few elements, and gives up elements at its front. What is
/// in it never moves. Sequences that grow at one time have their last blocks side by side in memory, where
/// vectors would each have pages of their own; so the records of many ranks are on few pages.
///
/// Shapes  kBlock is the number of elements of a block.
/// Calls   A thread keeps up to 128 blocks that its lists gave up, and its lists take them first: a campaign
///         of small worlds makes and drops the same few again and again. More of them would scatter the last
///         blocks of large worlds over memory.

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sim {

template <typename T, std::size_t kBlock>
class BlockList {
 public:
  BlockList() = default;
  BlockList(const BlockList& other) {
    for (std::size_t i = 0; i < other.size(); ++i) add() = other[i];
  }
  BlockList(BlockList&& other) noexcept { swap(other); }
  BlockList& operator=(BlockList other) noexcept {
    swap(other);
    return *this;
  }
  ~BlockList() = default;

  std::size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  const T& operator[](std::size_t i) const { return at(begin_ + i); }
  T& operator[](std::size_t i) { return at(begin_ + i); }

  /// Adds an element that is T(), and returns it. It is written in its place, so that nothing is copied.
  [[gnu::always_inline]] T& add() {
    if (end_ % kBlock == 0) add_block();
    return (*last_)[end_++ % kBlock];
  }
  /// Calls a function for each of the first elements, in their order. It goes through whole blocks.
  template <typename Function>
  void for_first(std::size_t count, const Function& function) const {
    std::size_t place = begin_;
    for (const std::size_t end = begin_ + count; place < end;) {
      const std::size_t block = place / kBlock;
      const std::size_t behind = std::min(end, (block + 1) * kBlock);
      const T* const first = blocks_[block]->data();
      for (const T& element : std::span(first + place % kBlock, behind - place)) function(element);
      place = behind;
    }
  }
  void remove_first(std::size_t count) {
    begin_ += count;
    const std::size_t unused = begin_ / kBlock;
    blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(unused));
    begin_ -= unused * kBlock;
    end_ -= unused * kBlock;
    last_ = blocks_.empty() ? nullptr : blocks_.back().get();
  }

 private:
  using Block = std::array<T, kBlock>;

  /// The blocks that lists of this thread gave up.
  class SpareBlocks {
   public:
    SpareBlocks() { blocks_.reserve(kMost); }
    ~SpareBlocks() {
      for (Block* block : blocks_) delete block;
      is_over = true;
    }
    SpareBlocks(const SpareBlocks&) = delete;
    SpareBlocks& operator=(const SpareBlocks&) = delete;

    Block* take() {
      if (blocks_.empty()) return new Block();
      Block* const block = blocks_.back();
      blocks_.pop_back();
      *block = Block();
      return block;
    }
    void give_back(Block* block) noexcept {
      if (blocks_.size() == kMost) {
        delete block;
      } else {
        blocks_.push_back(block);
      }
    }

    static SpareBlocks& of_thread() {
      static thread_local SpareBlocks blocks;
      return blocks;
    }
    /// Lists that outlive the thread's objects, as those of static ones do, keep nothing.
    static inline constinit thread_local bool is_over = false;

   private:
    static constexpr std::size_t kMost = 128;
    std::vector<Block*> blocks_;
  };
  struct GiveBack {
    void operator()(Block* block) const noexcept {
      if (SpareBlocks::is_over) {
        delete block;
      } else {
        SpareBlocks::of_thread().give_back(block);
      }
    }
  };

  /// Returns the element at a place counted from the first block. Most are asked for in the last block.
  T& at(std::size_t place) const {
    const std::size_t block = place / kBlock;
    Block& of_place = block + 1 == blocks_.size() ? *last_ : *blocks_[block];
    return of_place[place % kBlock];
  }
  [[gnu::noinline]] void add_block() {
    blocks_.emplace_back(SpareBlocks::is_over ? new Block() : SpareBlocks::of_thread().take());
    last_ = blocks_.back().get();
  }
  void swap(BlockList& other) noexcept {
    std::swap(blocks_, other.blocks_);
    std::swap(last_, other.last_);
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
  }

  std::vector<std::unique_ptr<Block, GiveBack>> blocks_;
  Block* last_ = nullptr;            // the last block
  std::size_t begin_ = 0, end_ = 0;  // places of the first element and after the last one
};

}  // namespace sim
