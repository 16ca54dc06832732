// The kernels of gpu/element_kernels.h, for CUDA.

#include "gpu/cuda/launch.h"
#include "gpu/element_kernels.h"
