//===- runtime/reference/reference.cpp - what a fusion's result should be ---------------------===//
//
// The definition, evaluated row by row: a row of a GEMM needs one row of its first operand and
// all of its second. Rows are recomputed for whoever asks, so nothing is shared between ranks and
// nothing has to be locked; second operands are kept as the lists of their nonzero entries.
//
//===-------------------------------------------------------------------------------------===//
#include "runtime/reference/reference.h"

#include "runtime/reference/reference_codec.h"
#include "runtime/reference/reference_function_pattern.h"
#include "runtime/reference/reference_pattern.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>

namespace braid {

namespace reference {
namespace {

/// Row k of a second operand: its nonzero entries.
struct Entry {
  int64_t column;
  double value;
};
using SparseRow = llvm::SmallVector<Entry, 1>;

/// A sum, and the sum of the magnitudes of what was added: no sum of a part of that exceeds the
/// latter, in whatever order a backend adds.
struct Sum {
  double value = 0;
  double magnitude = 0;

  void add(double term) {
    value += term;
    magnitude += std::fabs(term);
  }
  void add(const Sum &other) {
    value += other.value;
    magnitude += other.magnitude;
  }
};

/// The values of all tensors in one iteration. Made for one comparison; not shared.
class Evaluator {
public:
  Evaluator(const Graph &graph, llvm::ArrayRef<std::unique_ptr<InputPattern>> patterns,
            uint32_t iteration)
      : graph_(graph), patterns_(patterns), iteration_(iteration), rows_(graph.tensors.size()),
        seconds_(graph.gemms.size()) {}

  /// Elements [begin, begin + out.size()) of a tensor, counted in its global row-major order. False
  /// if some value on the way cannot be computed exactly by everyone; status() says which.
  bool read(size_t tensor, int64_t begin, llvm::MutableArrayRef<double> out);
  const Status &status() const { return status_; }

private:
  /// The row of a tensor that was computed last. Tensors without natural rows have one row.
  struct Row {
    int64_t index = -1;
    std::vector<double> values;
  };

  int64_t rowWidth(size_t tensor) const;
  bool computeRow(size_t tensor, int64_t index, Row &row);
  bool computeFunctionRow(const Function &function, int64_t index, Row &row);
  bool apply(const Function &function, double x, double y, double &result);
  bool computeGemmRow(const Gemm &gemm, int64_t index, Row &row);
  bool addPartial(const Gemm &gemm, int64_t shard, llvm::ArrayRef<double> first,
                  std::vector<Sum> &sums);
  bool addBias(const Gemm &gemm, std::vector<Sum> &sums);
  bool finish(const Tensor &tensor, llvm::ArrayRef<Sum> sums, Row &row);
  bool isHeld(DType dtype, double value, const char *what, const Tensor &tensor);
  const std::vector<SparseRow> *second(size_t gemm);
  bool forEachNonzero(size_t tensor, llvm::function_ref<void(int64_t, double)> fn);
  const InputPattern *patternOf(const Tensor &tensor) const {
    return tensor.input ? patterns_[*tensor.input].get() : nullptr;
  }

