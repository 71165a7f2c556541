// Holds the rendering state that functions, filters, and tests use.
#pragma once

#include <ctime>
#include <memory>
#include <vector>

#include "text/jinja/value.h"

namespace ingot::text::jinja {

// A namespace(), the only object that a template can modify.
class Namespace final : public Object {
 public:
  const char* type_name() const override { return "Namespace"; }
  std::string Repr() const override;
  std::optional<Value> Attribute(std::string_view name) const override;
  // Fails for names that begin with an underscore, as in Hugging Face.
  void Set(std::string_view name, Value value);
  void Clear() { attributes_.clear(); }

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

class Runtime {
 public:
  explicit Runtime(std::timespec now) : now_(now) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const std::timespec& now() const { return now_; }
  // A namespace may contain itself, so the runtime's destructor clears all namespaces that it created.
  std::shared_ptr<Namespace> MakeNamespace();

 private:
  const std::timespec now_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

using Filter = Value (*)(Runtime& runtime, const Value& value, const Args& args);
using Test = bool (*)(Runtime& runtime, const Value& value, const Args& args);
using Function = Value (*)(Runtime& runtime, const Args& args);
// Return nullptr if there is no such name.
Filter FindFilter(std::string_view name);
Filter FindTextFilter(std::string_view name);
Filter FindSequenceFilter(std::string_view name);
Test FindTest(std::string_view name);
// Returns the global names in chat templates: range, dict, namespace, joiner, cycler, raise_exception, and
// strftime_now.
const std::vector<std::pair<std::string, Value>>& Globals();
Value CallFilter(Runtime& runtime, std::string_view name, const Value& value, const Args& args);
bool RunTest(Runtime& runtime, Test test, const Value& value, const Args& args);
bool CallTest(Runtime& runtime, std::string_view name, const Value& value, const Args& args);

}  // namespace ingot::text::jinja
