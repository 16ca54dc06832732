#pragma once

/// The rules that the declaration of a case keeps: its name and dimensions and, at each setting, its world,
/// outputs and adjoint identities. A case that breaks a rule cannot be judged, so it is refused before any
/// rank runs. The rules are a table in case_rules.cpp.
///
/// Calls   require_cases() takes all cases of a program, before anything else reads them;
///         require_declarations() takes the cases of a campaign, before its first run;
///         require_declaration() takes one setting, before it runs.
/// Errors  case_declaration: a member of a case breaks its rule, or throws. The refusal names the case and
///         the member.

#include <vector>

#include "verify/cases/case.h"
#include "verify/cases/case_list.h"

namespace verify {

/// Refuses a list without cases, a null case, two cases of one name, and names and dimensions that break
/// their rules.
void require_cases(const CaseList& cases);

/// Refuses a case whose declaration breaks a rule at a corner of its settings: on 1, 2, 3 or `most_ranks`
/// ranks, with all dimensions at their least, all at their most, or one of them at its most; and a case whose
/// twins are the setting itself at all of them.
void require_declarations(const std::vector<const Case*>& cases, int most_ranks);

/// Refuses a case whose declaration breaks a rule at this setting. Returns the outputs of the declaration.
std::vector<CaseOutput> require_declaration(const Case& the_case, const CaseSetting& setting);

}  // namespace verify
