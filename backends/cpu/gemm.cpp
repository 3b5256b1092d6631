//===- backends/cpu/gemm.cpp - GEMMs, sums and pointwise functions on the host ----------------===//

#include "backends/cpu/gemm.h"

#include "runtime/numeric.h"
#include "runtime/pointwise_math.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define BRAID_PLAIN_GEMM 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BRAID_PLAIN_GEMM 1
#endif
#endif

#ifdef BRAID_PLAIN_GEMM
#define BRAID_UNINSTRUMENTED __attribute__((no_sanitize("thread")))
#else
#include <cblas.h>
#define BRAID_UNINSTRUMENTED
#endif

namespace braid {

void *Scratch::reserve(size_t bytes) {
  if (bytes <= size_)
    return memory_.get();
  size_t size = (bytes + 63) / 64 * 64;
  memory_.reset();
  size_ = 0;
  memory_.reset(std::aligned_alloc(64, size));
  if (!memory_)
    throw std::bad_alloc();
  size_ = size;
  return memory_.get();
}

namespace {

/// A GEMM whose operands have already been widened to Acc: c = a * b, or c += a * b if `adds`. b
/// may be transposed. All matrices are contiguous.
template <class Acc> struct Gemm {
  bool transposeB;
  int64_t m, n, k;
  const Acc *a, *b;
  Acc *c;
  bool adds = false;
};

/// Computes a GEMM with plain loops, which need no instrumentation, because they access only memory
/// that is private to this thread. The functions that access the operands are instrumented.
template <class Acc> BRAID_UNINSTRUMENTED void multiplyPlainly(const Gemm<Acc> &g) {
  for (int64_t i = 0; i < g.m; ++i) {
    const Acc *a = g.a + i * g.k;
    Acc *c = g.c + i * g.n;
    for (int64_t j = 0; !g.adds && j < g.n; ++j)
      c[j] = 0;
    for (int64_t j = 0; g.transposeB && j < g.n; ++j)
      for (int64_t l = 0; l < g.k; ++l)
        c[j] += a[l] * g.b[j * g.k + l];
    for (int64_t l = 0; !g.transposeB && l < g.k; ++l)
      for (int64_t j = 0; j < g.n; ++j)
        c[j] += a[l] * g.b[l * g.n + j];
  }
}

/// Number of GEMMs in progress, including GEMMs that are between two panels and thus not inside
/// OpenBLAS. Accesses are relaxed, so that ThreadSanitizer does not consider streams ordered by
/// this counter.
std::atomic<int> underWay{0};

#ifdef BRAID_PLAIN_GEMM

template <class Element> constexpr bool kTakesOperandsInPlace = false;

template <class Acc> void multiplyAccumulators(const Gemm<Acc> &g, GemmBy) { multiplyPlainly(g); }

#else

template <class Element>
constexpr bool kTakesOperandsInPlace = std::is_same_v<Element, Accumulator<Element>>;

/// OpenBLAS starts one thread per core before main(), even in processes that never multiply, and
/// waits for these threads at every fork and at exit. If a thread fails to start for lack of
/// memory, this wait never ends. This constructor runs before OpenBLAS reads OPENBLAS_NUM_THREADS.
[[gnu::constructor(101)]] void keepOpenBlasToOneThread() { setenv("OPENBLAS_NUM_THREADS", "1", 1); }

/// Limits the number of GEMMs in OpenBLAS to one per core. OpenBLAS terminates the process if it
/// runs out of buffers (64 in Debian's build), and several GEMMs on one core would only evict each
/// other's panels from the cache. OpenBLAS retries forever if it cannot allocate a buffer, so this
/// class checks for memory first. The lock orders the streams that multiply, which is harmless
/// because the class is not compiled for ThreadSanitizer.
class Gate {
public:
  /// Throws std::bad_alloc if there is not enough memory for one buffer.
  void enter() {
    std::unique_lock lock(mutex_);
    while (true) {
      freed_.wait(lock, [&] { return inside_ < limit_; });
      if (inside_ < buffers_ || hasRoomForBuffer())
        break;
      if (buffers_ == 0)
        throw std::bad_alloc();
      limit_ = buffers_;
    }
    buffers_ = std::max(buffers_, ++inside_);
  }
  void leave() {
    {
      std::lock_guard lock(mutex_);
      --inside_;
    }
    freed_.notify_one();
  }

private:
  /// Requires room for two buffers, as an earlier thread may not have allocated its buffer yet.
  static bool hasRoomForBuffer() {
    void *room = mmap(nullptr, 2 * kGemmBufferBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap(room, 2 * kGemmBufferBytes) == 0;
  }

  std::mutex mutex_;
  std::condition_variable freed_;
  unsigned limit_ = std::clamp(std::thread::hardware_concurrency(), 1u, 48u);
  unsigned inside_ = 0, buffers_ = 0; ///< OpenBLAS reuses its buffers, so buffers_ never decreases
};

/// Never destroyed, because a GEMM may outlive main().
Gate &gate() {
  static Gate &gate = *new Gate;
  return gate;
}

/// If a GEMM of a failed run is still in progress, ends the process with `status` before OpenBLAS
/// frees its buffers at exit.
void endBeforeOpenBlas(int status, void *) {
  if (underWay == 0)
    return;
  llvm::outs().flush();
  std::fflush(nullptr);
  _exit(status);
}

/// Keeps this library loaded, because an on_exit() handler, unlike an atexit() handler, is called
/// at exit even if its library has been unloaded.
void stayLoaded() {
  Dl_info here;
  if (dladdr(reinterpret_cast<void *>(&endBeforeOpenBlas), &here))
    dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

void callBlas(const Gemm<float> &g, CBLAS_TRANSPOSE transposeB, int ldb) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, transposeB, int(g.m), int(g.n), int(g.k), 1.0f, g.a,
              int(g.k), g.b, ldb, g.adds ? 1.0f : 0.0f, g.c, int(g.n));
}
void callBlas(const Gemm<double> &g, CBLAS_TRANSPOSE transposeB, int ldb) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, transposeB, int(g.m), int(g.n), int(g.k), 1.0, g.a,
              int(g.k), g.b, ldb, g.adds ? 1.0 : 0.0, g.c, int(g.n));
}

