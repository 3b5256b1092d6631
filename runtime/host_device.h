//===- runtime/host_device.h - functions for the host and for kernels -------------------------===//
#pragma once

#ifdef __CUDACC__
#define BRAID_HOST_DEVICE __host__ __device__
#else
#define BRAID_HOST_DEVICE
#endif
