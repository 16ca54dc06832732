#include "tests/defects/wrong_context.h"

#include <algorithm>
#include <cstddef>

#include "verify/cases/context_plan.h"

namespace test {

namespace {

using verify::CaseSetting;
using verify::ContextPlan;
using Numbers = ContextPlan::Numbers;

/// Runs the case with the numbers of one tensor replaced: change(plan, rank, numbers).
template <typename Change>
void run_with(sim::Rank& rank, const CaseSetting& s, const std::string& tensor, const Change& change) {
  verify::run_context_batch(
      rank, s, [&](const ContextPlan& plan, int place, const std::string& name, Numbers& numbers) {
        if (name == tensor) change(plan, place, numbers);
      });
}

/// The numbers that one rank would have of the tensor, if it had all rows.
Numbers numbers_of_all_rows(const ContextPlan& plan, const std::string& tensor) {
  if (tensor == "positions") {
    if (!plan.is_packed()) return sim::SequenceCut::of_sequence(plan.length(), 1).positions_of(0);
    const sim::DocumentOffsets offsets = plan.offsets();
    return sim::SequenceCut::of_documents(offsets.cu_seqlens, offsets.cu_seqlens_padded, 1).positions_of(0);
  }
  const sim::SequenceCut whole = sim::SequenceCut::of_sequence(plan.length(), 1);
  if (tensor != "rotary") return whole.rows_of(0);
  if (plan.is_cut_as_sequence()) return sim::rotary_positions(whole, 0, plan.offset());
  sim::PackedRotary rotary = plan.rotary();
  rotary.ranks = 1;
  rotary.local_tokens = plan.length();
  return sim::rotary_positions(rotary, 0);
}

void cut_in_one_piece(sim::Rank& rank, const CaseSetting& s, const std::string& tensor) {
  run_with(rank, s, tensor, [&](const ContextPlan& plan, int place, Numbers& numbers) {
    const Numbers all = numbers_of_all_rows(plan, tensor);
    const auto begin = all.begin() + place * static_cast<std::ptrdiff_t>(numbers.size());
    std::copy_n(begin, numbers.size(), numbers.begin());
  });
}

}  // namespace

void tokens_cut_in_one_piece(sim::Rank& rank, const CaseSetting& s) { cut_in_one_piece(rank, s, "output"); }
void labels_cut_in_one_piece(sim::Rank& rank, const CaseSetting& s) { cut_in_one_piece(rank, s, "labels"); }
void loss_mask_cut_in_one_piece(sim::Rank& rank, const CaseSetting& s) {
  cut_in_one_piece(rank, s, "loss_mask");
}
void positions_cut_in_one_piece(sim::Rank& rank, const CaseSetting& s) {
  cut_in_one_piece(rank, s, "positions");
}
void rotary_cut_in_one_piece(sim::Rank& rank, const CaseSetting& s) { cut_in_one_piece(rank, s, "rotary"); }

void second_half_goes_on_from_the_first(sim::Rank& rank, const CaseSetting& s) {
  run_with(rank, s, "rotary", [](const ContextPlan& plan, int, Numbers& numbers) {
    Numbers lengths;
    if (plan.is_cut_as_sequence()) {
      lengths.push_back(plan.length());
    } else {
      const sim::SequenceCut cut = plan.cut();
      for (const sim::Document& document : cut.documents()) lengths.push_back(document.length);
    }
    std::size_t begin = 0;
    for (const std::int64_t length : lengths) {
      const auto local = static_cast<std::size_t>(length / plan.cp());
      for (std::size_t i = begin + local / 2; plan.cp() > 1 && i < begin + local; ++i)
        numbers[i] = numbers[i - 1] + 1;
      begin += local;
    }
  });
}

void positions_of_the_row(sim::Rank& rank, const CaseSetting& s) {
  run_with(rank, s, "positions",
           [](const ContextPlan& plan, int place, Numbers& numbers) { numbers = plan.cut().rows_of(place); });
}

void rotary_begins_again_in_a_packed_table(sim::Rank& rank, const CaseSetting& s) {
  run_with(rank, s, "rotary", [](const ContextPlan& plan, int place, Numbers& numbers) {
    if (plan.is_cut_as_sequence()) return;
    sim::PackedRotary rotary = plan.rotary();
    rotary.max_seqlen = rotary.table_rows;
    numbers = sim::rotary_positions(rotary, place);
  });
}

/// The offsets without padding, which are those of documents of any length, are divided by cp.
void odd_documents_divided_by_cp(sim::Rank& rank, const CaseSetting& s) {
  run_with(rank, s, "rotary", [](const ContextPlan& plan, int place, Numbers& numbers) {
    if (plan.is_cut_as_sequence()) return;
    sim::PackedRotary rotary = plan.rotary();
    rotary.cu_seqlens = plan.offsets().cu_seqlens;
    numbers = sim::rotary_positions(rotary, place);
  });
}

void borders_of_documents_ignored(sim::Rank& rank, const CaseSetting& s) {
  run_with(rank, s, "output", [](const ContextPlan& plan, int place, Numbers& numbers) {
    numbers = sim::SequenceCut::of_sequence(plan.length(), plan.cp()).rows_of(place);
  });
}

}  // namespace test
