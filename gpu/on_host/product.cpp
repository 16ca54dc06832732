// The kernels of gpu/product_kernel.h, for a GPU that is played by this machine's processor.

#include "gpu/on_host/launch.h"
#include "gpu/product_kernel.h"
