//===- runtime/simulate/cost_model_json.cpp - encodes and decodes a cost model ----------------===//
//
// describe() lists the fields of each part of a model with their ranges. ModelWriter and
// ModelReader both use this list.
//
//===----------------------------------------------------------------------------------------===//

#include "ir/failure.h"
#include "runtime/json.h"
#include "runtime/simulate/cost_model.h"

#include <fmt/format.h>

namespace braid {
namespace {

constexpr llvm::StringLiteral kFormat = "braid cost model 8";

/// An upper bound of times and rates, so that their sums stay finite.
constexpr double kLargest = 1e15;
/// A lower bound of rates, which are divisors.
constexpr double kLeastRate = 1e-3;

// -- The fields. --

std::optional<LaunchMode> launchModeFromName(llvm::StringRef text) {
  if (text == name(LaunchMode::Eager))
    return LaunchMode::Eager;
  return text == name(LaunchMode::Graph) ? std::optional(LaunchMode::Graph) : std::nullopt;
}

template <class Io> void describe(Io &io, CopyCost &copy) {
  io.number("fixed_us", copy.fixedUs);
  io.number("bytes_per_us", copy.bytesPerUs, kLeastRate);
}

template <class Io> void describe(Io &io, OperationCosts &costs) {
  TransferMode &mode = costs.transferMode;
  io.choice("launch_mode", costs.launchMode, launchModeFromName, "eager or graph");
  io.choice("copies", mode.copies, copyByFromName, "default, engine or kernel");
  io.choice("signals", mode.signals, signalByFromName, "default, memory or kernel");
  io.number("run_us", costs.runUs);
  io.number("issue_us", costs.issueUs);
  io.number("signal_us", costs.signalUs);
  io.object("local", costs.local);
  io.object("pull", costs.pull);
  io.object("push", costs.push);
  io.object("message", costs.message);
}

template <class Io> void describe(Io &io, GemmCost &gemm) {
  constexpr const char *kTypes = "bf16, f16, f32 or f64";
  io.choice("dtype", gemm.dtype, dtypeFromName, kTypes);
  if (io.has("result", gemm.partial.has_value())) {
    gemm.partial = gemm.resultType();
    io.choice("result", *gemm.partial, dtypeFromName, kTypes);
    io.require("result", isPartialType(*gemm.partial, gemm.dtype), "that type, or f32 for 16 bits");
  }
  io.flag("transpose_b", gemm.transposeB);
  io.integer("m", gemm.m);
  io.integer("n", gemm.n);
  io.integer("k", gemm.k);
  io.number("us", gemm.us);
}

template <class Io> void describe(Io &io, NetworkCost &cost) {
  io.number("latency_us", cost.latencyUs);
  io.number("bytes_per_us", cost.bytesPerUs, kLeastRate);
  io.number("rank_bytes_per_us", cost.rankBytesPerUs, kLeastRate);
}

template <class Io> void describe(Io &io, CostModel &model) {
  io.text("machine", model.machine);
  io.integer("ranks", model.ranks);
  io.list("operations", model.operations);
  io.list("gemms", model.gemms);
  io.object("network", model.network);
}

// -- Writer and reader. --

class ModelWriter {
public:
  explicit ModelWriter(JsonWriter &json) : json_(json) {}

  bool has(const char *, bool isThere) { return isThere; }
  void require(const char *, bool, const char *) {}
  void number(const char *key, double value, double = 0, double = 0) { put(key, value); }
  void integer(const char *key, int64_t value) { put(key, value); }
  void flag(const char *key, bool value) { put(key, value); }
  void text(const char *key, const std::string &value) { put(key, value); }
  template <class T, class FromName>
  void choice(const char *key, const T &value, FromName, const char *) {
    put(key, name(value));
  }
  template <class T> void object(const char *key, T &value) {
    json_.attributeObject(key, [&] { describe(*this, value); });
  }
  template <class T> void list(const char *key, std::vector<T> &values) {
    json_.attributeArray(key, [&] {
      for (T &value : values)
        json_.object([&] { describe(*this, value); });
    });
  }

private:
  template <class T> void put(const char *key, const T &value) { json_.attribute(key, value); }

  JsonWriter &json_;
};

/// Reads one object, and records the first error with its path.
class ModelReader {
public:
  ModelReader(const JsonObject &json, Status &status, std::string path = "")
      : json_(json), status_(status), path_(std::move(path)) {}

  bool has(const char *key, bool) { return json_.get(key); }
  void require(const char *key, bool isRight, const std::string &expected) {
    if (!isRight && status_.isOk())
      status_ = badInput("cost model: {}{}: expected {}, got {}", path_, key, expected,
                         jsonGot(json_.get(key)));
  }

  void number(const char *key, double &value, double least = 0, double most = kLargest) {
    value = valueOr(json_.getNumber(key), -1);
    require(key, value >= least && value <= most,
            fmt::format("a number from {} to {}", least, most));
  }
  void integer(const char *key, int64_t &value) {
    constexpr int64_t kMost = int64_t(1) << 40;
    value = valueOr(json_.getInteger(key), 0);
    require(key, value >= 1 && value <= kMost, fmt::format("an integer from 1 to {}", kMost));
  }
  void flag(const char *key, bool &value) {
    require(key, bool(json_.getBoolean(key)), "true or false");
    value = valueOr(json_.getBoolean(key), false);
  }
  void text(const char *key, std::string &value) {
    require(key, bool(json_.getString(key)), "a text");
    value = valueOr(json_.getString(key), "").str();
  }
  template <class T, class FromName>
  void choice(const char *key, T &value, FromName fromName, const char *expected) {
    const std::optional<T> found = fromName(valueOr(json_.getString(key), ""));
    require(key, found.has_value(), expected);
    value = found.value_or(value);
  }
  template <class T> void object(const char *key, T &value) {
    require(key, json_.getObject(key), "an object");
    if (const JsonObject *object = json_.getObject(key))
      describeAt(key, *object, value);
  }
  template <class T> void list(const char *key, std::vector<T> &values) {
    const JsonArray *array = json_.getArray(key);
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
    ModelReader reader(json, status_, path_ + place + ".");
    describe(reader, value);
  }

  const JsonObject &json_;
  Status &status_;
  const std::string path_;
};

} // namespace

std::string CostModel::encode() const {
  CostModel model = *this;
  auto write = [&](JsonWriter &json) {
    json.object([&] {
      json.attribute("format", kFormat);
      ModelWriter writer(json);
      describe(writer, model);
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
        "cost model: format: expected \"{}\", got {}; braid calibrate writes a new file",
        kFormat.str(), jsonGot(object->get("format")));
  CostModel model;
  Status status;
  ModelReader reader(*object, status);
  describe(reader, model);
  return status.isOk() ? Result<CostModel>(std::move(model)) : status;
}

} // namespace braid