  const Graph &graph_;
  llvm::ArrayRef<std::unique_ptr<InputPattern>> patterns_;
  uint32_t iteration_;
  std::vector<Row> rows_;                                      ///< one for each tensor
  std::vector<std::optional<std::vector<SparseRow>>> seconds_; ///< one for each GEMM
  Status status_;
};

bool Evaluator::read(size_t tensor, int64_t begin, llvm::MutableArrayRef<double> out) {
  const int64_t width = rowWidth(tensor);
  while (!out.empty()) {
    Row &row = rows_[tensor];
    const int64_t index = begin / width, from = begin % width;
    if (row.index != index && !computeRow(tensor, index, row))
      return false;
    const int64_t count = std::min<int64_t>(width - from, static_cast<int64_t>(out.size()));
    std::copy_n(row.values.begin() + from, count, out.begin());
    out = out.drop_front(count);
    begin += count;
  }
  return true;
}

int64_t Evaluator::rowWidth(size_t index) const {
  const Tensor &tensor = graph_.tensors[index];
  if (tensor.gemm)
    return graph_.gemms[*tensor.gemm].columns;
  if (tensor.function)
    return rowWidth(graph_.functions[*tensor.function].operands.front());
  return patternOf(tensor)->rowWidth();
}

bool Evaluator::computeRow(size_t index, int64_t rowIndex, Row &row) {
  const Tensor &tensor = graph_.tensors[index];
  row.values.resize(rowWidth(index));
  row.index = rowIndex;
  if (tensor.gemm)
    return computeGemmRow(graph_.gemms[*tensor.gemm], rowIndex, row);
  if (tensor.function)
    return computeFunctionRow(graph_.functions[*tensor.function], rowIndex, row);
  std::vector<int8_t> values(row.values.size());
  patternOf(tensor)->row(iteration_, rowIndex, values);
  const double unit = std::ldexp(1.0, patternOf(tensor)->exponent());
  std::transform(values.begin(), values.end(), row.values.begin(),
                 [&](int8_t value) { return value * unit; });
  return true;
}

bool Evaluator::computeFunctionRow(const Function &function, int64_t index, Row &row) {
  const int64_t width = static_cast<int64_t>(row.values.size());
  std::vector<double> first(row.values.size()), last(row.values.size());
  if (!read(function.operands.front(), index * width, first) ||
      !read(function.operands.back(), index * width, last))
    return false;
  for (size_t i = 0; i < row.values.size(); ++i)
    if (!apply(function, first[i], last[i], row.values[i]))
      return false;
  return true;
}

/// A function's own rounding cannot be seen: its result is exact, or the comparison is given up.
bool Evaluator::apply(const Function &function, double x, double y, double &result) {
  const Tensor &tensor = graph_.tensors[function.result];
  const double far = std::ldexp(1.0, farExponent(tensor.dtype));
  if (function.isFar() && x != 0 && std::fabs(x) < far) {
    status_ =
        Status(StatusCode::Unsupported,
               fmt::format("{}: cannot verify %{}: expected '{}' of 0, or of {} and more, up or "
                           "down, where it is exact, got {}",
                           tensor.place, tensor.name, std::string_view(keyword(*function.function)),
                           far, x));
    return false;
  }
  if (!function.function)
    result = x;
  else if (!isBinary(*function.function))
    result = std::max(x, 0.0);
  else
    result = *function.function == PointwiseFunction::Add ? x + y : x * y;
  return isHeld(tensor.dtype, result, "values", tensor);
}

bool Evaluator::computeGemmRow(const Gemm &gemm, int64_t index, Row &row) {
  const std::vector<SparseRow> *entries = second(&gemm - graph_.gemms.data());
  std::vector<double> first(gemm.depth);
  if (!entries || !read(gemm.first, index * gemm.depth, first))
    return false;
  std::vector<Sum> sums(gemm.columns);
  for (int64_t shard = 0; shard < gemm.shards; ++shard)
    if (!addPartial(gemm, shard, first, sums))
      return false;
  return addBias(gemm, sums) && finish(graph_.tensors[gemm.result], sums, row);
}

/// Every device's partial result is rounded before it is added; so it has to be exact itself.
bool Evaluator::addPartial(const Gemm &gemm, int64_t shard, llvm::ArrayRef<double> first,
                           std::vector<Sum> &sums) {
  const std::vector<SparseRow> &entries = *second(&gemm - graph_.gemms.data());
  const Tensor &result = graph_.tensors[gemm.result];
  const int64_t begin = shard * gemm.shardDepth();
  std::vector<Sum> partial(gemm.columns);
  for (int64_t k = begin; k < begin + gemm.shardDepth(); ++k)
    if (first[k] != 0)
      for (const Entry &entry : entries[k])
        partial[entry.column].add(first[k] * entry.value);
  for (int64_t n = 0; n < gemm.columns; ++n) {
    if (gemm.shards > 1 && !isHeld(gemm.partial, partial[n].value, "partial results", result))
      return false;
    sums[n].add(partial[n]);
  }
  return true;
}

bool Evaluator::addBias(const Gemm &gemm, std::vector<Sum> &sums) {
  if (!gemm.bias)
    return true;
  std::vector<double> bias(gemm.columns);
  if (!read(*gemm.bias, 0, bias))
    return false;
  for (int64_t n = 0; n < gemm.columns; ++n)
    sums[n].add(bias[n]);
  return true;
}

/// Every element type holds these; most values are of this kind.
bool isSmallInteger(double value) {
  return std::fabs(value) <= 256 && static_cast<double>(static_cast<int>(value)) == value;
}

/// Every GEMM is rounded to its element type where it is stored, and accumulated in f32, or f64
/// for f64; the comparison is exact only if neither can round.
bool Evaluator::finish(const Tensor &tensor, llvm::ArrayRef<Sum> sums, Row &row) {
  const double exactBelow = tensor.dtype == DType::F64 ? 0x1p53 : 0x1p24;
  for (size_t n = 0; n < sums.size(); ++n) {
    const Sum &sum = sums[n];
    if (sum.magnitude > exactBelow) {
      status_ = Status(StatusCode::Unsupported,
                       fmt::format("{}: cannot verify %{}: expected partial sums up to {}, which "
                                   "are exact in any order, got {}",
                                   tensor.place, tensor.name, exactBelow, sum.magnitude));
      return false;
    }
    if (!isHeld(tensor.dtype, sum.value, "values", tensor))
      return false;
    row.values[n] = sum.value;
  }
  return true;
}

bool Evaluator::isHeld(DType dtype, double value, const char *what, const Tensor &tensor) {
  if (isSmallInteger(value) || isExact(dtype, value))
    return true;
  status_ =
      Status(StatusCode::Unsupported,
             fmt::format("{}: cannot verify %{}: expected {} that {} holds exactly, got {}",
                         tensor.place, tensor.name, what, std::string_view(name(dtype)), value));
  return false;
}

const std::vector<SparseRow> *Evaluator::second(size_t index) {
  std::optional<std::vector<SparseRow>> &slot = seconds_[index];
  if (slot)
    return &*slot;
  const Gemm &gemm = graph_.gemms[index];
  std::vector<SparseRow> rows(gemm.depth);
  const int64_t width = gemm.transposed ? gemm.depth : gemm.columns;
  const bool ok = forEachNonzero(gemm.second, [&](int64_t at, double value) {
    const int64_t i = at / width, j = at % width;
    rows[gemm.transposed ? j : i].push_back({gemm.transposed ? i : j, value});
  });
  if (!ok)
    return nullptr;
  slot = std::move(rows);
  return &*slot;
}

bool Evaluator::forEachNonzero(size_t index, llvm::function_ref<void(int64_t, double)> fn) {
  const Tensor &tensor = graph_.tensors[index];
  double unit = 1;
  const auto visit = [&](int64_t begin, auto &&values) {
    for (const auto &value : values) {
      if (value != 0)
        fn(begin, value * unit);
      ++begin;
    }
  };
  if (const InputPattern *pattern = patternOf(tensor)) {
    unit = std::ldexp(1.0, pattern->exponent());
    pattern->whole(iteration_, visit);
    return true;
  }
  std::vector<double> row(rowWidth(index));
  const int64_t width = static_cast<int64_t>(row.size());
  for (int64_t begin = 0; begin < tensor.placement.globalElements(); begin += width) {
    if (!read(index, begin, row))
      return false;
    visit(begin, row);
  }
  return true;
}

/// What a comparison found so far.
struct Differences {
  int64_t count = 0;
  int64_t firstAt = 0; ///< in local elements
  double got = 0, expected = 0;

