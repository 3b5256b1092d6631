//===- runtime/bootstrap/meeting_place.cpp
#include "runtime/bootstrap/meeting_place.h"
