// This file defines the kernels of gpu/device/product_kernel.h for CUDA.

#include "gpu/cuda/launch.h"
#include "gpu/device/product_kernel.h"
