//===- tests/support/reductions.cpp - reductions written by hand ------------------------------===//

#include "tests/support/reductions.h"

#include <utility>
#include <vector>

namespace braid::test::reductions {
namespace {

/// Extents are as small as they can be without rows and columns being alike.
constexpr const char *kScatter = R"(fusion @f(D = $D) {
  mesh [0 .. D)
  %A = input $T[D, 3, DIDx{D}, 2]
  %B = input $T[$B_AXES]
$BIAS_INPUT  %C = $GEMM %A, %B$ADDED$TRAVEL : $T[DIDx{D}, 3, 4]
  output %C
}
program @p implements @f mesh [0 .. $D)
    (%A: $T[$D, 3, 1, 2], %B: $T[$B_LOCAL]$BIAS_PARAM) -> (%C: $T[1, 3, 4]) {
)";

constexpr const char *kToAll = R"(fusion @f(D = $D) {
  mesh [0 .. D)
  %A = input $T[3, DIDx{D}, 2]
  %B = input $T[$B_AXES]
$BIAS_INPUT  %C = $GEMM %A, %B$ADDED$TRAVEL : $T[3, 4]
  output %C
}
program @p implements @f mesh [0 .. $D)
    (%A: $T[3, 1, 2], %B: $T[$B_LOCAL]$BIAS_PARAM) -> (%C: $T[3, 4]) {
)";

std::string withOptions(std::string text, const Options &options) {
  const bool isLinear = options.hasBias;
  const std::pair<std::string, std::string> words[] = {
      {"$B_AXES", isLinear ? "4, DIDx{D}, 2" : "DIDx{D}, 2, 4"},
      {"$B_LOCAL", isLinear ? "4, 1, 2" : "1, 2, 4"},
      {"$BIAS_INPUT", isLinear ? "  %bias = input $T[4]\n" : ""},
      {"$BIAS_PARAM", isLinear ? ", %bias: $T[4]" : ""},
      {"$ADDED", isLinear ? ", %bias" : ""},
      {"$TRAVEL", options.partial == options.dtype ? "" : " partial $P"},
      {"$GEMM", isLinear ? "linear" : "matmul"},
      {"$D", std::to_string(options.ranks)},
      {"$T", options.dtype},
      {"$P", options.partial},
  };
  for (const auto &[word, meaning] : words)
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;)
      text.replace(at, word.size(), meaning);
  return text;
}

/// The loops in which ranks compute partial results for each other, and for themselves.
constexpr const char *kPartials = R"(  for %i in 1 .. $D {
    %block = select %A[(rank + %i) mod $D]
    %part = select %sent[(rank + %i) mod $D]
    $GEMM %part, %block, %B
  }
  %own_block = select %A[rank]
  %own = select %parts[rank]
  $GEMM %own, %own_block, %B
)";

} // namespace

std::string scatterByPut(const Options &options) {
  return withOptions(std::string(kScatter) + R"(  %parts = allocate symmetric $P[$D, 3, 4]
  %sent = allocate device $P[$D, 3, 4]
  %h = share_mem_handles put %parts
)" + kPartials + R"(  for %i in 1 .. $D {
    %slot = select %parts[(rank - %i) mod $D]
    %theirs = select %sent[(rank + %i) mod $D]
    %r = p2p recv %slot from (rank - %i) mod $D via %h
    %s = p2p send %theirs to (rank + %i) mod $D via %h
    wait %r
    wait %s
  }
  %c = select %C[0]
  sum %c, %parts$ADDED
}
)",
                     options);
}

std::string scatterAtPeers(const Options &options) {
  return withOptions(std::string(kScatter) + R"(  %parts = allocate symmetric $P[$D, 3, 4]
  %h = share_mem_handles put %parts
  %main = get_current_stream
  set_current_stream stream(0)
  synchronize %main
  for %i in 1 .. $D {
    %slot = select %parts[(rank - %i) mod $D]
    %r = p2p recv %slot from (rank - %i) mod $D via %h
    %block = select %A[(rank + %i) mod $D]
    %s = p2p send $GEMM %block, %B : $P[3, 4] to (rank + %i) mod $D via %h
    set_current_stream %main
    wait %r
    wait %s
    set_current_stream stream(0)
  }
  set_current_stream %main
  synchronize stream(0)
  %own_block = select %A[rank]
  %own = select %parts[rank]
  $GEMM %own, %own_block, %B
  %c = select %C[0]
  sum %c, %parts$ADDED
}
)",
                     options);
}

std::string scatterByGet(const Options &options) {
  return withOptions(std::string(kScatter) + R"(  %parts = allocate device $P[$D, 3, 4]
  %sent = allocate symmetric $P[$D, 3, 4]
  %h = share_mem_handles get %sent
)" + kPartials + R"(  for %i in 1 .. $D {
    %slot = select %parts[(rank - %i) mod $D]
    %theirs = select %sent[(rank + %i) mod $D]
    %s = p2p send %theirs to (rank + %i) mod $D via %h
    %r = p2p recv %slot from (rank - %i) mod $D via %h
    wait %r
    wait %s
  }
  %c = select %C[0]
  sum %c, %parts$ADDED
}
)",
                     options);
}

