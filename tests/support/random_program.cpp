//===- tests/support/random_program.cpp - random programs -------------------------------------===//

#include "tests/support/random_program.h"

#include "tests/support/dice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace braid::test {
namespace {

constexpr int kMain = 0; ///< the caller's stream; stream(0), stream(1), ... follow

/// A block of a buffer. Two blocks of a buffer are known to be different if they have the same kind
/// but different offsets.
struct BlockRef {
  enum Kind { Constant, FromRank, Any };
  std::string buffer;
  Kind kind = Any;
  int64_t offset = 0;
  std::string index = {};
};

bool mayOverlap(const BlockRef &a, const BlockRef &b) {
  bool areComparable = a.kind == b.kind && a.kind != BlockRef::Any;
  return a.buffer == b.buffer && (!areComparable || a.offset == b.offset);
}

/// An access to a block on a stream. Later accesses have larger numbers.
struct Touch {
  BlockRef block;
  bool isWrite;
  int stream;
  int64_t number;
};

/// A posted transfer and its access to a block, which lasts until the transfer has been waited for.
struct Pending {
  std::string request;
  BlockRef block;
  bool isWrite;
};

struct Use {
  BlockRef block;
  bool isWrite;
};

bool conflict(const BlockRef &a, bool aWrites, const BlockRef &b, bool bWrites) {
  return (aWrites || bWrites) && mayOverlap(a, b);
}

/// Writes nodes and the synchronization that they require: synchronize if another stream accessed a
/// block, wait if a transfer accesses it. Omits them with a probability of `carelessness_` percent.
class ProgramWriter {
public:
  explicit ProgramWriter(Dice &dice) : dice_(dice) {
    ranks_ = dice.pick<int64_t>({2, 2, 3, 4});
    streams_ = 1 + dice.pick<int>({0, 1, 2, 2, 3});
    carelessness_ = dice.pick<int64_t>({0, 4, 8, 20});
    seen_.assign(static_cast<size_t>(streams_), std::vector<int64_t>(streams_, 0));
  }

  std::string write(const ProgramKinds &kinds) {
    declare();
    fence();
    for (const std::string &buffer : buffers_)
      if (buffer != "C" || dice_.chance(95))
        initialize(buffer);
    int64_t phases = 2 + dice_.below(4);
    for (int64_t i = 0; i < phases; ++i)
      phase();
    for (const std::string &buffer : buffers_)
      if (buffer != "C")
        flushAndCollect(buffer);
    join();
    return header(kinds) + text_ + "}\n";
  }

private:
  //===- Text ---------------------------------------------------------------------------------===//

