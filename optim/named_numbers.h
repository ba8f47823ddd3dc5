// Numbers by name: what a checkpoint keeps of a schedule.
//
// A class lists its fields once, in fields(x, f) that calls f("gamma", x.gamma) for each;
// NumberWriter and NumberReader are two such f. Next: schedule.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tandem::optim {

using NamedNumbers = std::map<std::string, double>;

/// One number for all parameter groups, or one for each: 0.1 or {0.1, 0.01}.
class PerGroup {
 public:
  PerGroup(double value) : values_{value} {}
  PerGroup(std::initializer_list<double> values) : values_(values) {}
  explicit PerGroup(std::vector<double> values) : values_(std::move(values)) {}

  double operator[](std::size_t group) const {
    return values_.size() == 1 ? values_[0] : values_.at(group);
  }
  std::size_t size() const { return values_.size(); }

 private:
  std::vector<double> values_;
};

/// Writes fields to numbers named prefix + name; those of lists get ".0", ".1", ... as well.
struct NumberWriter {
  NamedNumbers& numbers;
  std::string prefix{};

  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void operator()(const char* name,
                                                                         const T& x) {
    numbers[prefix + name] = double(x);
  }
  template <class T>
  void operator()(const char* name, const std::vector<T>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) numbers[item(name, i)] = double(list[i]);
  }
  void operator()(const char* name, const PerGroup& x);

 private:
  std::string item(const char* name, std::size_t i) const;
};

/// Reads what NumberWriter wrote, and removes it from the numbers: what is left at the end has no
/// field. Lists keep their size. Throws UsageError for a number that is missing, not whole where
/// the field is an integer, or neither 0 nor 1 where it is a bool or an enum (all have two values).
struct NumberReader {
  NamedNumbers& numbers;
  std::string prefix{};

  void operator()(const char* name, double& x) { x = take(prefix + name); }
  void operator()(const char* name, std::int64_t& x) { x = take_integer(prefix + name); }
  template <class T>
  requires(std::is_enum_v<T> || std::is_same_v<T, bool>) void operator()(const char* name, T& x) {
    x = T(take_flag(prefix + name));
  }
  template <class T>
  void operator()(const char* name, std::vector<T>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string one = std::string(name) + "." + std::to_string(i);
      (*this)(one.c_str(), list[i]);
    }
  }
  void operator()(const char* name, PerGroup& x);

  /// Throws UsageError naming a number that no field has taken.
  void check_all_taken() const;

 private:
  double take(const std::string& name);
  std::int64_t take_integer(const std::string& name);
  int take_flag(const std::string& name);
};

}  // namespace tandem::optim
