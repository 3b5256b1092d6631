//===- tests/fuzz/fuzz_sealed_stream.cpp - records, and what is none --------------------------===//
//
// The input says what somebody on the way does with the records of a stream: lets them through,
// changes them, leaves them out, repeats them, or puts bytes of its own between them.
//
//===----------------------------------------------------------------------------------------===//

#include "runtime/job/network/sealed_stream.h"
#include "tests/fuzz/require.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace braid {
namespace {

/// The other side of the stream. Counts how much of what was said came as it was said.
class Reader {
public:
  /// `isNext`: it is the next record as it was sealed.
  void take(llvm::StringRef bytes, bool isNext, size_t step) {
    isWhole_ = isWhole_ && isNext;
    while (!bytes.empty()) {
      status_ = opener_.feed(bytes.take_front(step), text_);
      bytes = bytes.drop_front(std::min(step, bytes.size()));
    }
  }
  /// Nothing is ever given out but what was said, in its order; and all of it, as long as nobody
  /// has meddled. A record that was left out may come after all.
  void check(const std::string &said, size_t good) const {
    require(text_.size() >= good && llvm::StringRef(said).take_front(text_.size()) == text_);
    require(!isWhole_ || (status_.isOk() && good == said.size()));
  }
  bool isWhole() const { return isWhole_; }

private:
  Opener opener_{std::string(kStreamKeyBytes, 'k')};
  std::string text_;
  Status status_;
  bool isWhole_ = true;
};

void meddle(llvm::StringRef script) {
  Sealer sealer(std::string(kStreamKeyBytes, 'k'));
  Reader reader;
  std::string said;
  std::vector<std::string> records;
  size_t good = 0; ///< bytes that came as they were said
  auto next = [&script] {
    const uint8_t byte = script.empty() ? 0 : static_cast<uint8_t>(script.front());
    script = script.drop_front(script.empty() ? 0 : 1);
    return byte;
  };
  while (!script.empty()) {
    const uint8_t what = next();
    const size_t count = next(), step = 1 + what / 8;
    const llvm::StringRef words = script.take_front(count);
    script = script.drop_front(words.size());
    if (what % 8 == 7) {
      reader.take(words, words.empty(), step); // bytes of its own
    } else if (what % 8 == 6 && !records.empty()) {
      reader.take(records[count % records.size()], false, step); // once more
    } else {
      std::string record;
      sealer.seal(words, record);
      said += words;
      records.push_back(record);
      const bool isChanged = what % 8 == 5;
      if (isChanged)
        record[count % record.size()] = static_cast<char>(record[count % record.size()] ^ 0x40);
      if (what % 8 == 4)
        reader.take("", false, step); // left out
      else
        reader.take(record, !isChanged, step);
      good += reader.isWhole() ? words.size() : 0;
    }
    reader.check(said, good);
  }
}

} // namespace
} // namespace braid

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const llvm::StringRef bytes(reinterpret_cast<const char *>(data), size);
  braid::meddle(bytes);
  // Without any good record.
  braid::Opener opener(std::string(braid::kStreamKeyBytes, 'k'));
  std::string text;
  (void)opener.feed(bytes, text);
  braid::require(text.empty());
  return 0;
}
