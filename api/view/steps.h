//===- api/view/steps.h - an order in which commands can run ----------------------------------===//
#pragma once

#include "api/view/page.h"

namespace braid::view {

/// Every command takes one step, and begins as soon as what it waits for is over; with `queues` not
/// 0, streams share hardware queues as in Plan's order. What is never reached did not run; what is
/// reached and never goes on has a begin only.
Timing stepsOf(const Page &page, uint32_t queues);

} // namespace braid::view
