#pragma once

/// What holds for every case, at any setting.
///
///   serial      each output, made whole as its placement says, equals the serial reference: in the field
///               exactly, in f64, f32 and bf16 within the derived bound; bit for bit equal to the layer on
///               one rank where that adds in the same order
///   agree       what is declared replicated is the same, bit for bit, on every rank; replicas have the same
///               of everything
///   calls       each rank makes the calls, and of the sizes, that the closed form says
///   adjoint     of a linear layer, over the whole group: <output, grad_output> = <input, grad_input> =
///               <weight, weight_grad>, exactly, in the field, with no reference at all
///   twins       settings that are computed in another way give the same bits: ZeRO-1 and plain data
///               parallelism, other buckets, with and without overlap
///   resumes     a training that stops, is saved, loaded on another number of ranks (where it goes on, in the
///               field), saved there, and loaded on the first number of ranks to go on has the bits of one
///               that never stopped
///   special     with a NaN, an infinity or numbers up to 10,000 among the inputs, what is NaN or infinite in
///               the serial reference is so in the sharded layer, and nothing else is; the rest lies within
///               its bound, where one can be derived. Where rounding decides the sign of a factor of
///               infinity, NaN and infinity are the same
///   schedules   another schedule, more threads, ranks as threads: the same run hash
///
/// Exact   where rounding has no bound (bf16 sums over dozens of ranks, functions of them), nothing is
///         judged, and that is said. A value that is NaN in the reference is NaN in the candidate, and the
///         other way round; levels of the field that are retired in one are retired in both, and some level
///         is left.

#include <string>

#include "verify/cases/case.h"
#include "verify/properties/bench.h"

namespace verify {

struct Judgement {
  bool holds = true;
  std::string detail;          // what differs first: tensor, element, ranks
  double slack = 0;            // of the bound: the largest |difference| / bound met, 0 where there is none
  bool has_unbounded = false;  // some elements had no bound (bf16 over many ranks), and were not judged
};

struct Property {
  const char* name;
  const char* proves;
  Judgement (*judge)(Bench& bench, const Case& the_case, const CaseSetting& setting);
  enum class DTypes { all, field, floats } dtypes = DTypes::all;
  bool (*is_of)(const Case& the_case) = nullptr;  // null: of every case

  bool judges(const Case& the_case, sim::DType dtype) const {
    const bool fits = dtypes == DTypes::all || (dtypes == DTypes::field) == (dtype == sim::DType::field);
    return fits && (is_of == nullptr || is_of(the_case));
  }
};

const std::vector<Property>& all_properties();
/// Of these, the one of a name that is there.
const Property& property_named(const std::string& name);

/// The reference of a case in floats, with the bounds of the setting's dtype.
Wholes<reference::Bounded> bounded_reference(const Case& the_case, const CaseSetting& setting);

/// As serial does, in floats, of a run and a reference that are there already.
Judgement judge_floats(const Case& the_case, const CaseSetting& setting, const sim::RunReport& report,
                       const Wholes<reference::Bounded>& wholes);

}  // namespace verify
