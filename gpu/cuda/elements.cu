// This file defines the kernels of gpu/device/element_kernels.h for CUDA.

#include "gpu/cuda/launch.h"
#include "gpu/device/element_kernels.h"