template <class Acc> void multiplyAccumulators(const Gemm<Acc> &g, GemmBy by) {
  // OpenBLAS takes dimensions as int, and leaves the result of an empty sum undefined.
  if (by == GemmBy::Loops || g.k == 0 || std::max({g.m, g.n, g.k}) > INT_MAX)
    return multiplyPlainly(g);
  gate().enter();
  if (g.transposeB)
    callBlas(g, CblasTrans, int(g.k));
  else
    callBlas(g, CblasNoTrans, int(g.n));
  gate().leave();
}

#endif

/// The size of the blocks in which c is computed. Small blocks limit the scratch memory.
struct Panel {
  int64_t rows, columns;
};

constexpr int64_t kPanelElements = int64_t(1) << 20;
constexpr int64_t kMinPanel = 64; ///< with smaller panels, operands would be converted too often

Panel panelOf(int64_t m, int64_t n, int64_t k) {
  int64_t limit = std::max(kMinPanel, kPanelElements / std::max<int64_t>(k, 1));
  int64_t columns = std::min(n, limit);
  int64_t rows = std::min({m, limit, std::max(kMinPanel, kPanelElements / columns)});
  return {rows, columns};
}

template <class Element>
void widenAll(const Element *from, Accumulator<Element> *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = widen(from[i]);
}

/// Widens columns [first, first + count) of b, which are rows if b is transposed.
template <class Element>
void widenColumns(const MatmulArgs &args, int64_t first, int64_t count, Accumulator<Element> *to) {
  const Element *b = static_cast<const Element *>(args.b);
  if (args.transposeB)
    return widenAll(b + first * args.k, to, count * args.k);
  for (int64_t l = 0; l < args.k; ++l)
    widenAll(b + l * args.n + first, to + l * count, count);
}

/// Writes a computed block to c at (row, column), adding the bias or the addend, if any.
template <class Element, class Result>
void narrowBlockTo(const MatmulArgs &args, const Gemm<Accumulator<Element>> &block, int64_t row,
                   int64_t column) {
  const Element *bias = static_cast<const Element *>(args.bias);
  for (int64_t i = 0; i < block.m; ++i) {
    const Accumulator<Element> *from = block.c + i * block.n;
    const int64_t at = (row + i) * args.n + column;
    Result *to = static_cast<Result *>(args.c) + at;
    const Result *addend = args.addend ? static_cast<const Result *>(args.addend) + at : nullptr;
    if (bias)
      for (int64_t j = 0; j < block.n; ++j)
        to[j] = narrow<Result>(from[j] + widen(bias[column + j]));
    else if (addend)
      for (int64_t j = 0; j < block.n; ++j)
        to[j] = narrow<Result>(from[j] + widen(addend[j]));
    else
      for (int64_t j = 0; j < block.n; ++j)
        to[j] = narrow<Result>(from[j]);
  }
}

template <class Element>
void narrowBlock(const MatmulArgs &args, const Gemm<Accumulator<Element>> &block, int64_t row,
                 int64_t column) {
  if (args.result == args.dtype)
    narrowBlockTo<Element, Element>(args, block, row, column);
  else
    narrowBlockTo<Element, Accumulator<Element>>(args, block, row, column);
}

