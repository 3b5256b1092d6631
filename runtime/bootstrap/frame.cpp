//===- runtime/bootstrap/frame.cpp
#include "runtime/bootstrap/frame.h"
