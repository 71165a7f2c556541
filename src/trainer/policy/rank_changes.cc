#include "trainer/policy/rank_changes.h"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "trainer/parallel/wire.h"

namespace ingot::trainer {
namespace {

template <typename T>
std::string_view TextOf(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// The text must hold a whole number of values.
template <typename T>
std::vector<T> VectorOf(std::string_view text) {
  std::vector<T> values(text.size() / sizeof(T));
  if (!text.empty()) std::memcpy(values.data(), text.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

std::string EncodeChanges(const std::map<std::string, RoundedParameter>& changes) {
  Writer writer;
  for (const auto& [name, one] : changes) {
    writer.PutText(name)
        .Put(one.of_words)
        .Put(one.checksum)
        .Put(one.changes.words())
        .PutText(TextOf(one.changes.entries()));
    writer.PutText(TextOf(std::span<const std::byte>(*one.values)));
  }
  return writer.Release();
}

absl::Status DecodeChanges(std::string_view message, std::map<std::string, RoundedParameter>& all) {
  Reader reader(message);
  while (!reader.done()) {
    const std::string name(reader.GetText());
    const bool of_words = reader.Get<bool>();
    const auto checksum = reader.Get<uint64_t>();
    const auto words = reader.Get<int64_t>();
    const std::string_view entries = reader.GetText(), values = reader.GetText();
    INGOT_RETURN_IF_ERROR(reader.status());
    RoundedParameter& one = all[name];
    one.changes = {words, VectorOf<uint64_t>(entries)};
    one.values = VectorOf<std::byte>(values);
    one.of_words = of_words;
    one.checksum = checksum;
  }
  return absl::OkStatus();
}

}  // namespace ingot::trainer
