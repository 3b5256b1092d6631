//===- runtime/plan/specializer.h - the program walk that builds a Plan -----------------------===//
//
// specialize.cpp implements the walk, memory, local work and streams. specialize_transfers.cpp and
// specialize_collectives.cpp implement transfers between ranks.
//
//===----------------------------------------------------------------------------------------===//
#pragma once

#include "api/status.h"
#include "ir/visitor.h"
#include "runtime/plan/arena.h"
#include "runtime/plan/collective_parts.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

#include <map>

namespace braid {

/// Walks the program in the rank's execution order and emits commands. Stops at the first error,
/// because later loop iterations (trips) would repeat the error.
class Specializer : public OpVisitor<Specializer, bool> {
public:
  Specializer(const Program &program, int64_t rank, Diagnostics &diags, Transport transport);

  Result<Plan> run();

#define BRAID_OP(Kind, keyword, results, summary) bool visit##Kind(const Kind##Op &op);
#include "ir/program_kinds.def"

private:
  /// A tensor value in the current trip: a range of a buffer, with a concrete shape.
  struct View {
    uint32_t buffer = 0;
    int64_t offset = 0;
    DType dtype = DType::F32;
    Shape shape;

    // Cannot overflow, because the verifier checks whole buffers, and views are parts of buffers.
    int64_t bytes() const { return *byteCount(dtype, shape); }
    bool isEmpty() const { return bytes() == 0; }
    Range range() const { return {buffer, offset, bytes()}; }
  };

  static std::string str(const View &view);

  /// A posted transfer that has not been waited for yet.
  struct Request {
    uint32_t endpoint = kNone; ///< this rank's endpoint, if the transfer has one
    uint32_t stream = 0;       ///< the stream of the post, or of the group
    /// Event after this rank's commands for the transfer, used by waits on other streams. kNone if
    /// this rank issues no such commands; a wait then awaits the endpoint's flag, if any.
    uint32_t event = kNone;
    std::optional<PlanMatmul> gemm = {}; ///< the GEMM that computes the sent data, if any
  };

  /// A posted message whose group is still open. The next command closes the group.
  struct Posted {
    PlanMessage message;
    const Value *request;
    uint32_t stream;
  };
  /// The active side of a posted transfer, issued after the messages of the same group.
  struct Delayed {
    Request request;
    const Value *name; ///< null if no `wait` refers to it
  };

  bool visitBlock(const Block &block);
  bool countStep(const Op &op);
  void addParameters(llvm::ArrayRef<std::unique_ptr<Value>> values, BufferKind kind,
                     std::vector<uint32_t> &numbers);
  bool evaluate(const Op &op, const Scalar *scalar, llvm::StringRef what, int64_t &value);
  bool concreteShape(const Op &op, const TensorType &type, Shape &shape);
  bool stream(const Op &op, const StreamRef &ref, uint32_t &number);
  bool gemmOf(const MatmulOp &op, PlanMatmul &gemm);
  bool gemmOf(const P2POp &op, PlanMatmul &gemm);
  bool emitSum(const PlanSum &sum, uint32_t origin);
  bool emitGemm(PlanMatmul gemm, uint32_t origin, uint32_t endpoint = kNone);
  bool checkContracted(const Op &op, const View &a, size_t firstA, const View &b, size_t firstB,
                       size_t count);
  bool cutRange(const Op &op, const Scalar *first, const Scalar *last, View &part);
  bool peerOf(const P2POp &op, int64_t &peer);
  bool addEndpoint(const P2POp &op, int64_t peer);
  uint32_t addEndpoint(Endpoint endpoint);
  static bool isPassive(Direction direction, Protocol protocol);
  bool post(const P2POp &op);
  bool postMessage(const P2POp &op, int64_t peer);
  void endGroup(bool awaitsAllFirst = false);
  void issueGroup(llvm::ArrayRef<Posted> posted);
  void emitInOrder(Command command);
  bool staysWhole(const PlanCollective &collective) const;
  void emitWhole(const CollectiveOp &op, PlanCollective collective);
  bool collectiveOf(const CollectiveOp &op, PlanCollective &collective);
  bool checkCounts(const CollectiveOp &op, const PlanCollective &collective);
  bool exchange(const CollectiveOp &op, const PlanCollective &collective);
  bool moveParts(const CollectiveOp &op, PlanCollective collective);
  bool sumParts(const CollectiveOp &op, const PlanCollective &collective, int64_t bytes, Range sum);
  bool sumAndGather(const CollectiveOp &op, const PlanCollective &collective);
  void exchangeParts(const CollectiveOp &op, llvm::ArrayRef<CollectivePart> parts,
                     Protocol protocol);
  void copyHere(const CollectiveOp &op, Range dst, Range src);
  bool isSymmetric(const Range &range) const;
  bool scratch(const CollectiveOp &op, llvm::StringRef name, int64_t bytes, Range &range);
  Command commandOf(CommandKind kind, uint32_t endpoint) const;
  void moveAndSignal(const Delayed &delayed);
  void copy(uint32_t endpoint);
  bool checkShape(const Op &op, llvm::StringRef what, const View &view,
                  llvm::ArrayRef<int64_t> expected);
  bool checkDistinct(const Op &op, const View &dst, std::initializer_list<const View *> sources);

  const View &view(const Value *value) const { return views_.find(value)->second; }
  bool emit(Command command);
  void append(Command command);
  uint32_t eventBehind(uint32_t stream);
  uint32_t originOf(const Op &op);
  uint32_t siteOf(const Op &op);
  void finishEvents();
  void markOverlaps();
  std::string trips() const;
  Diagnostics::InFlight error(const Op &op);

  const Program &program_;
  Diagnostics &diags_;
  Plan plan_;
  Status unsupported_;
  size_t steps_ = 0;

  std::vector<int64_t> loops_;     ///< the current value of every loop index
  std::vector<int64_t> tripStack_; ///< indices of the enclosing loops, outermost first
  llvm::DenseMap<const Value *, View> views_;
  llvm::DenseMap<const Value *, uint32_t> namedStreams_;
  llvm::DenseMap<const Value *, Request> requests_;
  llvm::DenseMap<const Value *, uint32_t> channels_;
  std::map<std::tuple<Direction, int64_t, uint32_t>, uint32_t> sequences_;
  std::vector<Posted> posted_;
  std::vector<Delayed> delayed_;
  uint32_t lastMessages_ = kNone; ///< event after the last group or collective
  uint32_t messageStream_ = 0;    ///< stream of the last group or collective
  std::map<std::pair<std::string, uint32_t>, uint32_t> scratch_; ///< buffers, by name and stream
  std::map<int64_t, uint32_t> poolStreams_;
  llvm::DenseMap<const Op *, uint32_t> sites_;
  ArenaLayout symmetric_, device_;

  uint32_t current_ = 0;            ///< the current stream
  std::vector<uint32_t> lastEvent_; ///< per stream: event covering everything issued, or kNone
  const Op *originOp_ = nullptr;    ///< the node whose origin was added last, in the current trip
};

/// Sets PlanSum::keepsParts of each sum: true if the copied parts have another reader, such as a
/// command of this rank (including another sum), a peer that copies them, or the caller.
void markUnreadParts(Plan &plan);

} // namespace braid
