#pragma once

/// The sizes of a case whose ranks share sequences: the context-parallel group, the documents of a sequence,
/// and how a tensor that is cut over the group is published.
///
/// Shapes  A document has 2 cp chunks of `rows` or `rows` + 1 rows. Twins keep the documents, and so they
///         have a number of ranks that divides that of the first setting.

#include <fmt/format.h>
#include <vector>

#include "sim/context/cp_comm_type.h"
#include "sim/context/sequence_cut.h"
#include "verify/cases/case_inputs.h"
#include "verify/cases/case_setting.h"
#include "verify/cases/cp_calls.h"

namespace verify {

struct CpPlan {
  const CaseSetting& s;
  const int group = largest_divisor(s.group_size, s["cp"]);  // derived once

  int cp() const { return group; }
  int place(int rank) const { return rank % cp(); }
  sim::CpCommType kind() const { return static_cast<sim::CpCommType>(s["kind"]); }
  /// The ranks of the inner groups of a2a+p2p.
  int inner() const { return largest_divisor(cp(), s["inner"]); }
  /// The ranks that exchange heads.
  int exchange() const { return exchanging_ranks(kind(), cp(), inner()); }

  /// How many tokens a query sees before its own; -1: all of them, as a ring does.
  std::int64_t window() const {
    const bool rings = merges_of_ring(kind(), cp(), inner()) > 0;
    return s.fixed("whole_window", rings ? -1 : s["window"] - 1);
  }

  std::int64_t batch() const { return s["batch"]; }
  std::int64_t groups() const { return s["groups"] * s.fixed("whole_exchange", exchange()); }
  std::int64_t heads() const { return groups() * s["queries"]; }

  std::int64_t documents() const { return s["documents"]; }
  /// The rows of a document with padding, and without.
  std::int64_t length(std::int64_t document) const {
    return 2 * s.fixed("whole_cp", cp()) * (s["rows"] + document % 2);
  }
  std::int64_t real_length(std::int64_t document) const {
    return std::max<std::int64_t>(1, length(document) - s["padding"] * (document + 1));
  }
  std::int64_t sequence() const {
    std::int64_t rows = 0;
    for (std::int64_t document = 0; document < documents(); ++document) rows += length(document);
    return rows;
  }
  sim::SequenceCut cut() const {
    std::vector<std::int64_t> real = {0}, padded = {0};
    for (std::int64_t document = 0; document < documents(); ++document) {
      real.push_back(real.back() + real_length(document));
      padded.push_back(padded.back() + length(document));
    }
    return sim::SequenceCut::of_documents(real, padded, cp());
  }

  /// Returns the declarations of a tensor [S, ..] that is cut over the group: the first half and the second
  /// half of each document. Rank r has chunk r of the one, and chunk cp - 1 - r of the other.
  std::vector<CaseOutput> outputs_of(const std::string& name) const {
    std::vector<CaseOutput> outputs;
    for (std::int64_t document = 0; document < documents(); ++document) {
      for (const bool is_high : {false, true}) {
        CaseOutput output{.name = name_of(name, document, is_high), .placement = Placement::rows};
        for (int rank = 0; rank < s.group_size; ++rank)
          output.part_of.push_back(is_high ? cp() - 1 - place(rank) : place(rank));
        outputs.push_back(std::move(output));
      }
    }
    return outputs;
  }
  /// Publishes this rank's rows [S/cp, ..].
  void publish(sim::Rank& rank, const std::string& name, const sim::Tensor& rows) const {
    std::int64_t first = 0;
    for (std::int64_t document = 0; document < documents(); ++document) {
      const std::int64_t half = length(document) / (2 * cp());
      rank.publish(name_of(name, document, false), rows.rows(first, first + half));
      rank.publish(name_of(name, document, true), rows.rows(first + half, first + 2 * half));
      first += 2 * half;
    }
  }
  template <typename Scalar>
  void add_wholes(const std::string& name, const reference::Matrix<Scalar>& all,
                  Wholes<Scalar>& wholes) const {
    std::int64_t first = 0;
    for (std::int64_t document = 0; document < documents(); ++document) {
      const std::int64_t half = length(document) / 2;
      wholes[name_of(name, document, false)] = all.middleRows(first, half);
      wholes[name_of(name, document, true)] = all.middleRows(first + half, half);
      first += 2 * half;
    }
  }

 private:
  static std::string name_of(const std::string& name, std::int64_t document, bool is_high) {
    return fmt::format("{} of document {}, {} half", name, document, is_high ? "second" : "first");
  }
};

}  // namespace verify
