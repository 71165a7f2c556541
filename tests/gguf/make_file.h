// Builds GGUF files for tests, field by field and tensor by tensor.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/blocks.h"

namespace ingot::gguf {

class FileMaker {
 public:
  FileMaker& Text(std::string_view key, std::string_view text) {
    Begin(key, 8);
    AddText(fields_, text);
    return *this;
  }
  FileMaker& Uint32(std::string_view key, uint32_t value) { return Number(key, 4, value); }
  FileMaker& Float(std::string_view key, float value) { return Number(key, 6, value); }
  FileMaker& Bool(std::string_view key, bool value) { return Number(key, 7, static_cast<uint8_t>(value)); }
  FileMaker& Texts(std::string_view key, const std::vector<std::string>& texts) {
    Begin(key, 9);
    Add(fields_, uint32_t{8});
    Add(fields_, uint64_t{texts.size()});
    for (const std::string& text : texts) AddText(fields_, text);
    return *this;
  }
  template <typename T>
  FileMaker& Numbers(std::string_view key, uint32_t type, const std::vector<T>& values) {
    Begin(key, 9);
    Add(fields_, type);
    Add(fields_, uint64_t{values.size()});
    for (const T value : values) Add(fields_, value);
    return *this;
  }
  template <typename T>
  FileMaker& Number(std::string_view key, uint32_t type, T value) {
    Begin(key, type);
    Add(fields_, value);
    return *this;
  }
  // `shape` in Hugging Face's order.
  FileMaker& Tensor(std::string_view name, std::vector<uint64_t> shape, uint32_t type, std::string_view bytes) {
    AddText(table_, name);
    Add(table_, static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i > 0; --i) Add(table_, shape[i - 1]);
    Add(table_, type);
    Add(table_, uint64_t{data_.size()});
    data_ += bytes;
    data_.resize((data_.size() + 31) / 32 * 32);
    ++tensors_;
    return *this;
  }
  FileMaker& Floats(std::string_view name, std::vector<uint64_t> shape, const std::vector<float>& values) {
    return Tensor(name, std::move(shape), 0,
                  std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  }

  std::string Bytes() const {
    std::string out = "GGUF";
    Add(out, uint32_t{3});
    Add(out, tensors_);
    Add(out, count_);
    out += fields_ + table_;
    out.resize((out.size() + 31) / 32 * 32);
    return out + data_;
  }
  void Write(const std::string& path) const { std::ofstream(path, std::ios::binary) << Bytes(); }

 private:
  template <typename T>
  static void Add(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static void AddText(std::string& to, std::string_view text) {
    Add(to, uint64_t{text.size()});
    to += text;
  }
  void Begin(std::string_view key, uint32_t type) {
    AddText(fields_, key);
    Add(fields_, type);
    ++count_;
  }

  std::string fields_, table_, data_;
  uint64_t count_ = 0, tensors_ = 0;
};

}  // namespace ingot::gguf
