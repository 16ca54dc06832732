#pragma once

/// The records of a rank's calls, in the order in which it made them. Programs call in loops, so a log keeps
/// what calls have in common once, as a form, and for each call little more than the number of its form.
///
/// Shapes  call i is number i of those that are in the log. It is read as a CallRecord, which is made when it
///         is read: a loop over a log, and an index into it, give values.
/// Exact   a log reads as the records that were added. Two calls of one form may have two forms in the log,
///         because forms are only remembered by a small table.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "sim/comm/block_list.h"
#include "sim/comm/call.h"

namespace sim {

class CallLog {
 public:
  using value_type = CallRecord;

  /// What calls have in common, and its key.
  struct Form : CallRecord {
    explicit Form(const CallRecord& call) : CallRecord(call), its_key(call.key()) {}
    CallKey its_key;
  };

  /// Goes through the calls of a log, which must not change meanwhile.
  class Iterator {
   public:
    using iterator_concept = std::random_access_iterator_tag;
    using iterator_category = std::input_iterator_tag;  // because it gives values
    using value_type = CallRecord;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = CallRecord;

    Iterator() = default;
    Iterator(const CallLog& log, std::ptrdiff_t call) : log_(&log), call_(call) {}
    CallRecord operator*() const { return (*log_)[static_cast<std::size_t>(call_)]; }
    CallRecord operator[](std::ptrdiff_t n) const { return *(*this + n); }
    Iterator& operator++() { return *this += 1; }
    Iterator operator++(int) { return {*log_, call_++}; }
    Iterator& operator--() { return *this -= 1; }
    Iterator operator--(int) { return {*log_, call_--}; }
    Iterator& operator+=(std::ptrdiff_t n) {
      call_ += n;
      return *this;
    }
    Iterator& operator-=(std::ptrdiff_t n) { return *this += -n; }
    friend Iterator operator+(Iterator at, std::ptrdiff_t n) { return at += n; }
    friend Iterator operator+(std::ptrdiff_t n, Iterator at) { return at += n; }
    friend Iterator operator-(Iterator at, std::ptrdiff_t n) { return at -= n; }
    std::ptrdiff_t operator-(const Iterator& other) const { return call_ - other.call_; }
    bool operator==(const Iterator& other) const { return call_ == other.call_; }
    auto operator<=>(const Iterator& other) const { return call_ <=> other.call_; }

   private:
    const CallLog* log_ = nullptr;
    std::ptrdiff_t call_ = 0;
  };

  CallLog() = default;
  CallLog(std::initializer_list<CallRecord> calls) {
    for (const CallRecord& call : calls) push_back(call);
  }

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  CallRecord operator[](std::size_t call) const {
    const Entry& entry = entries_[call];
    CallRecord record = forms_[entry.form];
    record.sequence = entry.sequence;
    record.waited = entry.waited;
    record.continues_batch = entry.continues_batch;
    return record;
  }
  CallRecord front() const { return (*this)[0]; }
  CallRecord back() const { return (*this)[size() - 1]; }
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, static_cast<std::ptrdiff_t>(size())}; }

  /// The forms of the calls. Their sequence numbers mean nothing, and neither does whether they were waited
  /// for. There may be forms of calls that are no longer in the log.
  std::span<const Form> forms() const { return forms_; }
  /// Calls function(form, sequence) for each of the first calls: with the number of its form, and with its
  /// sequence number.
  template <typename Function>
  void for_first(std::size_t calls, const Function& function) const {
    entries_.for_first(calls, [&](const Entry& entry) { function(entry.form, entry.sequence); });
  }
  bool was_waited_for(std::size_t call) const { return entries_[call].waited; }

  void push_back(const CallRecord& call) { add(call) = call.waited; }
  /// Adds a call that nobody has waited for. Returns whether it was waited for, which may be set as long as
  /// the call is in the log.
  bool& add(const CallRecord& call);
  /// Adds a call like add(), if its form is remembered, and otherwise returns null. Only the operations whose
  /// bytes follow from the count have forms that are remembered.
  [[gnu::always_inline]] bool* add_known(const Call& call, const ProcessGroup& group) {
    const std::uint32_t known = known_[slot_of(group, call.site, call.count)];
    if (known == 0 || !is_of(forms_[known - 1], call, group)) return nullptr;
    return &add_entry(call.sequence, known - 1, call.continues_batch);
  }
  void set_waited(std::size_t call) { entries_[call].waited = true; }
  /// Returns the number of calls that nobody has waited for.
  std::size_t not_waited_for() const;
  /// Removes the first calls, all of which were waited for.
  void remove_first(std::size_t calls) { entries_.remove_first(calls); }

 private:
  struct Entry {
    std::int64_t sequence = 0;
    std::uint32_t form = 0;
    bool waited = false;
    bool continues_batch = false;
  };
  static constexpr std::size_t kKnown = 16;

  /// Whether a call has a form, and all calls of its key have: the bytes of uneven blocks may differ.
  [[gnu::always_inline]] static bool is_of(const Form& form, const Call& call, const ProcessGroup& group) {
    return form.group == &group && form.its_key == call.key && form.site.name == call.site.name &&
           form.site.file == call.site.file && form.site.line == call.site.line &&
           call.operation != Operation::all_to_all_uneven;
  }

  [[gnu::always_inline]] bool& add_entry(std::int64_t sequence, std::uint32_t form, bool continues_batch) {
    Entry& entry = entries_.add();
    entry.sequence = sequence;
    entry.form = form;
    entry.continues_batch = continues_batch;
    return entry.waited;
  }

  static std::size_t slot_of(const ProcessGroup& group, const Site& site, std::int64_t count) {
    const std::uint64_t key = (reinterpret_cast<std::uintptr_t>(&group) >> 4) ^
                              (reinterpret_cast<std::uintptr_t>(site.name) << 8) ^
                              (static_cast<std::uint64_t>(count) << 24);
    return key * 0x9e3779b97f4a7c15U >> 60;
  }

  BlockList<Entry, 16> entries_;
  std::vector<Form> forms_;
  std::array<std::uint32_t, kKnown> known_{};  // by slot: one more than the form used last; 0: none
};

}  // namespace sim