  void note(int64_t at, double gotHere, double expectedHere) {
    if (count++ == 0) {
      firstAt = at;
      got = gotHere;
      expected = expectedHere;
    }
  }
};

std::string number(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

/// "%C[3, 17, 0]", where `at` counts local elements.
std::string elementName(const Tensor &tensor, int64_t at) {
  std::string indices;
  for (size_t axis = tensor.local.size(); axis-- > 0;) {
    const int64_t extent = tensor.local[axis];
    indices = fmt::format("{}{}{}", axis ? ", " : "", at % extent, indices);
    at /= extent;
  }
  return fmt::format("%{}[{}]", tensor.name, indices);
}

/// Calls `fn(local, global, count)` for pieces that cover a rank's part in order; each is small
/// and contiguous in both.
template <class Fn> bool forEachPiece(const Placement &placement, int64_t rank, Fn &&fn) {
  constexpr int64_t kPiece = 4096;
  const int64_t device = placement.devices == 1 ? 0 : rank;
  for (int64_t o = 0; o < placement.outer; ++o)
    for (int64_t i = 0; i < placement.inner; i += kPiece) {
      const int64_t count = std::min(kPiece, placement.inner - i);
      const int64_t global = (o * placement.devices + device) * placement.inner + i;
      if (!fn(o * placement.inner + i, global, count))
        return false;
    }
  return true;
}

/// The bits of `value * 2^exponent`, at `value + 128`. Values that are not held do not occur.
using Encoding = std::array<uint64_t, 256>;

Encoding encodingOf(DType dtype, int exponent) {
  Encoding bits;
  for (int value = -128; value < 128; ++value)
    bits[value + 128] = encodeExactly(dtype, std::ldexp(value, exponent)).value_or(0);
  return bits;
}

} // namespace
} // namespace reference

using namespace reference;

class Reference::Impl {
public:
  Impl(Graph made, uint64_t drawnFrom)
      : graph(std::move(made)), seed(drawnFrom), patterns(makePatterns(graph, seed)) {
    for (size_t i = 0; i < patterns.size(); ++i)
      encodings.push_back(encodingOf(input(i).dtype, patterns[i]->exponent()));
  }

