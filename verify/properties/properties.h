#pragma once

/// The properties that every case must have at any setting.
///
///   serial      each output, put together as its placement says, equals the serial reference: exactly in the
///               field, and within the derived bound in f64, f32 and bf16. An output that is declared to add
///               in the same order as the layer on one rank equals that layer's output bit for bit
///   agree       a tensor that is declared replicated is the same on every rank, bit for bit; replicas have
///               the same values of all outputs
///   calls       each rank makes the calls that the closed form says, with the sizes and the
///               reductions that it says
///   adjoint     a linear layer satisfies <output, grad_output> = <input, grad_input> =
///               <weight, weight_grad> over the whole group, exactly, in the field, without any reference
///   twins       settings that compute the same result in another way give the same bits: ZeRO-1 or plain
///               data parallelism, other buckets, with or without overlap
///   resumes     a training stops and is saved. Another number of ranks, or another layout, loads it (in the
///               field they also train on) and saves it. The first ranks load that and train to the end. The
///               result has the bits of a training that never stopped, and a stretch without steps those
///               that it loaded
///   special     inputs contain a NaN, an infinity, or numbers up to 10,000. The sharded layer is NaN or
///               infinite exactly where the serial reference is, and the other elements lie within their
///               bounds, if one can be derived. Where rounding decides the sign of a factor of infinity, NaN
///               and infinity count as equal
///   schedules   another schedule, more threads, and ranks as threads all give the same run hash
///
/// No property holds for a run that broke a contract, or that published what cannot be judged
/// (assembled.h).
///
/// Exact   an element whose rounding has no bound (bf16 sums over dozens of ranks, and functions of them) is
///         not judged, and the result says so. A value is NaN in the candidate if and only if it is NaN in
///         the reference. Levels of the field that are retired on one side are retired on both, and at least
///         one level is left.

#include <optional>
#include <string>

#include "sim/world/finding.h"
#include "verify/cases/case.h"

namespace sim {
struct RunReport;
}

namespace verify {

class Bench;

struct Judgement {
  bool holds = true;
  std::string detail;          // the first difference: tensor, element, ranks
  double slack = 0;            // the largest |difference| / bound of all elements; 0 without bounds
  bool has_unbounded = false;  // some elements had no bound (bf16 over many ranks) and were not judged
  // An error may have exchanged a choice of the reference (experts of a token), so that what follows from
  // it was not judged.
  bool has_open_choice = false;
  std::optional<sim::Finding> finding = std::nullopt;  // the contract that a rank program broke
  // Every wrong element of the field has the right residues, and only other levels are retired: an
  // exponential was multiplied by 0 on one side alone.
  bool differs_in_levels_alone = false;
  bool threw = false;  // the case or its reference threw an exception
};

struct Property {
  const char* name;
  const char* proves;
  Judgement (*judge)(Bench& bench, const Case& the_case, const CaseSetting& setting);
  enum class DTypes { all, field, floats } dtypes = DTypes::all;
  bool (*is_of)(const Case& the_case) = nullptr;  // whether a case has the property; null: every case has it

  bool judges(const Case& the_case, sim::DType dtype) const {
    const bool fits = dtypes == DTypes::all || (dtypes == DTypes::field) == (dtype == sim::DType::field);
    return fits && (is_of == nullptr || is_of(the_case));
  }
};

const std::vector<Property>& all_properties();
/// Returns the property with this name, which must exist.
const Property& property_named(const std::string& name);

/// Judges a setting. The property does not hold if the case or its reference throws an exception.
Judgement judge_setting(const Property& property, Bench& bench, const Case& the_case,
                        const CaseSetting& setting);

/// Returns the serial reference of a case in floats, with the bounds of the setting's dtype.
Wholes<reference::Bounded> bounded_reference(const Case& the_case, const CaseSetting& setting);

/// Judges a finished run in floats by a reference that is already computed, as the property serial does.
Judgement judge_floats(const Case& the_case, const CaseSetting& setting, const sim::RunReport& report,
                       const Wholes<reference::Bounded>& wholes);

}  // namespace verify
