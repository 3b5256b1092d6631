//===- runtime/join_products.h - products of a Plan, issued together --------------------------===//
//
// A pipeline issues a product for each block, behind the await of that block. Joined, a product and
// those that follow on its stream, with nothing but awaits between them, stand together:
//
//   before   matmul own | signal, copy (other streams) | await r1 | signal, copy | matmul block 1
//   after    signal, copy | signal, copy | matmul own | await r1 | matmul block 1
//
// so that a device may make one kernel of them, which waits inside (Device::joined). Each stream
// keeps its order. What is joined moves behind what other streams were issued meanwhile, never
// before anything: a Plan that ends however its streams are scheduled, and with one queue for all
// of them, still does, since nothing in between waits for what moves (a record on the stream would
// end the run). The checker judges the Plan as it is after this.
//
// A kernel that waits keeps all processors from other work. So everything that needs one (products,
// sums, copies within the rank) has to be on one stream, whose order it then follows.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "ir/status.h"
#include "runtime/plan.h"

namespace braid {

/// Moves what can be joined together, and marks the Plan and its products. BadInput, and the Plan
/// is as it was, if two streams need processors.
Status joinProducts(Plan &plan);

/// How many commands from `first` on, a matmul, are joined: it alone, or it and others with the
/// awaits between them. 1 where the Plan joins none.
uint32_t countJoined(const Plan &plan, uint32_t first);

/// What the products among these commands are as one: with the rows of all.
PlanMatmul wholeProduct(const Plan &plan, uint32_t first, uint32_t count);

/// The shapes whose cost the Plan depends on: its products, or, where they are joined, the wholes.
std::vector<PlanMatmul> productsToCost(const Plan &plan);

} // namespace braid
