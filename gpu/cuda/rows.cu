// The kernels of gpu/row_kernels.h, for CUDA.

#include "gpu/cuda/launch.h"
#include "gpu/row_kernels.h"
