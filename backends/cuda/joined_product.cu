//===- backends/cuda/joined_product.cu - products of several blocks as one kernel -------------===//
//
// A block of threads computes 128 x 256 tiles of the result, one after the other. One of its warp
// groups, the producer, brings 64 columns of a and 64 rows of b at a time into a ring of stages in
// shared memory; the two others, the consumers, multiply 64 rows each. Two blocks make a cluster:
// their tiles lie one below the other, so they need the same part of b, and each brings one half of
// it for both. So a stage is empty when the consumers of both have read it.
//
//===----------------------------------------------------------------------------------------===//

#include "backends/cuda/joined_product.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace braid::cuda {
namespace {

constexpr uint32_t kCluster = 2, kConsumers = 2, kStages = 4;
constexpr uint32_t kGroupRows = 64, kRows = kConsumers * kGroupRows, kColumns = 256, kDepth = 64;
constexpr uint32_t kGroup = 128; ///< threads of a warp group
constexpr uint32_t kThreads = kGroup * (1 + kConsumers);
/// Rows of tile pairs that are taken together, column by column, so that what they need of a and b
/// stays in the cache.
constexpr uint32_t kBand = 8;

static_assert(kBoxOfA.rows == kRows && kBoxOfA.columns == kDepth);
static_assert(kBoxOfB.rows == kDepth && kBoxOfTransposedB.columns == kDepth);
static_assert(kBoxOfTransposedB.rows == kColumns / kCluster && kBoxOfC.rows == kGroupRows);

/// Rows of 64 elements, 128 bytes, swizzled.
struct Shared {
  uint16_t a[kStages][kRows * kDepth];
  uint16_t b[kStages][kColumns * kDepth];
  uint16_t c[kConsumers][2][kGroupRows * kBoxOfC.columns];
  uint64_t full[kStages], empty[kStages];
};
constexpr uint32_t kAlignment = 1024; ///< of swizzled boxes
constexpr int kSharedBytes = int(sizeof(Shared) + kAlignment);
constexpr uint32_t kStageBytes = (kRows + kColumns) * kDepth * sizeof(uint16_t);

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ uint32_t sharedAddress(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// -- Which tiles a cluster computes. --

/// Two tiles, one below the other, of one part.
struct TilePair {
  uint32_t part, row, column; ///< the first row and column
};

/// The pairs of one cluster, one after another. Producers and consumers walk alike.
class TilePairs {
public:
  __device__ explicit TilePairs(const JoinedProduct &product)
      : product_(product), columns_((product.n + kColumns - 1) / kColumns),
        ahead_(blockIdx.x / kCluster) {}

  /// False behind the last one.
  __device__ bool next(TilePair &pair) {
    for (; part_ < product_.partCount; ++part_) {
      const uint32_t rows = (product_.parts[part_].rows + kPairRows - 1) / kPairRows;
      if (ahead_ < rows * columns_)
        break;
      ahead_ -= rows * columns_;
    }
    if (part_ == product_.partCount)
      return false;
    const uint32_t rows = (product_.parts[part_].rows + kPairRows - 1) / kPairRows;
    const uint32_t band = ahead_ / (kBand * columns_), within = ahead_ % (kBand * columns_);
    const uint32_t height = min(kBand, rows - band * kBand);
    pair = {part_, (band * kBand + within % height) * kPairRows, within / height * kColumns};
    ahead_ += gridDim.x / kCluster;
    return true;
  }

private:
  static constexpr uint32_t kPairRows = kCluster * kRows;
  const JoinedProduct &product_;
  const uint32_t columns_;
  uint32_t part_ = 0;
  uint32_t ahead_; ///< pairs from the first one of part_ to the next one of this cluster
};

__device__ uint32_t rankInCluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ void meetInCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

// -- Stages. --

__device__ void initializeBarrier(uint64_t *barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)),
               "r"(arrivals)
               : "memory");
}

__device__ void waitFor(uint64_t *barrier, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(sharedAddress(barrier)), "r"(parity)
                 : "memory");
}

/// The next stage of the ring, and how often it has been gone round.
struct Turn {
  uint32_t stage = 0, parity = 0;
  __device__ void advance() {
    stage = stage + 1 == kStages ? 0 : stage + 1;
    parity ^= stage == 0;
  }
};

