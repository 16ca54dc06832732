// The loops over rows of field elements, compiled with the options of kernels.

#include "sim/base/kernel_options.h"
#include "verify/reference/rows.h"

namespace verify::reference {

using sim::Field;

template Field largest_in_row(const Number<Field>&, const Field*, Eigen::Index);
template void exps_of_differences(const Number<Field>&, const Field*, Eigen::Index, const Field&, Field*,
                                  Sum<Field>&);
template void add_differences(const Field*, Eigen::Index, const Field&, Sum<Field>&);
template void scaled_differences(const Number<Field>&, const Field*, Eigen::Index,
                                 const ScaledDifference<Field>&, Field*);

}  // namespace verify::reference
