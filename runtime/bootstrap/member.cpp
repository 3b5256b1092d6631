//===- runtime/bootstrap/member.cpp
#include "runtime/bootstrap/member.h"