std::string scatterInChunks(const Options &options) {
  return withOptions(std::string(kScatter) + R"(  %parts = allocate symmetric $P[$D, 3, 4]
  %sent = allocate device $P[$D, 3, 4]
  %h = share_mem_handles put %parts
  %main = get_current_stream
  for %j in 0 .. 3 {
    set_current_stream stream(%j)
    synchronize %main
  }
  %c = select %C[0]
  for %k in 0 .. 2 {
    for %i in 1 .. $D {
      %slot = select %parts[(rank - %i) mod $D]
      %part = select %sent[(rank + %i) mod $D]
      %block = select %A[(rank + %i) mod $D]
      %slot_rows = slice %slot[%k .. 1 + 2 * %k]
      %part_rows = slice %part[%k .. 1 + 2 * %k]
      %rows = slice %block[%k .. 1 + 2 * %k]
      set_current_stream stream(0)
      %r = p2p recv %slot_rows from (rank - %i) mod $D via %h
      set_current_stream stream(1)
      $GEMM %part_rows, %rows, %B
      %s = p2p send %part_rows to (rank + %i) mod $D via %h
      wait %s
      set_current_stream stream(0)
      wait %r
    }
    %own_block = select %A[rank]
    %own = select %parts[rank]
    %own_block_rows = slice %own_block[%k .. 1 + 2 * %k]
    %own_rows = slice %own[%k .. 1 + 2 * %k]
    set_current_stream stream(1)
    $GEMM %own_rows, %own_block_rows, %B
    set_current_stream stream(2)
    synchronize stream(0)
    synchronize stream(1)
    %c_rows = slice %c[%k .. 1 + 2 * %k]
    sum %c_rows, %parts[%k .. 1 + 2 * %k]$ADDED
  }
  set_current_stream %main
  for %j in 0 .. 3 {
    synchronize stream(%j)
  }
}
)",
                     options);
}

std::string scatterAroundRing(const Options &options) {
  return withOptions(std::string(kScatter) + R"(  %pairs = allocate symmetric $P[$D, 2, 3, 4]
  %sums = allocate device $P[$D, 3, 4]
  %h = share_mem_handles put %pairs
  %first_block = select %A[(rank - 1) mod $D]
  %first = select %sums[0]
  $GEMM %first, %first_block, %B
  for %i in 1 .. $D {
    %pair = select %pairs[%i]
    %so_far = select %pair[0]
    %own = select %pair[1]
    %theirs = select %sums[%i - 1]
    %r = p2p recv %so_far from (rank - 1) mod $D via %h
    %s = p2p send %theirs to (rank + 1) mod $D via %h
    %block = select %A[(rank - 1 - %i) mod $D]
    $GEMM %own, %block, %B
    wait %r
    if %i != $D - 1 {
      %next = select %sums[%i]
      sum %next, %pair
    } else {
      %c = select %C[0]
      sum %c, %pair$ADDED
    }
    wait %s
  }
}
)",
                     options);
}

std::string reduceToAll(const Options &options) {
  return withOptions(std::string(kToAll) + R"(  %parts = allocate symmetric $P[$D, 3, 4]
  %h = share_mem_handles put %parts
  %own = select %parts[rank]
  $GEMM %own, %A, %B
  for %i in 1 .. $D {
    %slot = select %parts[(rank - %i) mod $D]
    %r = p2p recv %slot from (rank - %i) mod $D via %h
    %s = p2p send %own to (rank + %i) mod $D via %h
    wait %r
    wait %s
  }
  sum %C, %parts$ADDED
}
)",
                     options);
}

std::string gatherAndScatter(const Options &options) {
  return withOptions(R"(fusion @f(D = $D) {
  mesh [0 .. D)
  %X = input $T[DIDx{D}, 3, 2]
  %W = input $T[2, DIDx{D}, 3]
  %V = input $T[DIDx{D}, 3, 2]
  %H = matmul %X, %W : $T[Stream{D}, 3, DIDx{D}, 3]
  %Y = matmul %H, %V$TRAVEL : $T[DIDx{D}, 3, 2]
  output %Y
}
program @p implements @f mesh [0 .. $D)
    (%X: $T[1, 3, 2], %W: $T[2, 1, 3], %V: $T[1, 3, 2]) -> (%Y: $T[1, 3, 2]) {
  %all = allocate symmetric $T[$D, 3, 2]
  %H = allocate device $T[$D, 3, 1, 3]
  %parts = allocate device $P[$D, 3, 2]
  %sent = allocate symmetric $P[$D, 3, 2]
  %gathered = share_mem_handles get %all
  %scattered = share_mem_handles get %sent
  %mine = select %all[rank]
  %x = select %X[0]
  set %mine, %x
  for %i in 1 .. $D {
    %rows = select %all[(rank + %i) mod $D]
    %s = p2p send %mine to (rank - %i) mod $D via %gathered
    %r = p2p recv %rows from (rank + %i) mod $D via %gathered
    wait %r
    %h = select %H[(rank + %i) mod $D]
    matmul %h, %rows, %W
    %part = select %sent[(rank + %i) mod $D]
    matmul %part, %h, %V
    wait %s
  }
  %own_h = select %H[rank]
  matmul %own_h, %mine, %W
  %own = select %parts[rank]
  matmul %own, %own_h, %V
  for %i in 1 .. $D {
    %slot = select %parts[(rank - %i) mod $D]
    %theirs = select %sent[(rank + %i) mod $D]
    %s = p2p send %theirs to (rank + %i) mod $D via %scattered
    %r = p2p recv %slot from (rank - %i) mod $D via %scattered
    wait %r
    wait %s
  }
  %y = select %Y[0]
  sum %y, %parts
}
)",
                     options);
}

} // namespace braid::test::reductions
