//===- ir/status.h - the outcome of an operation that can fail --------------------------------===//
//
// What users see is what all layers use. Failures that are tied to places in a text are collected
// in `Diagnostics` first.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
