#include "safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::checkpoint {

namespace {

using nlohmann::json;

// Reads the header event by event, because a document tree neither shows a
// repeated key nor bounds what a hostile header makes it allocate.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  HeaderReader(std::string where, Header& header)
      : where_(std::move(where)), header_(header) {}

  bool start_object(std::size_t) override {
    if (at_ == At::kStart) {
      at_ = At::kTop;
    } else if (at_ == At::kTop) {
      at_ = name_ == kMetadataKey ? At::kMetadata : At::kTensor;
      fields_.clear();
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(std::string& text) override {
    if (at_ == At::kTop) {
      if (!names_.insert(text).second) {
        fail(concat("the name \"", text, "\" occurs twice in the header"));
      }
      name_ = text;
      if (name_ != kMetadataKey) {
        header_.tensors.emplace_back();
        header_.tensors.back().view.name = name_;
      }
    } else {
      key_ = text;
      if (!fields_.insert(text).second) {
        fail(concat(entry(), " has the key \"", text, "\" twice"));
      }
      if (at_ == At::kTensor && key_ != "dtype" && key_ != "shape" &&
          key_ != "data_offsets") {
        fail(concat(entry(), " has an unknown key \"", text,
                    "\"; dtype, shape and data_offsets are known"));
      }
    }
    return true;
  }

  bool end_object() override {
    if (at_ == At::kTensor) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        if (fields_.count(field) == 0) {
          fail(concat(entry(), " has no ", field));
        }
      }
      const HeaderTensor& tensor = header_.tensors.back();
      if (offsets_ != 2 || tensor.begin > tensor.end) {
        fail(concat(entry(), " has data_offsets that are not [begin, end]"));
      }
    }
    at_ = at_ == At::kTop ? At::kEnd : At::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (at_ == At::kTensor && key_ == "shape") {
      at_ = At::kShape;
    } else if (at_ == At::kTensor && key_ == "data_offsets") {
      at_ = At::kOffsets;
      offsets_ = 0;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    at_ = At::kTensor;
    return true;
  }

  bool string(std::string& text) override {
    if (at_ == At::kMetadata) {
      header_.metadata[key_] = text;
    } else if (at_ == At::kTensor && key_ == "dtype") {
      try {
        header_.tensors.back().view.dtype = dtype_from_name(text);
      } catch (const Error& error) {
        fail(concat(entry(), ": ", error.what()));
      }
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (at_ == At::kShape) {
      if (!std::in_range<std::int64_t>(value)) {
        fail(concat(entry(), " has a size of ", value));
      }
      header_.tensors.back().view.shape.push_back(
          static_cast<std::int64_t>(value));
    } else if (at_ == At::kOffsets) {
      HeaderTensor& tensor = header_.tensors.back();
      (offsets_ == 0 ? tensor.begin : tensor.end) = value;
      ++offsets_;
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool number_integer(std::int64_t value) override {
    unexpected(concat("the number ", value));
  }
  bool number_float(double, const std::string& text) override {
    unexpected(concat("the number ", text));
  }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool null() override { unexpected("null"); }
  bool binary(json::binary_t&) override { unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    fail(concat("the header is not JSON at its byte ", position, ": ",
                error.what()));
  }

 private:
  enum class At { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };
  static constexpr std::string_view kMetadataKey = "__metadata__";

  std::string entry() const {
    return at_ == At::kMetadata ? std::string(kMetadataKey)
                                : concat("tensor \"", name_, "\"");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(concat(where_, ": ", what), ExitCode::kBadInput);
  }
  [[noreturn]] void unexpected(const std::string& found) const {
    switch (at_) {
      case At::kStart:
      case At::kEnd:
        fail(concat("the header is ", found, ", expected an object"));
      case At::kTop:
        fail(concat("\"", name_, "\" is ", found, ", expected an object"));
      case At::kMetadata:
        fail(concat("__metadata__ \"", key_, "\" is ", found,
                    ", expected a string"));
      case At::kTensor:
        fail(concat(entry(), " has ", found, " as its ", key_));
      case At::kShape:
      case At::kOffsets:
        fail(concat(entry(), " has ", found, " in its ", key_,
                    ", expected whole numbers from 0"));
    }
    fail(concat("unexpected ", found));
  }

  const std::string where_;
  Header& header_;
  At at_ = At::kStart;
  std::string name_;
  std::string key_;
  std::set<std::string> names_;
  std::set<std::string> fields_;
  int offsets_ = 0;
};

}  // namespace

Header parse_header(std::string_view json_text, std::uint64_t data_bytes,
                    const std::string& where) {
  const auto fail = [&](const std::string& what) {
    throw Error(concat(where, ": ", what), ExitCode::kBadInput);
  };
  Header header;
  HeaderReader reader(where, header);
  json::sax_parse(json_text, &reader);

  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const HeaderTensor& a, const HeaderTensor& b) {
                     return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
                   });
  std::uint64_t covered = 0;
  for (const HeaderTensor& tensor : header.tensors) {
    const std::string name = concat("tensor \"", tensor.view.name, "\"");
    const std::string range =
        concat("bytes ", tensor.begin, " to ", tensor.end, " of the data");
    if (tensor.end > data_bytes) {
      fail(concat(name, " has ", range, ", but the file holds ", data_bytes,
                  "; the file was cut short or its header is damaged"));
    }
    if (tensor.begin != covered) {
      fail(concat(name, " has ", range, ", but the tensors before it end at ",
                  covered, tensor.begin < covered ? " (overlap)" : " (hole)"));
    }
    std::uint64_t needed = 0;
    try {
      needed = tensor.view.bytes();
    } catch (const Error& error) {
      fail(error.what());
    }
    if (needed != tensor.end - tensor.begin) {
      fail(concat(name, " has ", range, " (", tensor.end - tensor.begin,
                  "), but its shape and dtype ", name_of(tensor.view.dtype),
                  " need ", needed));
    }
    covered = tensor.end;
  }
  if (covered != data_bytes) {
    fail(concat("the data has ", data_bytes, " bytes, but the tensors end at ",
                covered));
  }
  return header;
}

}  // namespace osdn::checkpoint
