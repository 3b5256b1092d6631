//===- runtime/bootstrap/socket.cpp
#include "runtime/bootstrap/socket.h"
