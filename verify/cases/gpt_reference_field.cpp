#include "verify/cases/gpt_reference_training.h"

namespace verify {

template Wholes<sim::Field> gpt_reference(const Inputs<sim::Field>&, const GptPlan&, ChosenExperts*);

}  // namespace verify
