#include "verify/cases/gpt_reference_training.h"

namespace verify {

template Wholes<reference::Perturbed> gpt_reference(const Inputs<reference::Perturbed>&, const GptPlan&,
                                                    ChosenExperts*);

}  // namespace verify