/// By one consumer: tells both blocks that it has read the stage. What it read, it read by
/// multiplications that are over, so there is nothing to release; asking for it would cost a fence.
__device__ void release(Shared &shared, uint32_t stage) {
  const uint32_t block = threadIdx.x % kGroup;
  if (block < kCluster)
    asm volatile("{\n.reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(
                     sharedAddress(&shared.empty[stage])),
                 "r"(block)
                 : "memory");
}

// -- The producer: one thread. --

__device__ void load(void *box, const CUtensorMap &map, uint32_t row, uint32_t column,
                     uint64_t *barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4}], [%2];" ::"r"(sharedAddress(box)),
               "l"(&map), "r"(sharedAddress(barrier)), "r"(column), "r"(row)
               : "memory");
}

/// To the same place in both blocks of the cluster.
__device__ void loadForBoth(void *box, const CUtensorMap &map, uint32_t row, uint32_t column,
                            uint64_t *barrier) {
  constexpr uint16_t kBoth = (1 << kCluster) - 1;
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(sharedAddress(box)),
               "l"(&map), "r"(sharedAddress(barrier)), "r"(column), "r"(row), "h"(kBoth)
               : "memory");
}

/// This block's half of the columns.
template <bool TransposeB>
__device__ void loadB(uint16_t *stage, const CUtensorMap &map, uint32_t depth, uint32_t column,
                      uint64_t *barrier) {
  constexpr uint32_t kHalf = kColumns / kCluster;
  const uint32_t first = rankInCluster() * kHalf;
  if constexpr (TransposeB) {
    loadForBoth(stage + first * kDepth, map, column + first, depth, barrier);
  } else {
    for (uint32_t at = first; at < first + kHalf; at += kBoxOfB.columns)
      loadForBoth(stage + at * kDepth, map, depth, column + at, barrier);
  }
}

/// Until so many words are set. What peers wrote before, they wrote by other means than the loads.
__device__ void waitForWords(const JoinedProduct &product, uint32_t count, uint32_t &passed) {
  if (passed >= count)
    return;
  while (passed < count)
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(passed) : "l"(product.counters) : "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
}

template <bool TransposeB>
__device__ void produce(const JoinedProduct &product, Shared &shared) {
  const uint32_t firstRow = rankInCluster() * kRows;
  uint32_t passed = 0;
  Turn turn;
  TilePairs pairs(product);
  for (TilePair pair; pairs.next(pair);) {
    waitForWords(product, product.parts[pair.part].waits, passed);
    for (uint32_t depth = 0; depth < product.k; depth += kDepth, turn.advance()) {
      uint64_t *full = &shared.full[turn.stage];
      waitFor(&shared.empty[turn.stage], turn.parity ^ 1);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                       sharedAddress(full)),
                   "r"(kStageBytes)
                   : "memory");
      load(shared.a[turn.stage], product.a[pair.part], pair.row + firstRow, depth, full);
      loadB<TransposeB>(shared.b[turn.stage], product.b, depth, pair.column, full);
    }
  }
}

// -- Words: one thread of the whole grid. --

__device__ void watchWords(const JoinedProduct &product) {
  for (uint32_t i = 0; i < product.wordCount; ++i) {
    uint32_t *word = product.words[i].word;
    uint32_t value = 0;
    while (value == 0)
      asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    if (value == 1) // a released word stays
      asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(word), "r"(0) : "memory");
    asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(product.step), "r"(product.words[i].value)
                 : "memory");
    asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(product.counters), "r"(i + 1) : "memory");
  }
}

/// By every producer, and by who watches the words: the last one leaves the counters as they were.
__device__ void countDone(const JoinedProduct &product) {
  const uint32_t before = atomicAdd(product.counters + 1, 1u);
  if (before == gridDim.x) {
    product.counters[0] = 0;
    product.counters[1] = 0;
  }
}

// -- The consumers: a warp group each. --

/// Of a box in shared memory, with rows of 128 bytes that are swizzled. The distances, in bytes,
/// are between boxes, and between eight rows.
__device__ uint64_t describe(const uint16_t *box, uint32_t leading, uint32_t stride) {
  constexpr uint64_t kSwizzle128 = uint64_t(1) << 62;
  return kSwizzle128 | uint64_t(stride >> 4) << 32 | uint64_t(leading >> 4) << 16 |
         (sharedAddress(box) & 0x3ffff) >> 4;
}