template <class Element>
void multiplyThroughScratch(const MatmulArgs &args, Scratch &scratch, GemmBy by) {
  using Acc = Accumulator<Element>;
  Panel panel = panelOf(args.m, args.n, args.k);
  Acc *a = static_cast<Acc *>(scratch.reserve(scratchBytes(args.dtype, args.m, args.n, args.k)));
  Acc *b = a + panel.rows * args.k;
  Acc *c = b + panel.columns * args.k;
  for (int64_t column = 0; column < args.n; column += panel.columns) {
    int64_t columns = std::min(panel.columns, args.n - column);
    widenColumns<Element>(args, column, columns, b);
    for (int64_t row = 0; row < args.m; row += panel.rows) {
      int64_t rows = std::min(panel.rows, args.m - row);
      widenAll(static_cast<const Element *>(args.a) + row * args.k, a, rows * args.k);
      Gemm<Acc> block{args.transposeB, rows, columns, args.k, a, b, c};
      multiplyAccumulators(block, by);
      narrowBlock<Element>(args, block, row, column);
    }
  }
}

/// Multiplies operands in place. If c is also the addend, the GEMM must add to c, not overwrite it.
template <class Element> void multiplyInPlace(const MatmulArgs &args, GemmBy by) {
  const bool adds = args.addend == args.c;
  Gemm<Element> whole{args.transposeB,
                      args.m,
                      args.n,
                      args.k,
                      static_cast<const Element *>(args.a),
                      static_cast<const Element *>(args.b),
                      static_cast<Element *>(args.c),
                      adds};
  multiplyAccumulators(whole, by);
  if (args.bias || (args.addend && !adds))
    narrowBlock<Element>(args, whole, 0, 0);
}

} // namespace

size_t scratchBytes(DType dtype, int64_t m, int64_t n, int64_t k) {
  if (m == 0 || n == 0)
    return 0;
  Panel panel = panelOf(m, n, k);
  int64_t elements = (panel.rows + panel.columns) * k + panel.rows * panel.columns;
  return withElement(dtype, [&](auto element) -> size_t {
    using Acc = Accumulator<decltype(element)>;
    return kTakesOperandsInPlace<decltype(element)> ? 0 : sizeof(Acc) * elements;
  });
}

void multiply(const MatmulArgs &args, Scratch &scratch, GemmBy by) {
  if (args.m == 0 || args.n == 0)
    return;
  underWay.fetch_add(1, std::memory_order_relaxed);
  const auto over = llvm::make_scope_exit([] { underWay.fetch_sub(1, std::memory_order_relaxed); });
  withElement(args.dtype, [&](auto element) {
    using Element = decltype(element);
    if constexpr (kTakesOperandsInPlace<Element>)
      multiplyInPlace<Element>(args, by);
    else
      multiplyThroughScratch<Element>(args, scratch, by);
  });
}

namespace {

template <class Element, class Partial, class Result> void sumPartsOf(const SumArgs &args) {
  Result *dst = static_cast<Result *>(args.dst);
  const Element *bias = static_cast<const Element *>(args.bias);
  const char *parts = static_cast<const char *>(args.parts);
  for (int64_t i = 0; i < args.elements; ++i) {
    Accumulator<Element> sum = 0;
    for (int64_t part = 0; part < args.count; ++part)
      sum += widen(reinterpret_cast<const Partial *>(parts + part * args.stride)[i]);
    if (bias)
      sum += widen(bias[i % args.biasElements]);
    dst[i] = narrow<Result>(sum);
  }
}

/// Calls `fn` with a value of the C++ type for `dtype`, which is either Element or its accumulator
/// type.
template <class Element, class Fn> void withWidth(DType dtype, Fn fn) {
  if (sizeOf(dtype) == sizeof(Element))
    fn(Element());
  else
    fn(Accumulator<Element>());
}

} // namespace

void sumParts(const SumArgs &args) {
  withElement(args.dtype, [&](auto element) {
    using Element = decltype(element);
    withWidth<Element>(args.partial, [&](auto partial) {
      withWidth<Element>(args.result, [&](auto result) {
        sumPartsOf<Element, decltype(partial), decltype(result)>(args);
      });
    });
  });
}

namespace {

/// Returns element `i` of `operand`.
template <class Acc> Acc valueAt(const PointwiseArgs::Operand &operand, int64_t i) {
  return withElement(operand.dtype, [&](auto element) -> Acc {
    return widen(static_cast<const decltype(element) *>(operand.data)[i]);
  });
}

} // namespace

void applyFunctions(const PointwiseArgs &args) {
  withElement(args.dtype, [&](auto element) {
    using Element = decltype(element);
    using Acc = Accumulator<Element>;
    for (int64_t i = 0; i < args.elements; ++i) {
      Acc value = valueAt<Acc>(args.first, i);
      for (uint32_t s = 0; s < args.count; ++s) {
        const auto &[function, operand] = args.steps[s];
        value = applyPointwise(function, value, operand.data ? valueAt<Acc>(operand, i) : Acc(0));
      }
      static_cast<Element *>(args.dst)[i] = narrow<Element>(value);
    }
  });
}

void initializeGemms() {
#ifndef BRAID_PLAIN_GEMM
  openblas_set_num_threads(1);
  static std::once_flag isRegistered;
  std::call_once(isRegistered, [] {
    stayLoaded();
    on_exit(endBeforeOpenBlas, nullptr);
  });
#endif
}

} // namespace braid
