//===- runtime/bootstrap/rendezvous.cpp
#include "runtime/bootstrap/rendezvous.h"
