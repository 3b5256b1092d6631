//===- runtime/bootstrap/environment.cpp
#include "runtime/bootstrap/environment.h"
