//===- runtime/simulate/cost_model_json.cpp - encodes and decodes a cost model ----------------===//
//
// describe() lists each part's fields and their ranges, for both encoding and decoding.
//
//===----------------------------------------------------------------------------------------===//

#include "ir/failure.h"
#include "runtime/json.h"
#include "runtime/simulate/cost_model.h"

#include <fmt/format.h>

namespace braid {
namespace {

constexpr llvm::StringLiteral kFormat = "braid cost model 8";

/// An upper bound on times and rates, so that their sums stay finite.
constexpr double kLargest = 1e15;
/// A lower bound on rates, which are divisors.
constexpr double kLeastRate = 1e-3;

/// Writes an object, or reads one and records the first error with its path.
class ModelIo {
public:
  explicit ModelIo(JsonWriter &writer) : writer_(&writer) {}
  ModelIo(const JsonObject &json, Status &status, std::string path = "")
      : json_(&json), status_(&status), path_(std::move(path)) {}

  bool has(const char *key, bool isThere) { return writer_ ? isThere : json_->get(key) != nullptr; }
  /// Records an error if `isRight` is false.
  void require(const char *key, bool isRight, const std::string &expected) {
    if (!isRight && status_->isOk())
      *status_ = badInput("cost model: {}{}: expected {}, got {}", path_, key, expected,
                          jsonGot(json_->get(key)));
  }

  void number(const char *key, double &value, double least = 0) {
    if (writer_)
      return writer_->attribute(key, value);
    value = valueOr(json_->getNumber(key), -1);
    require(key, value >= least && value <= kLargest,
            fmt::format("a number from {} to {}", least, kLargest));
  }
  void integer(const char *key, int64_t &value) {
    constexpr int64_t kMost = int64_t(1) << 40;
    if (writer_)
      return writer_->attribute(key, value);
    value = valueOr(json_->getInteger(key), 0);
    require(key, value >= 1 && value <= kMost, fmt::format("an integer from 1 to {}", kMost));
  }
  void flag(const char *key, bool &value) {
    if (writer_)
      return writer_->attribute(key, value);
    require(key, bool(json_->getBoolean(key)), "true or false");
    value = valueOr(json_->getBoolean(key), false);
  }
  void text(const char *key, std::string &value) {
    if (writer_)
      return writer_->attribute(key, value);
    require(key, bool(json_->getString(key)), "a string");
    value = valueOr(json_->getString(key), "").str();
  }
  /// `last` is the last enumerator.
  template <class Enum> void choice(const char *key, Enum &value, Enum last, const char *expected) {
    if (writer_)
      return writer_->attribute(key, name(value));
    const std::optional<Enum> found = enumFromName(valueOr(json_->getString(key), ""), last);
    require(key, found.has_value(), expected);
    value = found.value_or(value);
  }
  template <class T> void object(const char *key, T &value) {
    if (writer_)
      return writer_->attributeObject(key, [&] { describe(*this, value); });
    require(key, json_->getObject(key), "an object");
    if (const JsonObject *object = json_->getObject(key))
      describeAt(key, *object, value);
  }
  template <class T> void list(const char *key, std::vector<T> &values) {
    if (writer_)
      return writer_->attributeArray(key, [&] {
        for (T &value : values)
          writer_->object([&] { describe(*this, value); });
      });
    const JsonArray *array = json_->getArray(key);
    require(key, array, "a list of objects");
    for (const JsonValue &each : array ? *array : JsonArray()) {
      require(key, each.getAsObject(), "a list of objects");
      if (const JsonObject *object = each.getAsObject()) {
        const std::string place = fmt::format("{}[{}]", key, values.size());
        describeAt(place, *object, values.emplace_back());
      }
    }
  }

private:
  template <class T> void describeAt(const std::string &place, const JsonObject &json, T &value) {
    ModelIo io(json, *status_, path_ + place + ".");
    describe(io, value);
  }

  JsonWriter *const writer_ = nullptr; ///< null when reading
  const JsonObject *const json_ = nullptr;
  Status *const status_ = nullptr;
  const std::string path_;
};

// -- The fields. --

void describe(ModelIo &io, CopyCost &copy) {
  io.number("fixed_us", copy.fixedUs);
  io.number("bytes_per_us", copy.bytesPerUs, kLeastRate);
}

void describe(ModelIo &io, OperationCosts &costs) {
  TransferMode &mode = costs.transferMode;
  io.choice("launch_mode", costs.launchMode, LaunchMode::Graph, "eager or graph");
  io.choice("copies", mode.copies, CopyBy::Kernel, "default, engine or kernel");
  io.choice("signals", mode.signals, SignalBy::Kernel, "default, memory or kernel");
  io.number("run_us", costs.runUs);
  io.number("issue_us", costs.issueUs);
  io.number("signal_us", costs.signalUs);
  io.object("local", costs.local);
  io.object("pull", costs.pull);
  io.object("push", costs.push);
  io.object("message", costs.message);
}

void describe(ModelIo &io, GemmCost &gemm) {
  constexpr const char *kTypes = "bf16, f16, f32 or f64";
  io.choice("dtype", gemm.dtype, DType::F64, kTypes);
  if (io.has("result", gemm.partial.has_value())) {
    gemm.partial = gemm.resultType();
    io.choice("result", *gemm.partial, DType::F64, kTypes);
    io.require("result", isPartialType(*gemm.partial, gemm.dtype),
               "the same type as dtype, or f32 if dtype is a 16-bit type");
  }
  io.flag("transpose_b", gemm.transposeB);
  io.integer("m", gemm.m);
  io.integer("n", gemm.n);
  io.integer("k", gemm.k);
  io.number("us", gemm.us);
}

void describe(ModelIo &io, NetworkCost &cost) {
  io.number("latency_us", cost.latencyUs);
  io.number("bytes_per_us", cost.bytesPerUs, kLeastRate);
  io.number("rank_bytes_per_us", cost.rankBytesPerUs, kLeastRate);
}

void describe(ModelIo &io, CostModel &model) {
  io.text("machine", model.machine);
  io.integer("ranks", model.ranks);
  io.list("operations", model.operations);
  io.list("gemms", model.gemms);
  io.object("network", model.network);
}

} // namespace

std::string CostModel::encode() const {
  CostModel model = *this;
  auto write = [&](JsonWriter &json) {
    json.object([&] {
      json.attribute("format", kFormat);
      ModelIo io(json);
      describe(io, model);
    });
  };
  return jsonText(write, 1) + "\n";
}

Result<CostModel> CostModel::decode(llvm::StringRef text) {
  Result<JsonValue> json = parseJson(text);
  if (!json)
    return badInput("cost model: {}", json.status().message());
  JsonObject *object = json->getAsObject();
  if (!object)
    return badInput("cost model: expected an object, got {}", jsonGot(&*json));
  if (valueOr(object->getString("format"), "") != kFormat)
    return badInput(
        "cost model: format: expected \"{}\", got {}; run braid calibrate to write a new file",
        kFormat.str(), jsonGot(object->get("format")));
  CostModel model;
  Status status;
  ModelIo io(*object, status);
  describe(io, model);
  return status.isOk() ? Result<CostModel>(std::move(model)) : status;
}

} // namespace braid
