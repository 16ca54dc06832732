#pragma once

/// The launches of gpu/device/launch.h for a GPU played by this machine's processor.
///
/// Exact   Elements, rows, lanes and threads run from the last to the first, so a kernel whose result depends
///         on their order gives other bits than the CPU device.

#include <array>
#include <memory>
#include <vector>

#include "gpu/device/launch.h"
#include "gpu/on_host/stream.h"

namespace gpu {

/// The sixteen lanes of a row, which run one after the other.
class LanesInTurn {
 public:
  template <typename Wide, typename Term>
  Wide sum(std::int64_t n, const Term& term) const {
    std::array<Wide, kLanes> sums{};
    for (int lane = kLanes - 1; lane >= 0; --lane) {
      for (std::int64_t i = lane; i < n; i += kLanes) sums[static_cast<std::size_t>(lane)] += term(i);
    }
    for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::size_t lane = 0; lane < half; ++lane) sums[lane] = sums[lane] + sums[lane + half];
    }
    return sums[0];
  }

  template <typename Number, typename Term>
  typename Number::Wide max(const Number& number, std::int64_t n, const Term& term) const {
    using Wide = typename Number::Wide;
    const std::int64_t whole = n - n % kLanes;
    std::array<Wide, kLanes> largest;
    for (std::size_t lane = kLanes; lane-- > 0;) {
      largest[lane] = number.least();
      for (auto i = static_cast<std::int64_t>(lane); i < whole; i += kLanes)
        largest[lane] = number.larger(term(i), largest[lane]);
    }
    for (std::int64_t i = whole; i < n; ++i) largest[0] = number.larger(term(i), largest[0]);
    Wide of_all = largest[0];
    for (std::size_t lane = 1; lane < kLanes; ++lane) of_all = number.larger(largest[lane], of_all);
    return of_all;
  }

  template <typename Call>
  void each(std::int64_t n, const Call& call) const {
    for (std::int64_t i = n; i-- > 0;) call(i);
  }
  template <typename Call>
  void first(const Call& call) const {
    call();
  }
};

/// The threads of a block, which run one after the other.
template <typename Part, int threads>
class ThreadsInTurn {
 public:
  template <typename Call>
  void each(const Call& call) {
    for (int thread = threads - 1; thread >= 0; --thread)
      call(thread, parts_[static_cast<std::size_t>(thread)]);
  }

 private:
  std::vector<Part> parts_ = std::vector<Part>(threads);
};

template <typename Function>
void launch_elements(Stream* stream, std::int64_t count, const Function& function) {
  stream->put([=] {
    for (std::int64_t i = count; i-- > 0;) function(i);
  });
}

template <typename Function>
void launch_rows(Stream* stream, std::int64_t rows, const Function& function) {
  stream->put([=] {
    for (std::int64_t row = rows; row-- > 0;) function(row, LanesInTurn());
  });
}

template <typename Product>
void launch_tiles(Stream* stream, const Product& product) {
  stream->put([=] {
    const auto shared = std::make_unique<typename Product::Shared>();
    for (std::int64_t batch = product.sizes.batches; batch-- > 0;) {
      for (std::int64_t row = product.row_tiles(); row-- > 0;) {
        for (std::int64_t column = product.column_tiles(); column-- > 0;) {
          ThreadsInTurn<typename Product::Part, Product::kThreads> block;
          product.run(block, *shared, batch, row * Product::kTile, column * Product::kTile);
        }
      }
    }
  });
}

}  // namespace gpu
