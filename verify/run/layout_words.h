#pragma once

/// A layout in words, "tp2 pp2 ep2 etp1 sp zero", as options of Megatron and a number of ranks:
///
///   tpN ppN cpN epN etpN    sizes; 1 where they are not given, and etp as tp
///   vppN                    chunks of layers of a pipeline rank
///   dpN                     replicas; as few as the experts need where it is not given
///   sp zero                 sequence parallelism, and the distributed optimizer
///   --NAME ...              what follows is given to the program as it is
///
/// Errors  layout_words: a word that is none of these, a size of 0, a word that is given twice, or more than
///         4,096 ranks.

#include <cstdint>
#include <string>
#include <vector>

namespace verify {

struct LayoutInWords {
  std::string name;  // as it is given
  std::int64_t tp = 1, pp = 1, cp = 1, ep = 1, etp = 0, vpp = 1, dp = 0;
  bool is_sequence_parallel = false;
  bool has_distributed_optimizer = false;
  std::vector<std::string> others = {};  // words for the program

  std::int64_t ranks() const { return tp * pp * cp * dp; }
};

/// Reads a layout; dp and etp are then known.
LayoutInWords layout_in_words(const std::string& words);
/// Reads layouts with ';' between them.
std::vector<LayoutInWords> layouts_in_words(const std::string& words);

/// Returns smaller layouts, the smallest first: without one of its words, or with one of its sizes divided.
std::vector<std::string> smaller_layouts(const std::string& words);

/// Returns the options of Megatron that ask for it.
std::vector<std::string> megatron_options(const LayoutInWords& layout);

}  // namespace verify
