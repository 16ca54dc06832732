#include "verify/cases/gpt_reference_training.h"

namespace verify {

template Wholes<reference::Bounded> gpt_reference(const Inputs<reference::Bounded>&, const GptPlan&,
                                                  ChosenExperts*);

}  // namespace verify
