// A queue in one piece of memory, which grows when it is full and stays: what passes through costs no allocation.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace verbmq {

template <typename element>
class fifo {
 public:
  bool empty() const noexcept { return count_ == 0; }
  size_t size() const noexcept { return count_; }

  /// The first is number 0.
  element& operator[](size_t number) noexcept { return places_[place(number)]; }
  const element& operator[](size_t number) const noexcept { return places_[place(number)]; }
  element& front() noexcept { return places_[first_]; }

  void push_back(element added) {
    if (count_ == places_.size()) grow();
    places_[place(count_)] = std::move(added);
    ++count_;
  }
  /// What the first one holds is let go of.
  void pop_front() {
    places_[first_] = element();
    first_ = place(1);
    --count_;
  }

 private:
  static constexpr size_t least_places = 8;

  // There are always as many places as a power of two.
  size_t place(size_t number) const noexcept { return (first_ + number) & (places_.size() - 1); }

  void grow() {
    std::vector<element> more(places_.empty() ? least_places : 2 * places_.size());
    for (size_t number = 0; number < count_; ++number) more[number] = std::move(places_[place(number)]);
    places_ = std::move(more);
    first_ = 0;
  }

  std::vector<element> places_;
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace verbmq
