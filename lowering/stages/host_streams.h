//===- lowering/stages/host_streams.h - streams under order=hierarchical ----------------------===//
//
// Network transfers, and the waits for them, use dedicated streams, so that only work that needs
// data from other hosts waits for the network. In a gather:
//
//   stream(0)   sends to and receives from other hosts
//   stream(1)   waits for these receives
//   stream(2..) forwarded blocks, after a `synchronize stream(1)`, and GEMMs, round-robin
//
// Under placement=shared, stream(2) carries the copies of forwarded blocks, and stream(3) carries
// their ready signals. In a reduction:
//
//   stream(0)   ready signals, and waits for peers to read data
//   stream(1)   waits for the partial sums within a host, and their addition
//   stream(2)   transfers of these sums to other hosts
//   stream(3)   waits for the sums of other hosts, and the final addition
//   stream(4)   with placement=shared, copies of partial sums
//
// A two-shot reduction adds four streams: transfers of final sums to other hosts; waits for final
// sums from other hosts; forwarded sums; and waits for forwarded sums, with copies to the result.
// GEMMs use the remaining streams. If there are too few streams, the last roles share one stream.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "lowering/stages/stream_placer.h"

namespace braid {

class HostStreams : StreamPlacer {
public:
  using StreamPlacer::StreamPlacer;

  void assignGather();
  /// `others` is the first stream of the second shot.
  void assignReduction(int64_t others);

private:
  void assignSumGather(int64_t first);
  /// Returns the stream for a host's GEMM in step `step`.
  StreamRef gemmStream(const Scalar *host, const Scalar *step) const;
};

} // namespace braid
