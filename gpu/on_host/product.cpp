// This file defines the kernels of gpu/device/product_kernel.h for a GPU played by this machine's processor.

#include "gpu/device/product_kernel.h"
#include "gpu/on_host/launch.h"
