//===- tests/runtime/reference_world.cpp - an independent evaluation of fusions ---------------===//
#include "tests/runtime/reference_world.h"

#include "tests/support/case_file.h"
#include "tests/support/pointwise_value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace braid::test {

namespace {

double decodeHalf(uint32_t bits, int exponentBits, int mantissaBits) {
  const int exponent = (bits >> mantissaBits) & ((1 << exponentBits) - 1);
  const int mantissa = bits & ((1 << mantissaBits) - 1);
  const int bias = (1 << (exponentBits - 1)) - 1;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponentBits) - 1)
    return mantissa ? std::nan("") : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(mantissa, 1 - bias - mantissaBits);
  return sign * std::ldexp(mantissa + (1 << mantissaBits), exponent - bias - mantissaBits);
}

std::map<double, uint16_t> makeTable(DType dtype) {
  std::map<double, uint16_t> table;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double decoded = test::decodeHalf(dtype, static_cast<uint16_t>(bits));
    if (!std::isnan(decoded))
      table.emplace(decoded, static_cast<uint16_t>(bits));
  }
  return table;
}

const std::map<double, uint16_t> &tableOf(DType dtype) {
  static const std::map<double, uint16_t> tables[] = {makeTable(DType::BF16),
                                                      makeTable(DType::F16)};
  return tables[dtype == DType::BF16 ? 0 : 1];
}

uint16_t encodeHalf(DType dtype, double value) {
  const auto &table = tableOf(dtype);
  const auto found = table.find(value);
  EXPECT_NE(found, table.end()) << value << " is not representable";
  return found == table.end() ? 0 : found->second;
}

template <class T> double peek(const char *data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

template <class T> void poke(char *data, int64_t index, T value) {
  std::memcpy(data + index * sizeof(T), &value, sizeof(T));
}

/// Returns the rank that stores a global element (-1 if all ranks do) and its local index.
std::pair<int64_t, int64_t> locate(const FusionType &type, llvm::ArrayRef<int64_t> global,
                                   int64_t at) {
  int64_t rank = -1, local = 0, stride = 1;
  for (size_t axis = global.size(); axis-- > 0;) {
    const int64_t index = at % global[axis];
    at /= global[axis];
    if (type.axes[axis].kind == AxisKind::DIDx) {
      rank = index;
      continue;
    }
    local += index * stride;
    stride *= global[axis];
  }
  return {rank, local};
}

bool isTransposed(const FusionTensor &result) { return result.definition->transposeB; }

/// Returns the number of contracted axes, which appear in both operands but not in the result.
size_t contractedAxes(const FusionTensor &result) {
  const auto &operands = result.definition->operands;
  const size_t axes = operands[0]->type.axes.size() + operands[1]->type.axes.size();
  return (axes - result.type.axes.size()) / 2;
}

} // namespace

double decodeHalf(DType dtype, uint16_t bits) {
  return dtype == DType::BF16 ? decodeHalf(bits, 8, 7) : decodeHalf(bits, 5, 10);
}

double get(DType dtype, const std::vector<char> &data, int64_t index) {
  if (dtype == DType::F64)
    return peek<double>(data.data(), index);
  if (dtype == DType::F32)
    return peek<float>(data.data(), index);
  return decodeHalf(dtype, static_cast<uint16_t>(peek<uint16_t>(data.data(), index)));
}

void put(DType dtype, std::vector<char> &data, int64_t index, double value) {
  if (dtype == DType::F64)
    return poke<double>(data.data(), index, value);
  if (dtype == DType::F32)
    return poke<float>(data.data(), index, static_cast<float>(value));
  poke<uint16_t>(data.data(), index, encodeHalf(dtype, value));
}

int64_t count(llvm::ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

void add(Values &sum, const Values &terms, double factor) {
  for (size_t at = 0; at < sum.size(); ++at)
    sum[at] += factor * terms[at];
}

std::string fusionNamed(const std::string &name) {
  return fusionNamed("tests/runtime/inputs/reference.braid", name);
}

World::World(const std::string &text, uint64_t seed) : diags_("test.braid", text) {
  module_ = parse(diags_);
  if (module_.fusions.empty() || !verify(module_, diags_)) {
    ADD_FAILURE() << diags_.str();
    return;
  }
  fusion_ = module_.fusions.front().get();
  reference_ = std::make_unique<Reference>(*fusion_, seed);
  load(0);
}

std::vector<int64_t> World::allRanks() const {
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < ranks(); ++rank)
    all.push_back(rank);
  return all;
}

std::vector<char> World::bytesOf(size_t input, int64_t rank, uint32_t iteration) const {
  std::vector<char> data(localBytes(*fusion_->inputs()[input]), 0x55);
  reference_->fillInput(input, rank, iteration, data.data());
  return data;
}

size_t World::localBytes(const FusionTensor &tensor) const {
  return static_cast<size_t>(*byteCount(tensor.type.dtype, fusion_->localShape(tensor.type)));
}

void World::load(uint32_t iteration) {
  iteration_ = iteration;
  const auto inputs = fusion_->inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    values_[inputs[i]] = globalOf(i, iteration);
  forgetGemms();
}

