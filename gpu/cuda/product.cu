// The kernels of gpu/product_kernel.h, for CUDA.

#include "gpu/cuda/launch.h"
#include "gpu/product_kernel.h"