using Sums = float[128];

#define BRAID_8(i)                                                                                 \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),      \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define BRAID_MULTIPLY(types, transposition)                                                       \
  asm volatile(                                                                                    \
      "{\n.reg .pred p;\nsetp.ne.u32 p, %130, 0;\n"                                                \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." types " "                                     \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "     \
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, " \
      "%37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, " \
      "%55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, " \
      "%73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, " \
      "%91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, "    \
      "%107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, " \
      "%122, %123, %124, %125, %126, %127}, %128, %129, p, 1, 1, 0, " transposition ";\n}"         \
      : BRAID_8(0), BRAID_8(8), BRAID_8(16), BRAID_8(24), BRAID_8(32), BRAID_8(40), BRAID_8(48),   \
        BRAID_8(56), BRAID_8(64), BRAID_8(72), BRAID_8(80), BRAID_8(88), BRAID_8(96),              \
        BRAID_8(104), BRAID_8(112), BRAID_8(120)                                                   \
      : "l"(a), "l"(b), "r"(keeps))

/// d = a[64, 16] · b[16, 256], or that more if it `keeps` what was there. Begins it.
template <class T, bool TransposeB>
__device__ void multiply(Sums &d, uint64_t a, uint64_t b, uint32_t keeps) {
  if constexpr (sizeof(T) == sizeof(__half) && __is_same(T, __half)) {
    if constexpr (TransposeB)
      BRAID_MULTIPLY("f16.f16", "0");
    else
      BRAID_MULTIPLY("f16.f16", "1");
  } else {
    if constexpr (TransposeB)
      BRAID_MULTIPLY("bf16.bf16", "0");
    else
      BRAID_MULTIPLY("bf16.bf16", "1");
  }
}
#undef BRAID_MULTIPLY
#undef BRAID_8

/// What multiplies in the background writes `d`, which the compiler cannot see.
__device__ void pin(Sums &d) {
#pragma unroll
  for (float &each : d)
    asm volatile("" : "+f"(each)::"memory");
}

template <int Most> __device__ void waitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Most) : "memory");
}

template <class T, bool TransposeB>
__device__ void multiplyStage(Sums &sums, const Shared &shared, uint32_t stage, uint32_t group,
                              bool isFirst) {
  constexpr uint32_t kStep = 16, kRowBytes = 128, kEightRows = 8 * kRowBytes;
  const uint16_t *a = shared.a[stage] + group * kGroupRows * kDepth, *b = shared.b[stage];
  pin(sums);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (uint32_t k = 0; k < kDepth; k += kStep)
    multiply<T, TransposeB>(
        sums, describe(a + k, 16, kEightRows),
        TransposeB ? describe(b + k, 16, kEightRows)
                   : describe(b + k * kBoxOfB.columns, kDepth * kRowBytes, kEightRows),
        !isFirst || k != 0);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  pin(sums);
}

/// A stage is free when the multiplication after it has begun and it is over itself.
template <class T, bool TransposeB>
__device__ void multiplyTile(Sums &sums, const JoinedProduct &product, Shared &shared, Turn &turn,
                             uint32_t group) {
  uint32_t before = kStages; // none
  for (uint32_t depth = 0; depth < product.k; depth += kDepth, turn.advance()) {
    waitFor(&shared.full[turn.stage], turn.parity);
    multiplyStage<T, TransposeB>(sums, shared, turn.stage, group, depth == 0);
    waitForProducts<1>();
    if (before != kStages)
      release(shared, before);
    before = turn.stage;
  }
  waitForProducts<0>();
  pin(sums);
  release(shared, before);
}

template <class T> __device__ uint32_t rounded(float low, float high) {
  if constexpr (__is_same(T, __half)) {
    const __half2 both = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t &>(both);
  } else {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t &>(both);
  }
}

__device__ void meetInGroup(uint32_t group) {
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kGroup) : "memory");
}

