// The kernels of gpu/element_kernels.h, for a GPU that is played by this machine's processor.

#include "gpu/element_kernels.h"
#include "gpu/on_host/launch.h"