  /// Calls `fn` as forEachPiece() does, and with the values of a rank's output, until it fails.
  /// Fails itself where a value cannot be computed exactly.
  template <class Fn>
  Status forEachValue(size_t index, int64_t rank, uint32_t iteration, Fn &&fn) const;
  /// "; f32 in place of bf16 would do", if all of a rank's outputs can be computed exactly so.
  std::string widerType(DType dtype, int64_t rank, uint32_t iteration) const;

  const Tensor &input(size_t index) const { return graph.tensors[graph.inputs[index]]; }
  const Tensor &output(size_t index) const { return graph.tensors[graph.outputs[index]]; }

  Graph graph;
  uint64_t seed;
  std::vector<std::unique_ptr<InputPattern>> patterns;
  std::vector<Encoding> encodings; ///< an input each: tests fill small inputs very often
};

Reference::Reference(const Fusion &fusion, uint64_t seed, const std::string &fileName)
    : impl_(std::make_unique<Impl>(Graph(fusion, fileName), seed)) {}

Reference::~Reference() = default;

size_t Reference::inputCount() const { return impl_->graph.inputs.size(); }
size_t Reference::outputCount() const { return impl_->graph.outputs.size(); }

int64_t Reference::inputBytes(size_t index) const {
  const Tensor &tensor = impl_->input(index);
  return tensor.placement.localElements() * sizeOf(tensor.dtype);
}

int64_t Reference::outputBytes(size_t index) const {
  const Tensor &tensor = impl_->output(index);
  return tensor.placement.localElements() * sizeOf(tensor.dtype);
}

void Reference::fillInput(size_t index, int64_t rank, uint32_t iteration, void *data) const {
  const DType dtype = impl_->input(index).dtype;
  const Encoding &bits = impl_->encodings[index];
  std::memset(data, 0, static_cast<size_t>(inputBytes(index))); // zero in every element type
  impl_->patterns[index]->part(iteration, rank, [&](int64_t at, llvm::ArrayRef<int8_t> values) {
    for (int8_t value : values)
      store(dtype, bits[value + 128], data, at++);
  });
}

void Reference::poisonOutput(size_t index, void *data) const {
  const Tensor &tensor = impl_->output(index);
  for (int64_t i = 0; i < tensor.placement.localElements(); ++i)
    store(tensor.dtype, nanBits(tensor.dtype), data, i);
}

template <class Fn>
Status Reference::Impl::forEachValue(size_t index, int64_t rank, uint32_t iteration,
                                     Fn &&fn) const {
  Evaluator evaluator(graph, patterns, iteration);
  std::vector<double> values;
  const bool isDone = forEachPiece(output(index).placement, rank,
                                   [&](int64_t local, int64_t global, int64_t count) {
                                     values.resize(count);
                                     if (!evaluator.read(graph.outputs[index], global, values))
                                       return false;
                                     fn(local, global, values);
                                     return true;
                                   });
  return isDone ? Status::ok() : evaluator.status();
}

std::string Reference::Impl::widerType(DType dtype, int64_t rank, uint32_t iteration) const {
  for (DType wider : {DType::F32, DType::F64}) {
    if (sizeOf(wider) <= sizeOf(dtype))
      continue;
    Graph changed = graph;
    for (Tensor &tensor : changed.tensors)
      tensor.dtype = tensor.dtype == dtype ? wider : tensor.dtype;
    for (Gemm &gemm : changed.gemms)
      gemm.partial = gemm.partial == dtype ? wider : gemm.partial;
    const bool isLegal = llvm::all_of(changed.gemms, [&](const Gemm &gemm) {
      return isPartialType(gemm.partial, changed.tensors[gemm.result].dtype);
    });
    if (!isLegal)
      continue;
    const Impl instead(std::move(changed), seed);
    bool isExact = true;
    for (size_t i = 0; isExact && i < graph.outputs.size(); ++i)
      isExact = instead.forEachValue(i, rank, iteration, [](auto &&...) {}).isOk();
    if (isExact)
      return fmt::format("; {} in place of {} would do", std::string_view(name(wider)),
                         std::string_view(name(dtype)));
  }
  return "";
}

Status Reference::compare(size_t index, int64_t rank, uint32_t iteration, const void *data) const {
  const Tensor &tensor = impl_->output(index);
  Differences differences;
  std::vector<double> got;
  const Status computed = impl_->forEachValue(
      index, rank, iteration,
      [&](int64_t local, int64_t global, llvm::MutableArrayRef<double> expected) {
        got.resize(expected.size());
        load(tensor.dtype, data, local, got);
        for (size_t i = 0; i < got.size(); ++i) {
          if (!tensor.exists(global + static_cast<int64_t>(i)))
            expected[i] = std::nan(""); // nobody has written it
          const bool isEqual = std::isnan(expected[i]) ? std::isnan(got[i]) : got[i] == expected[i];
          if (!isEqual)
            differences.note(local + static_cast<int64_t>(i), got[i], expected[i]);
        }
      });
  if (!computed.isOk())
    return Status(computed.code(),
                  computed.message() + impl_->widerType(tensor.dtype, rank, iteration));
  if (differences.count == 0)
    return Status::ok();
  return Status(
      StatusCode::WrongResult,
      fmt::format("rank {}, iteration {}: {} is {}, expected {} ({} of {} elements differ)", rank,
                  iteration, elementName(tensor, differences.firstAt), number(differences.got),
                  number(differences.expected), differences.count,
                  tensor.placement.localElements()));
}

int64_t Reference::elementsPerRank() const {
  int64_t elements = 0;
  for (size_t output : impl_->graph.outputs)
    elements += impl_->graph.tensors[output].placement.localElements();
  return elements;
}

} // namespace braid