Values World::globalOf(size_t input, uint32_t iteration) const {
  const FusionType &type = fusion_->inputs()[input]->type;
  const Shape shape = fusion_->globalShape(type);
  Values values(count(shape));
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    const std::vector<char> data = bytesOf(input, rank, iteration);
    for (int64_t at = 0; at < count(shape); ++at) {
      const auto [owner, local] = locate(type, shape, at);
      if (owner == -1 || owner == rank)
        values[at] = get(type.dtype, data, local);
    }
  }
  return values;
}

const Values &World::valuesOf(const FusionTensor &tensor) {
  const auto found = values_.find(&tensor);
  return found != values_.end() ? found->second : values_[&tensor] = compute(tensor);
}

void World::forgetGemms() {
  std::erase_if(values_, [](const auto &entry) {
    return entry.first->definition->kind != FusionOpKind::Input;
  });
}

std::vector<Values> World::outputValues() {
  std::vector<Values> values;
  for (const FusionTensor *output : fusion_->outputs())
    values.push_back(valuesOf(*output));
  return values;
}

void World::damageBlock(size_t input, int64_t rank, const Values &wrong) {
  const FusionType &type = fusion_->inputs()[input]->type;
  const Shape shape = fusion_->globalShape(type);
  const int64_t size = count(shape);
  for (int64_t at = 0; at < size; ++at) {
    const int64_t owner = locate(type, shape, at).first;
    if ((owner == -1 ? at * ranks() / size : owner) == rank)
      this->input(input)[at] = wrong[at];
  }
  forgetGemms();
}

std::vector<char> World::outputOf(size_t index, int64_t rank) {
  const FusionTensor &tensor = *fusion_->outputs()[index];
  const Shape shape = fusion_->globalShape(tensor.type);
  const Values &values = valuesOf(tensor);
  std::vector<char> data(localBytes(tensor));
  for (int64_t at = 0; at < count(shape); ++at) {
    const auto [owner, local] = locate(tensor.type, shape, at);
    if (owner == -1 || owner == rank)
      put(tensor.type.dtype, data, local, values[at]);
  }
  return data;
}

std::vector<int64_t> World::objectingRanks() {
  forgetGemms();
  std::vector<int64_t> objecting;
  for (int64_t rank = 0; rank < ranks(); ++rank)
    if (!passes(rank))
      objecting.push_back(rank);
  return objecting;
}

std::vector<int64_t> World::objectingRanks(const Values &values) {
  values_[fusion_->outputs()[0]] = values;
  std::vector<int64_t> objecting;
  for (int64_t rank = 0; rank < ranks(); ++rank)
    if (!passes(rank))
      objecting.push_back(rank);
  forgetGemms();
  return objecting;
}

bool World::passes(int64_t rank) {
  for (size_t i = 0; i < fusion_->outputs().size(); ++i) {
    const Status status = reference_->compare(i, rank, iteration_, outputOf(i, rank).data());
    EXPECT_TRUE(status.isOk() || status.code() == StatusCode::WrongResult) << status.message();
    if (!status.isOk())
      return false;
  }
  return true;
}

int64_t World::depthOf(const FusionTensor &tensor) const {
  const Shape shape = fusion_->globalShape(tensor.definition->a()->type);
  return count(llvm::ArrayRef<int64_t>(shape).take_back(contractedAxes(tensor)));
}

int64_t World::shardsOf(const FusionTensor &tensor) const {
  const auto &operands = tensor.definition->operands;
  const auto &a = operands[0]->type.axes, &b = operands[1]->type.axes;
  const size_t axes = contractedAxes(tensor);
  const bool isSharded = a[a.size() - axes].kind == AxisKind::DIDx ||
                         b[isTransposed(tensor) ? b.size() - axes : 0].kind == AxisKind::DIDx;
  return isSharded ? ranks() : 1;
}

Values World::partial(const FusionTensor &tensor, int64_t shard) {
  const auto &operands = tensor.definition->operands;
  const Values a = valuesOf(*operands[0]), b = valuesOf(*operands[1]);
  const int64_t depth = depthOf(tensor), width = depth / shardsOf(tensor);
  const int64_t rows = static_cast<int64_t>(a.size()) / depth;
  const int64_t columns = static_cast<int64_t>(b.size()) / depth;
  Values c(rows * columns, 0.0);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t k = shard * width; k < (shard + 1) * width; ++k)
        c[i * columns + j] +=
            a[i * depth + k] * (isTransposed(tensor) ? b[j * depth + k] : b[k * columns + j]);
  return c;
}

Values World::compute(const FusionTensor &tensor) {
  const auto &operands = tensor.definition->operands;
  if (isElementwise(*tensor.definition)) {
    Values values = valuesOf(*operands.front());
    const Values others = valuesOf(*operands.back());
    if (tensor.definition->kind == FusionOpKind::Pointwise)
      for (size_t at = 0; at < values.size(); ++at)
        values[at] = rounded(tensor.type.dtype,
                             pointwiseValue(tensor.definition->function, values[at], others[at]));
    return values;
  }
  Values c = partial(tensor, 0);
  for (int64_t shard = 1; shard < shardsOf(tensor); ++shard)
    add(c, partial(tensor, shard));
  if (operands.size() < 3)
    return c;
  const Values bias = valuesOf(*operands[2]);
  for (size_t at = 0; at < c.size(); ++at)
    c[at] += bias[at % bias.size()];
  return c;
}

} // namespace braid::test
