#pragma once

/// Experts with a capacity: which of the tokens that chose an expert it keeps. The capacity is that of the
/// tokens of one rank, so that these ranks are a part of the definition.
///
/// Shapes  probabilities [T, E] of T tokens, `tokens` of each rank.
/// Exact   Of the tokens of a rank an expert keeps those with the largest probabilities, or the first ones.
///         With padding, tokens that did not choose the expert fill its buffer, those with the lowest number
///         first. Where an error may exchange two tokens, is_sure is false.
/// Source  Lepikhin et al. 2020 (GShard); Megatron-LM: --moe-expert-capacity-factor.

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "verify/reference/router.h"

namespace verify::reference {

struct CapacitySetting {
  std::int64_t tokens = 1;
  std::int64_t capacity = 1;
  bool by_probability = true;
  bool is_padded = false;
};

template <typename Scalar>
struct KeptTokens {
  std::vector<std::vector<bool>> kept;  // by token and expert
  bool is_sure = true;
};

/// Returns how many tokens an expert keeps: its share of the choices, times a factor, rounded up. Both numbers
/// are rounded to doubles before, as in Megatron.
inline std::int64_t capacity_of(std::int64_t tokens, std::int64_t topk, std::int64_t experts, double factor) {
  const double share = static_cast<double>(tokens * topk) / static_cast<double>(experts);
  return static_cast<std::int64_t>(std::ceil(share * factor));
}

/// `is_chosen(t, e)` says whether token t chose expert e.
template <typename Scalar>
KeptTokens<Scalar> kept_tokens(const Matrix<Scalar>& p,
                               const std::function<bool(Eigen::Index, Eigen::Index)>& is_chosen,
                               const CapacitySetting& setting) {
  const std::vector<bool> none(static_cast<std::size_t>(p.cols()), false);
  KeptTokens<Scalar> result{std::vector(static_cast<std::size_t>(p.rows()), none)};
  for (Eigen::Index first = 0; first < p.rows(); first += setting.tokens) {
    for (Eigen::Index e = 0; e < p.cols(); ++e) {
      std::vector<Scalar> of_tokens;
      std::vector<Eigen::Index> chosen, others;
      for (Eigen::Index t = 0; t < setting.tokens; ++t) {
        of_tokens.push_back(p(first + t, e));
        (is_chosen(first + t, e) ? chosen : others).push_back(t);
      }
      if (setting.by_probability) {
        const ChosenColumns<Scalar> largest(of_tokens, chosen, setting.capacity);
        result.is_sure = result.is_sure && largest.is_sure;
        chosen = largest.columns;
      }
      if (setting.is_padded) chosen.insert(chosen.end(), others.begin(), others.end());
      const auto count = static_cast<std::size_t>(setting.capacity);
      for (std::size_t i = 0; i < std::min(count, chosen.size()); ++i)
        result.kept[static_cast<std::size_t>(first + chosen[i])][static_cast<std::size_t>(e)] = true;
    }
  }
  return result;
}

}  // namespace verify::reference