  template <class... Args> void line(fmt::format_string<Args...> format, Args &&...args) {
    text_ += std::string(2 * depth_, ' ') + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  std::string fresh(const char *prefix) { return fmt::format("{}{}", prefix, ++names_); }

  std::string type() const { return fmt::format("f32[{}, 4, 4]", ranks_); }

  static std::string streamName(int stream) {
    return stream == kMain ? "%main" : fmt::format("stream({})", stream - 1);
  }

  /// Draws the hosts last, so that programs with and without hosts differ only in their hosts.
  std::string header(const ProgramKinds &kinds) {
    const int64_t hostSize = kinds.hosts ? divisorOf(ranks_, dice_) : ranks_;
    const std::string hosts = hostSize == ranks_ ? "" : fmt::format(" of {}", hostSize);
    return fmt::format("program @drawn mesh [0 .. {}){} (%A: {}) -> (%C: {}) {{\n", ranks_, hosts,
                       type(), type());
  }

  void declare() {
    buffers_ = {"C"};
    for (int64_t i = 0, count = 1 + dice_.below(3); i < count; ++i)
      addBuffer("device", fresh("D"));
    for (int64_t i = 0, count = 1 + dice_.below(2); i < count; ++i) {
      std::string handles = fresh("h"), first = fresh("S"), list = "%" + first;
      addBuffer("symmetric", first);
      shared_[handles] = {first};
      if (dice_.chance(30)) {
        std::string second = fresh("S");
        addBuffer("symmetric", second);
        shared_[handles].push_back(second);
        list += ", %" + second;
      }
      isGet_[handles] = dice_.chance(50);
      line("%{} = share_mem_handles {} {}", handles, isGet_[handles] ? "get" : "put", list);
    }
    line("%main = get_current_stream");
  }

  void addBuffer(const char *space, const std::string &name) {
    line("%{} = allocate {} {}", name, space, type());
    buffers_.push_back(name);
  }

  //===- Ordering -----------------------------------------------------------------------------===//

  bool forgets() { return dice_.chance(carelessness_); }

  void switchTo(int stream) {
    if (current_ == stream)
      return;
    line("set_current_stream {}", streamName(stream));
    current_ = stream;
  }

  /// Makes the current stream wait for `other`.
  void synchronize(int other) {
    if (!forgets())
      line("synchronize {}", streamName(other));
    std::vector<int64_t> &mine = seen_[current_];
    for (int t = 0; t < streams_; ++t)
      mine[t] = std::max(mine[t], seen_[other][t]);
    mine[other] = issued_;
  }

  /// Makes the current stream wait for all conflicting accesses.
  void order(const std::vector<Use> &uses) {
    for (const Use &use : uses) {
      for (size_t i = 0; i < pending_.size();)
        if (conflict(use.block, use.isWrite, pending_[i].block, pending_[i].isWrite) && !forgets())
          waitFor(i);
        else
          ++i;
      for (size_t i = 0; i < touches_.size(); ++i)
        if (touches_[i].stream != current_ &&
            seen_[current_][touches_[i].stream] < touches_[i].number &&
            conflict(use.block, use.isWrite, touches_[i].block, touches_[i].isWrite))
          synchronize(touches_[i].stream);
    }
  }

  void touch(const std::vector<Use> &uses) {
    ++issued_;
    for (const Use &use : uses)
      touches_.push_back({use.block, use.isWrite, current_, issued_});
  }

  /// Records that all previous accesses are ordered before the main stream's next access.
  void fence() {
    touches_.clear();
    std::vector<std::string> all = buffers_;
    all.push_back("A");
    ++issued_;
    for (const std::string &buffer : all)
      touches_.push_back({{buffer}, true, kMain, issued_});
  }

  void join() {
    flushWaits();
    switchTo(kMain);
    for (int stream = 1; stream < streams_; ++stream)
      if (!used_.empty() && used_[stream])
        synchronize(stream);
    fence();
  }

  void waitFor(size_t i) {
    Pending done = pending_[i];
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    line("wait %{}", done.request);
    touch({{done.block, done.isWrite}});
  }

  void flushWaits() {
    while (!pending_.empty())
      waitFor(static_cast<size_t>(dice_.below(static_cast<int64_t>(pending_.size()))));
  }

  //===- Random choices -----------------------------------------------------------------------===//

  int anyStream() {
    int stream = static_cast<int>(dice_.below(streams_));
    used_.resize(static_cast<size_t>(streams_));
    used_[stream] = true;
    return stream;
  }

  BlockRef anyBlock(const std::string &buffer) {
    BlockRef block{buffer};
    int64_t choice = dice_.below(loopIndex_.empty() ? 2 : 3);
    block.offset = dice_.below(ranks_);
    if (choice == 0) {
      block.kind = BlockRef::Constant;
      block.index = std::to_string(block.offset);
    } else if (choice == 1) {
      block.kind = BlockRef::FromRank;
      block.index = fmt::format("(rank + {}) mod {}", block.offset, ranks_);
    } else {
      block.index = fmt::format("(rank + %{} + {}) mod {}", loopIndex_, block.offset, ranks_);
    }
    return block;
  }

  std::string anyOf(const std::vector<std::string> &names) { return dice_.pick(names); }

  /// Returns a readable block that cannot overlap `other`, or a block without a buffer.
  BlockRef blockBeside(const BlockRef &other, bool mayBeInput) {
    std::vector<std::string> names = buffers_;
    if (mayBeInput)
      names.push_back("A");
    for (int attempt = 0; attempt < 10; ++attempt) {
      BlockRef block = anyBlock(anyOf(names));
      if (!mayOverlap(block, other))
        return block;
    }
    return {};
  }

  /// Adds a view of the block.
  std::string view(const BlockRef &block) {
    std::string name = fresh("v");
    line("%{} = select %{}[{}]", name, block.buffer, block.index);
    return name;
  }

  //===- Phases -------------------------------------------------------------------------------===//

  void phase() {
    int64_t choice = dice_.below(100);
    if (choice < 21)
      localWork();
    else if (choice < 24)
      sum();
    else if (choice < 27)
      contractTwoAxes();
    else if (choice < 30)
      sumNarrow();
    else if (choice < 58)
      exchange();
    else if (choice < 66)
      oneWay();
    else if (choice < 78 && depth_ < 3)
      loop();
    else if (choice < 86 && depth_ < 3)
      branch();
    else
      scratch();
  }

  void initialize(const std::string &buffer) {
    if (dice_.chance(carelessness_ / 4))
      return;
    switchTo(dice_.chance(70) ? kMain : anyStream());
    std::vector<Use> uses = {{{"A"}, false}, {{buffer}, true}};
    order(uses);
    line("set %{}, %A", buffer);
    touch(uses);
  }

  void localWork() {
    switchTo(anyStream());
    BlockRef to = anyBlock(anyOf(buffers_)), from = blockBeside(to, true);
    if (from.buffer.empty())
      return;
    std::vector<Use> uses = {{from, false}, {to, true}};
    const bool multiplies = dice_.chance(33);
    BlockRef second = blockBeside(to, true);
    if (multiplies && !second.buffer.empty())
      uses.push_back({second, false});
    order(uses);
    std::string dst = view(to), src = view(from);
    if (uses.size() == 3)
      line("matmul %{}, %{}, %{}", dst, src, view(second));
    else
      line("set %{}, %{}", dst, src);
    touch(uses);
  }

  /// Adds a sum of all blocks of a buffer, or of some of their rows.
  void sum() {
    switchTo(anyStream());
    BlockRef to = anyBlock(anyOf(buffers_)), bias = blockBeside(to, true);
    BlockRef parts = bufferBeside(to);
    std::vector<Use> uses = {{parts, false}, {to, true}};
    const bool hasBias = !bias.buffer.empty() && dice_.chance(50);
    if (hasBias)
      uses.push_back({bias, false});
    order(uses);
    std::string dst = view(to), range;
    if (dice_.chance(50)) {
      int64_t rows = 1 + dice_.below(3), from = dice_.below(5 - rows);
      std::string begin = dice_.chance(50) ? fmt::format("{}", dice_.below(5 - rows))
                                           : fmt::format("rank mod {}", 5 - rows);
      dst = part(dst, from, rows);
      range = fmt::format("[{} .. {} + {}]", begin, begin, rows);
    }
    line("sum %{}, %{}{}{}", dst, parts.buffer, range, hasBias ? ", %" + firstRow(bias) : "");
    touch(uses);
  }

  /// Contracts two axes: multiplies each entry of a range of one buffer by a block, and stores the
  /// results in elements of another block.
  void contractTwoAxes() {
    switchTo(anyStream());
    BlockRef to = anyBlock(anyOf(buffers_)), block = blockBeside(to, true);
    BlockRef several = bufferBeside(to);
    if (block.buffer.empty())
      return;
    std::vector<Use> uses = {{block, false}, {several, false}, {to, true}};
    order(uses);
    int64_t count = 1 + dice_.below(ranks_);
    std::string flat = fresh("v"), dst = view(to), a = part(several.buffer, 0, count);
    line("%{} = flatten %{}", flat, dst);
    std::string elements = part(flat, dice_.below(17 - count), count), b = view(block);
    if (dice_.chance(50))
      line("matmul %{}, %{}, %{}", elements, a, b);
    else
      line("linear %{}, %{}, %{}", elements, b, a);
    touch(uses);
  }

  /// Adds sums with a narrower type than their parts, sums of these sums, and a wider GEMM.
  void sumNarrow() {
    switchTo(anyStream());
    BlockRef to = anyBlock(anyOf(buffers_)), first = bufferBeside(to), second = bufferBeside(to);
    std::vector<Use> uses = {{first, false}, {second, false}, {to, true}};
    order(uses);
    const char *type = dice_.chance(50) ? "bf16" : "f16";
    std::string parts = fresh("T"), whole = fresh("T");
    line("%{} = allocate device {}[2, 4, 4]", parts, type);
    line("%{} = allocate device {}[4, 4]", whole, type);
    std::string halves[2] = {view({parts, BlockRef::Constant, 0, "0"}),
                             view({parts, BlockRef::Constant, 1, "1"})};
    line("sum %{}, %{}", halves[0], first.buffer);
    line("sum %{}, %{}", halves[1], second.buffer);
    line("sum %{}, %{}{}", whole, parts, dice_.chance(50) ? ", %" + halves[0] : "");
    line("matmul %{}, %{}, %{}", view(to), whole, halves[1]);
    line("deallocate %{}", parts);
    line("deallocate %{}", whole);
    touch(uses);
  }

  /// Returns a complete buffer other than the block's buffer.
  BlockRef bufferBeside(const BlockRef &block) {
    std::vector<std::string> names = buffers_;
    names.push_back("A");
    std::erase(names, block.buffer);
    return {anyOf(names)};
  }

  /// Adds a slice along the leading axis.
  std::string part(const std::string &tensor, int64_t begin, int64_t count) {
    std::string name = fresh("v");
    line("%{} = slice %{}[{} .. {}]", name, tensor, begin, begin + count);
    return name;
  }

  std::string firstRow(const BlockRef &block) {
    std::string whole = view(block), row = fresh("v");
    line("%{} = select %{}[0]", row, whole);
    return row;
  }

  /// The two blocks of a transfer: one that the peer accesses, and one that this rank accesses.
  struct Sides {
    std::string handles;
    bool isGet;
    BlockRef passive, active;
  };

  std::optional<Sides> anySides() {
    auto handles = std::next(shared_.begin(), dice_.below(static_cast<int64_t>(shared_.size())));
    Sides sides{handles->first, isGet_[handles->first], anyBlock(anyOf(handles->second)), {}};
    sides.active = blockBeside(sides.passive, !sides.isGet); // an input can only be sent
    if (sides.active.buffer.empty() || sides.active.buffer == sides.passive.buffer)
      return std::nullopt;
    return sides;
  }

  /// Adds one side of a transfer. If blocks are pulled, the passive side is the sender.
  void post(const Sides &sides, bool isPassive, const std::string &tensor,
            const std::string &peer) {
    bool isSend = isPassive == sides.isGet;
    std::string request = fresh(isSend ? "s" : "r");
    line("%{} = p2p {} %{} {} {} via %{}", request, isSend ? "send" : "recv", tensor,
         isSend ? "to" : "from", peer, sides.handles);
    pending_.push_back({request, isPassive ? sides.passive : sides.active, !isSend});
  }

  /// Makes every rank send to one neighbor and receive from the other.
  void exchange() {
    std::optional<Sides> sides = anySides();
    if (!sides)
      return;
    int streams[2]; // streams of the passive and the active side
    streams[0] = anyStream();
    streams[1] = dice_.chance(75) ? streams[0] : anyStream();
    switchTo(streams[0]);
    order({{sides->passive, !sides->isGet}});
    switchTo(streams[1]);
    order({{sides->active, sides->isGet}});
    std::string tensors[2] = {view(sides->passive), view(sides->active)};
    if (dice_.chance(carelessness_ / 4)) {
      std::string row = fresh("v");
      line("%{} = select %{}[0]", row, tensors[1]);
      tensors[1] = row;
    }
    int64_t step = 1 + dice_.below(ranks_ - 1), back = dice_.chance(carelessness_ / 4) ? 1 : step;
    std::string to = fmt::format("(rank + {}) mod {}", step, ranks_);
    std::string from = fmt::format("(rank - {}) mod {}", back, ranks_);
    std::string peers[2] = {sides->isGet ? to : from, sides->isGet ? from : to};
    bool isGroup = streams[0] == streams[1] && dice_.chance(30);
    size_t first = isGroup ? dice_.chance(50) : dice_.chance(carelessness_ / 2);
    openGroup(isGroup);
    for (size_t side : {first, 1 - first}) {
      switchTo(streams[side]);
      post(*sides, side == 0, tensors[side], peers[side]);
    }
    closeGroup(isGroup);
    if (dice_.chance(40))
      flushWaits();
  }

  void openGroup(bool isGroup) {
    if (!isGroup)
      return;
    line("group {{");
    ++depth_;
  }

  void closeGroup(bool isGroup) {
    if (!isGroup)
      return;
    --depth_;
    line("}}");
  }

  /// Makes one rank send to one other rank.
  void oneWay() {
    std::optional<Sides> sides = anySides();
    if (!sides)
      return;
    flushWaits();
    int64_t from = dice_.below(ranks_), to = (from + 1 + dice_.below(ranks_ - 1)) % ranks_;
    for (bool isSend : {true, false}) {
      line("if rank == {} {{", isSend ? from : to);
      scoped([&] {
        bool isPassive = isSend == sides->isGet;
        const BlockRef &block = isPassive ? sides->passive : sides->active;
        switchTo(anyStream());
        order({{block, !isSend}});
        post(*sides, isPassive, view(block), std::to_string(isSend ? to : from));
      });
    }
  }

  /// Adds a block that may not be executed, so later code cannot rely on its synchronization.
  template <class Fn> void scoped(Fn &&body) {
    std::vector<std::vector<int64_t>> seen = seen_;
    std::vector<Pending> outer = std::move(pending_);
    pending_.clear();
    int before = current_;
    ++depth_;
    body();
    flushWaits();
    switchTo(before);
    --depth_;
    line("}}");
    pending_ = std::move(outer);
    seen_ = std::move(seen);
  }

  void branch() {
    flushWaits();
    std::string condition =
        dice_.chance(50) || loopIndex_.empty()
            ? fmt::format("rank {} {}", dice_.chance(50) ? "==" : "<", 1 + dice_.below(ranks_ - 1))
            : fmt::format("%{} != 0", loopIndex_);
    line("if {} {{", condition);
    scoped([&] { localWork(); });
    if (!dice_.chance(40))
      return;
    text_.pop_back();
    text_ += " else {\n";
    scoped([&] { localWork(); });
  }

  void loop() {
    join();
    std::string outer = loopIndex_;
    loopIndex_ = fresh("i");
    line("for %{} in 0 .. {} {{", loopIndex_, 1 + dice_.below(3));
    ++depth_;
    for (int64_t i = 0, count = 1 + dice_.below(3); i < count; ++i)
      phase();
    join();
    --depth_;
    line("}}");
    loopIndex_ = outer;
  }

  /// Adds a buffer that is deallocated, so that later buffers may reuse its memory.
  void scratch() {
    switchTo(anyStream());
    std::string name = fresh("T");
    addBuffer("device", name);
    touch({{{name}, true}});
    initialize(name);
    for (int64_t i = 0, count = 1 + dice_.below(2); i < count; ++i)
      localWork();
    int owner = current_;
    for (const Touch &each : touches_)
      if (each.block.buffer == name)
        owner = dice_.chance(50) ? each.stream : owner;
    switchTo(owner);
    std::vector<Use> end = {{{name}, true}};
    order(end);
    line("deallocate %{}", name);
    touch(end);
    buffers_.pop_back();
  }

  /// Adds the last access to a buffer, which copies part of the buffer to the output.
  void flushAndCollect(const std::string &buffer) {
    switchTo(anyStream());
    BlockRef from = anyBlock(buffer), to = anyBlock("C");
    std::vector<Use> uses = {{from, false}, {to, true}};
    order(uses);
    std::string dst = view(to), src = view(from);
    line("set %{}, %{}", dst, src);
    touch(uses);
  }

  Dice &dice_;
  int64_t ranks_, carelessness_;
  int streams_;
  std::string text_, loopIndex_;
  size_t depth_ = 1;
  int names_ = 0, current_ = kMain;
  std::vector<std::string> buffers_;                       ///< writable
  std::map<std::string, std::vector<std::string>> shared_; ///< maps handles to buffers
  std::map<std::string, bool> isGet_;                      ///< indexed by handles

  int64_t issued_ = 0;
  /// The latest access of each stream (second index) that a stream (first index) has waited for.
  std::vector<std::vector<int64_t>> seen_;
  std::vector<Touch> touches_;
  std::vector<Pending> pending_;
  std::vector<bool> used_;
};

} // namespace

std::string randomProgram(uint64_t seed, const ProgramKinds &kinds) {
  Dice dice(seed);
  return ProgramWriter(dice).write(kinds);
}

} // namespace braid::test
