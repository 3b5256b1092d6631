//===- runtime/bootstrap/job_memory.cpp
#include "runtime/bootstrap/job_memory.h"