/// 64 columns of the sums into a box in shared memory. A warp has 16 rows, a thread two neighbours of
/// every eight columns in two of them.
template <class T> __device__ void placeColumns(const float *sums, uint16_t *box) {
  const uint32_t lane = threadIdx.x % 32, row = threadIdx.x % kGroup / 32 * 16 + lane % 16;
#pragma unroll
  for (uint32_t pair = 0; pair < 4; ++pair) {
    const float *d = sums + pair * 8;
    const uint32_t eight = pair * 2 + lane / 16; // columns, 16 bytes
    const uint32_t at = sharedAddress(box) + row * 128 + ((eight ^ row % 8) * 16);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at),
                 "r"(rounded<T>(d[0], d[1])), "r"(rounded<T>(d[2], d[3])),
                 "r"(rounded<T>(d[4], d[5])), "r"(rounded<T>(d[6], d[7]))
                 : "memory");
  }
}

__device__ void store(const CUtensorMap &map, const uint16_t *box, uint32_t row, uint32_t column) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::
                   "l"(&map),
               "r"(sharedAddress(box)), "r"(column), "r"(row)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// By way of two boxes in turn. The stores go on while the next tile is multiplied.
template <class T>
__device__ void storeTile(const Sums &sums, const CUtensorMap &map, Shared &shared, uint32_t group,
                          uint32_t row, uint32_t column) {
  const bool stores = threadIdx.x % kGroup == 0;
#pragma unroll
  for (uint32_t part = 0; part < kColumns / kBoxOfC.columns; ++part) {
    uint16_t *box = shared.c[group][part % 2];
    if (stores) // the box was read
      asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    meetInGroup(group);
    placeColumns<T>(sums + part * 32, box);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    meetInGroup(group);
    if (stores)
      store(map, box, row, column + part * kBoxOfC.columns);
  }
}

template <class T, bool TransposeB>
__device__ void consume(const JoinedProduct &product, Shared &shared, uint32_t group) {
  const uint32_t firstRow = rankInCluster() * kRows + group * kGroupRows;
  Sums sums;
  Turn turn;
  TilePairs pairs(product);
  for (TilePair pair; pairs.next(pair);) {
    multiplyTile<T, TransposeB>(sums, product, shared, turn, group);
    storeTile<T>(sums, product.c[pair.part], shared, group, pair.row + firstRow, pair.column);
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// -- The kernel. --

__device__ void initialize(Shared &shared) {
  for (uint64_t &barrier : shared.full)
    initializeBarrier(&barrier, 1);
  for (uint64_t &barrier : shared.empty)
    initializeBarrier(&barrier, kConsumers * kCluster);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

#endif

template <class T, bool TransposeB>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kThreads, 1)
    joinedProductKernel(const __grid_constant__ JoinedProduct product) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char memory[];
  const uintptr_t aligned = (reinterpret_cast<uintptr_t>(memory) + kAlignment - 1) / kAlignment;
  Shared &shared = *reinterpret_cast<Shared *>(aligned * kAlignment);
  if (threadIdx.x == 0)
    initialize(shared);
  meetInCluster();
  // The same in a warp, and the compiler is to know.
  const uint32_t group = __shfl_sync(~0u, threadIdx.x / kGroup, 0);
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      produce<TransposeB>(product, shared);
      countDone(product);
    } else if (threadIdx.x == 32 && blockIdx.x == 0) {
      watchWords(product);
      countDone(product);
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    consume<T, TransposeB>(product, shared, group - 1);
  }
  // The other block may still tell this one of a stage.
  meetInCluster();
#endif
}

using Kernel = void (*)(JoinedProduct);

template <class T> Kernel kernelOf(bool transposeB) {
  return transposeB ? joinedProductKernel<T, true> : joinedProductKernel<T, false>;
}

Kernel kernelOf(Element element, bool transposeB) {
  return element == Element::F16 ? kernelOf<__half>(transposeB)
                                 : kernelOf<__nv_bfloat16>(transposeB);
}

} // namespace

void launchJoinedProduct(cudaStream_t stream, Element element, bool transposeB,
                         const JoinedProduct &product, int processors) {
  const unsigned blocks = static_cast<unsigned>(processors) / kCluster * kCluster;
  kernelOf(element, transposeB)<<<blocks, kThreads, kSharedBytes, stream>>>(product);
}

cudaError_t loadJoinedProduct() {
  for (Element element : {Element::BF16, Element::F16})
    for (bool transposeB : {false, true})
      if (cudaError_t code = cudaFuncSetAttribute(kernelOf(element, transposeB),
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  kSharedBytes);
          code != cudaSuccess)
        return code;
  return cudaSuccess;
}

} // namespace braid::cuda
