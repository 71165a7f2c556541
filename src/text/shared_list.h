// A list whose entries are shared by its copies: a conversation is copied for each call that changes something of it,
// and is mostly what it was. An entry also carries what has been made of it, so that it is made once for all of them.
//
//   MessageList later = earlier;            // no message is copied
//   later.Mutable(3).reasoning = "...";     // this one is
//   later.Derived<Key>(3, &tag, [](const Message& m) { return KeyOf(m); });   // made once for every list that has it
//
// Values of it are not thread safe; entries may be shared by lists of different threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace ingot::text {

template <typename T>
class SharedList {
 public:
  SharedList() = default;
  SharedList(std::initializer_list<T> entries) {
    for (const T& entry : entries) push_back(entry);
  }

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const T& operator[](size_t i) const { return entries_[i]->value; }
  const T& back() const { return entries_.back()->value; }

  void push_back(T value) { entries_.push_back(std::make_shared<Entry>(std::move(value))); }
  void clear() { entries_.clear(); }
  // Those that are added are T().
  void resize(size_t count) {
    const size_t before = size();
    entries_.resize(count);
    for (size_t i = before; i < count; ++i) entries_[i] = std::make_shared<Entry>(T());
  }

  // To be changed: a copy of its own, if this list was copied or is a copy. What was made of it is forgotten.
  T& Mutable(size_t i) {
    std::shared_ptr<Entry>& entry = entries_[i];
    if (shared_.set) {
      entry = std::make_shared<Entry>(entry->value);
    } else {
      entry->Forget();
    }
    return entry->value;
  }

  // The entry becomes a copy of it that `change` has changed. That is made once for every list that has the entry, as
  // long as `is_changed` says of the copy that it is what `change` makes. Tags as for Derived.
  template <typename IsChanged, typename Change>
  void Exchange(size_t i, const void* tag, const IsChanged& is_changed, const Change& change) {
    std::shared_ptr<Entry>& entry = entries_[i];
    auto copy = std::static_pointer_cast<const Entry>(entry->Find(tag));
    if (copy == nullptr || !is_changed(copy->value)) {
      auto made = std::make_shared<Entry>(entry->value);
      change(made->value);
      entry->Keep(tag, made);
      copy = std::move(made);
    }
    entry = std::const_pointer_cast<Entry>(std::move(copy));
    shared_.set = true;  // with the lists that exchange it later
  }

  // What `make` makes of an entry. Made once per entry and tag; a tag is the address of what stands for it, and has one
  // type. Threads that ask at once may both make it.
  template <typename Made, typename F>
  std::shared_ptr<const Made> Derived(size_t i, const void* tag, const F& make) const {
    const Entry& entry = *entries_[i];
    if (auto known = entry.Find(tag)) return std::static_pointer_cast<const Made>(std::move(known));
    auto made = std::make_shared<const Made>(make(entry.value));
    entry.Keep(tag, made);
    return made;
  }
  // Replaces what was made of it.
  template <typename Made>
  void SetDerived(size_t i, const void* tag, std::shared_ptr<const Made> made) const {
    entries_[i]->Keep(tag, std::move(made));
  }

  class const_iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = const T&;
    const_iterator() = default;
    const_iterator(const SharedList& list, size_t at) : list_(&list), at_(at) {}
    reference operator*() const { return (*list_)[at_]; }
    pointer operator->() const { return &(*list_)[at_]; }
    const_iterator& operator++() {
      ++at_;
      return *this;
    }
    const_iterator operator++(int) {
      const_iterator before = *this;
      ++at_;
      return before;
    }
    const_iterator operator+(size_t count) const { return {*list_, at_ + count}; }
    bool operator==(const const_iterator& other) const { return at_ == other.at_; }
    difference_type operator-(const const_iterator& other) const {
      return static_cast<difference_type>(at_) - static_cast<difference_type>(other.at_);
    }

   private:
    const SharedList* list_ = nullptr;
    size_t at_ = 0;
  };
  const_iterator begin() const { return {*this, 0}; }
  const_iterator end() const { return {*this, size()}; }

 private:
  struct Entry {
    explicit Entry(T v) : value(std::move(v)) {}

    std::shared_ptr<const void> Find(const void* tag) const ABSL_LOCKS_EXCLUDED(mu) {
      base::MutexLock lock(mu);
      for (const auto& [of, made] : derived) {
        if (of == tag) return made;
      }
      return nullptr;
    }
    void Keep(const void* tag, std::shared_ptr<const void> made) const ABSL_LOCKS_EXCLUDED(mu) {
      base::MutexLock lock(mu);
      for (auto& [of, kept] : derived) {
        if (of == tag) {
          kept = std::move(made);
          return;
        }
      }
      derived.emplace_back(tag, std::move(made));
    }
    void Forget() ABSL_LOCKS_EXCLUDED(mu) {
      base::MutexLock lock(mu);
      derived.clear();
    }

    T value;
    mutable base::Mutex mu;
    mutable std::vector<std::pair<const void*, std::shared_ptr<const void>>> derived ABSL_GUARDED_BY(mu);
  };

  // Set in a list that was copied and in the copy, which may then be of different threads: how many lists have an entry
  // at this moment does not say what another thread has done with it.
  struct Shared {
    Shared() = default;
    Shared(const Shared& other) : set(true) { other.set = true; }
    Shared& operator=(const Shared& other) {
      set = other.set = true;
      return *this;
    }
    Shared(Shared&& other) noexcept : set(other.set.load()) {}
    Shared& operator=(Shared&& other) noexcept {
      set = other.set.load();
      return *this;
    }
    mutable std::atomic<bool> set{false};
  };

  std::vector<std::shared_ptr<Entry>> entries_;
  Shared shared_;
};

}  // namespace ingot::text
